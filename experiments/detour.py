"""Is an encoder better after a causal detour than after masks alone, at equal tokens?

`python -m experiments.detour` adapts small encoders from a configuration on BC5CDR's training
documents, then trains each as a tagger on their mentions, and scores it on the development
documents. Arms see equally many tokens in batches of equal size. A line of results is a run;
finished runs are skipped. The table is on the page of `experiments.term_weights`.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from transformers import ModernBertConfig, ModernBertForMaskedLM

import mslm_data as md
from benchmarks.report import markdown_table
from experiments.term_weights import SEEDS, TOKENS, build
from mslm_data.torch import MaskedDataset, MslmModel, evaluate

RESULTS = Path(__file__).parent / "results" / "small" / "detour.jsonl"
_PROGRAM = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "causal_detour.py"))

STEPS = 200
"""Steps of the adaptation, of up to `TOKENS` tokens."""
CAUSAL = 160
"""Causal steps of the detour; the rest are masked."""
TAGGED_STEPS = 160
RATE = 1e-3
ARMS = ("none", "joint", "causal, then joint")


def main() -> int:
    """Train what has no line yet."""
    torch.set_num_threads(1)
    shards = None
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(SEEDS):
            for arm in ARMS:
                run = {"arm": arm, "seed": seed, "steps": STEPS}
                if any(line["run"] == run for line in read()):
                    continue
                shards = shards or build("BC5CDR", Path(scratch), masks=True)
                line = {"run": run, "scores": score(adapt(shards, arm, seed), shards, seed)}
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)
    return 0


def adapt(shards: md.Shards, arm: str, seed: int) -> Any:
    """Return an encoder, adapted as the arm says; all arms begin with the weights of the seed."""
    ids = shards["train"].token_ids
    torch.manual_seed(seed)
    config = ModernBertConfig(
        vocab_size=ids.size,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=256,
        pad_token_id=ids.pad,
        bos_token_id=ids.bos,
        eos_token_id=ids.eos,
        cls_token_id=ids.bos,
        sep_token_id=ids.eos,
    )
    model: Any = ModernBertForMaskedLM(config)
    if arm == "none":
        return model

    parts = [{"use": "causal"}, {"use": "joint", "elm": 0.5, "blm": 0.15}]
    strategy = md.strategy("curriculum", steps=[CAUSAL], parts=parts)
    if arm == "joint":
        strategy = md.strategy("joint", elm=0.5, blm=0.15)
    is_decoder = False
    optimizer, schedule = _optimizer(model, STEPS)
    for step, batch in enumerate(_batches(shards["train"], strategy, seed, STEPS)):
        if ("objective" in batch) != is_decoder:
            model = (
                _PROGRAM["as_encoder"](model, config)
                if is_decoder
                else _PROGRAM["as_decoder"](model)
            )
            is_decoder = "objective" in batch
            optimizer, schedule = _optimizer(model, STEPS, done=step)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
        _step(model(**inputs).loss, model, optimizer, schedule)
    return _PROGRAM["as_encoder"](model, config) if is_decoder else model


def score(encoder: Any, shards: md.Shards, seed: int) -> dict[str, float]:
    """Train a tagger from an encoder, and return its scores on the held-out documents."""
    torch.manual_seed(seed)
    model = MslmModel.wrap(encoder, tokenizer=shards.tokenizer, labels=shards.labels).train()
    optimizer, schedule = _optimizer(model, TAGGED_STEPS)
    for batch in _batches(shards["train"], md.strategy("unmasked"), seed, TAGGED_STEPS):
        _step(model(**batch).loss, model, optimizer, schedule)
    found = evaluate(model, shards["test"], labels=shards.labels)
    return {name: found[name] for name in ("micro_f1", "precision", "recall")}


def _batches(split: Any, strategy: Any, seed: int, steps: int) -> Any:
    """Yield a number of batches, of as many epochs as it takes."""
    loader = MaskedDataset(split, strategy, seed=seed).loader(batch_tokens=TOKENS)
    given = 0
    while given < steps:
        for batch in loader:
            yield batch
            given += 1
            if given == steps:
                return


def _optimizer(model: Any, steps: int, *, done: int = 0) -> tuple[Any, Any]:
    """Return an optimizer whose rate rises over a tenth of all steps and then falls to 0."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)

    def share(step: int) -> float:
        place = (step + done + 1) / steps
        return min(place / 0.1, (1 - place) / 0.9 + 1e-3)

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, share)


def _step(loss: Any, model: Any, optimizer: Any, schedule: Any) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()


def section(lines: Sequence[Any]) -> str:
    """Return the section of the page: F1 of each arm, and its difference from masks alone."""
    return (
        "\n## A causal detour\n\n"
        "ModernBERTs of four layers and 128 units from a configuration, adapted on BC5CDR's "
        f"training documents for {STEPS} steps of at most {TOKENS:,} tokens ({CAUSAL} of them "
        f"causal), then trained as taggers for {TAGGED_STEPS} steps. F1 on its development "
        f"documents; differences are paired by seed, with t-intervals over {SEEDS} seeds.\n\n"
        + "\n".join(table(lines))
        + "\n"
    )


def table(lines: Sequence[Any]) -> list[str]:
    """Return the table of arms."""
    f1 = {
        arm: np.array([
            line["scores"]["micro_f1"]
            for line in sorted(lines, key=lambda line: line["run"]["seed"])
            if (line["run"]["arm"], line["run"]["steps"]) == (arm, STEPS)
        ])
        for arm in ARMS
    }  # fmt: skip
    rows: list[Sequence[object]] = []
    for arm, scores in f1.items():
        if len(scores) != len(f1["joint"]) or not len(scores):
            continue
        cells = ("-", "-")
        if arm != "joint":
            gains = 100 * (scores - f1["joint"])
            mean, spread = gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))
            reach = stats.t.ppf(0.975, len(gains) - 1) * spread
            cells = (f"{mean:+.1f}", f"{mean - reach:+.1f} to {mean + reach:+.1f}")
        rows.append((arm, f"{100 * scores.mean():.1f}", *cells))
    head = ("adapted by", "F1", "beside joint alone", "95 % interval")
    return markdown_table(head, rows, align="lrrr")


def read() -> list[Any]:
    """Return the lines of all finished runs."""
    if not RESULTS.is_file():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
