"""Does more weight on terms lower a decoder's loss of terms that its training text never has?

`python -m experiments.term_weights` trains small decoders from a configuration, once for each
corpus, weight and seed, for equally many steps on equal rows. A line of results is a run; finished
runs are skipped. `--page` writes docs/results/objectives.md from the lines.

A mention of a held-out document is *unseen* if no mention of the training documents has its text,
whatever the case of letters. Losses are means over tokens, in nats. Arms are paired by seed, which
determines weights and order; intervals are those of `experiments.intervals`, over seeds and
documents.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import mslm_data as md
from benchmarks.report import markdown_table
from experiments import intervals
from mslm_data.data.examples import Examples
from mslm_data.stats import mask_stats
from mslm_data.torch import MaskedDataset, weighted_loss

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "small" / "term-weights.jsonl"
PAGE = ROOT / "docs" / "results" / "objectives.md"

STEPS = {"notes": 150, "BC5CDR": 250}
"""Corpus -> number of steps: the shipped sample of notes, and the training and development
documents of BC5CDR."""
WEIGHTS = (1.0, 2.0, 4.0)
"""Weight of a token in a term, where other words have 1. Both are scaled to a mean of 1."""
SEEDS = 3
TOKENS = 2_048
RATE = 1e-3
KINDS = ("unseen terms", "seen terms", "other words")
_VOCABULARY = 2_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what has no line yet, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page from the lines")
    options = parser.parse_args(arguments)
    if options.page:
        from experiments import detour  # which takes its corpus from here

        PAGE.write_text(page(_read()) + detour.section(detour.read()), encoding="utf-8")
        return 0

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for corpus, steps in STEPS.items():
            shards = None
            for seed in range(SEEDS):
                for weight in WEIGHTS:
                    run = {"corpus": corpus, "weight": weight, "seed": seed, "steps": steps}
                    if any(line["run"] == run for line in _read()):
                        continue
                    shards = shards or build(corpus, Path(scratch))
                    line = {"run": run, "scores": score(*train(shards, run), shards)}
                    with RESULTS.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(run, _means(line), flush=True)
    return 0


def build(corpus: str, scratch: Path, *, masks: bool = False) -> md.Shards:
    """Build a corpus with a byte-level BPE of its own training text, documents as rows.

    Args:
        corpus: Key of `STEPS`.
        scratch: Folder to build in.
        masks: Whether the tokenizer is that of an encoder: with a mask token, and an end of each
            row instead of each document. Default: that of a decoder.
    """
    given: dict[str, Any] = {"sample": True}
    source = "mimic"
    if corpus == "BC5CDR":
        source = "auto"
        folder = Path(os.environ["MSLM_DATA_REAL"]) / "pubtator" / "bc5cdr"
        (scratch / "documents").mkdir()
        for split, name in (("train", "Training"), ("test", "Development")):
            shutil.copyfile(
                folder / f"CDR_{name}Set.PubTator.txt", scratch / "documents" / f"{split}.pubtator"
            )
        given = {"input": scratch / "documents"}

    given["options"] = {"encode.join": "document", "encode.max_tokens": 256, "source.max_loss": 1}
    with_texts = {**given, "options": given["options"] | {"encode.keep_text": True}}
    if "input" in given:
        with_texts["tokenizer"] = ROOT / "vocab" / "sample" / "vocab.txt"
    texts = md.build(source, out=scratch / corpus / "texts", **with_texts)["train"]
    core = tokenizers.Tokenizer(models.BPE(unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.train_from_iterator(
        [texts[row]["text"] for row in range(len(texts))],
        trainers.BpeTrainer(
            vocab_size=_VOCABULARY,
            special_tokens=["<pad>", "<s>", "</s>", *(["<mask>"] if masks else [])],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>" if masks else "<s> $A", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    given["tokenizer"] = scratch / corpus / "tokenizer.json"
    core.save(str(given["tokenizer"]))
    given["options"] = given["options"] | {"encode.eos": not masks}
    return md.build(source, out=scratch / corpus / "shards", **given)


def train(shards: md.Shards, run: dict[str, Any]) -> tuple[Any, list[str]]:
    """Train a decoder; return it, and the terms of the training text."""
    split, strategy = shards["train"], md.strategy("causal")
    stats = mask_stats(split.chunks, strategy, labels=split.labels)
    weights = md.scaled_weights(run["weight"], 1, n_elm=stats.n_elm, n_blm=stats.n_blm)
    loader = MaskedDataset(split, strategy, seed=run["seed"]).loader(
        batch_tokens=TOKENS, flat=True, weights=weights
    )
    torch.manual_seed(run["seed"])
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=split.token_ids.size,
            hidden_size=128,
            intermediate_size=344,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=256,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=run["steps"], pct_start=0.1
    )
    step = 0
    while step < run["steps"]:
        for batch in loader:
            inputs = {name: batch[name] for name in ("input_ids", "position_ids")}
            logits = model(**inputs, use_cache=False).logits
            loss = weighted_loss(logits, batch["labels"], batch["loss_weights"], causal=True)
            (loss / (batch["labels"] != -100).sum()).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            if step == run["steps"]:
                break
    return model.eval(), terms_of(split.examples(), shards)


def terms_of(examples: Examples, shards: md.Shards) -> list[str]:
    """Return the text of each mention, in lower case."""
    tokenizer = tokenizers.Tokenizer.from_file(str(shards.tokenizer))
    texts = []
    for row in range(len(examples)):
        ids = examples.input_ids[row].tolist()
        spans = zip(examples.span_starts[row], examples.span_ends[row], strict=True)
        texts += [tokenizer.decode(ids[start:end]).strip().casefold() for start, end in spans]
    return texts


def score(model: Any, trained: Sequence[str], shards: md.Shards) -> dict[str, Any]:
    """Return tokens and summed loss of each kind of token, by document."""
    known = set(trained)
    names = [name for name in shards.splits if name != "train"]
    documents: dict[str, npt.NDArray[np.float64]] = {}
    for name in names:
        examples = shards[name].examples()
        texts = iter(terms_of(examples, shards))
        for row in range(len(examples)):
            ids = torch.tensor(examples.input_ids[row].astype(np.int64))[None]
            with torch.inference_mode():
                logits = model(ids, use_cache=False).logits[0, :-1].log_softmax(-1)
            losses = -logits.gather(1, ids[0, 1:, None])[:, 0].double().numpy()

            kinds = np.full(ids.shape[1], KINDS.index("other words"))
            kinds[(examples.word_ids[row] < 0) & (examples.input_ids[row] != examples.ids.eos)] = -1
            for start, end in zip(examples.span_starts[row], examples.span_ends[row], strict=True):
                kinds[start:end] = KINDS.index("seen terms" if next(texts) in known else KINDS[0])
            counts = documents.setdefault(shards[name][row]["doc_id"], np.zeros((len(KINDS), 2)))
            for kind in range(len(KINDS)):
                of_kind = kinds[1:] == kind
                counts[kind] += (of_kind.sum(), losses[of_kind].sum())
    every = np.array([documents[name] for name in sorted(documents)])
    return {kind: every[:, number].tolist() for number, kind in enumerate(KINDS)}


def page(lines: Sequence[Any]) -> str:
    """Return the page: the loss of each kind of token, and its difference from a weight of 1."""
    parts = [
        "# Terms in small decoders, and a causal detour\n\n"
        "Written by `python -m experiments.term_weights --page` from its lines. Decoders of two "
        "layers and 128 units, trained from scratch on equal batches of at most "
        f"{TOKENS:,} tokens. Losses are nats a token on held-out "
        "documents; a term is *unseen* if no training document has it. Differences are from a "
        f"weight of 1, with 95 % intervals over {SEEDS} seeds and documents; below 0 is better.\n"
    ]
    for corpus, steps in STEPS.items():
        asked = {"corpus": corpus, "steps": steps}
        own = [line for line in lines if asked.items() <= line["run"].items()]
        rows: list[Sequence[object]] = []
        for kind in KINDS:
            base = _counts(own, WEIGHTS[0], kind)
            if not len(base):
                continue
            for weight in WEIGHTS:
                counts = _counts(own, weight, kind)
                gain = intervals.difference(base, counts, score=_loss)
                mean = _loss(counts.sum(axis=1)).mean()
                cells = ("-", "-") if weight == 1 else _cells(gain)
                rows.append((kind, f"{weight:g}", f"{mean:.3f}", *cells))
        documents = len(own[0]["scores"][KINDS[0]]) if own else 0
        parts.append(f"\n## {corpus}: {documents} held-out documents, {steps} steps\n")
        head = ("tokens", "weight of terms", "loss", "difference", "95 % interval")
        parts.append("\n".join(markdown_table(head, rows, align="lrrrr")) + "\n")
    return "\n".join(parts)


def _counts(lines: Sequence[Any], weight: float, kind: str) -> npt.NDArray[np.float64]:
    """Return tokens and loss by seed and document, `[S, G, 2]`."""
    own = sorted(
        (line for line in lines if line["run"]["weight"] == weight),
        key=lambda line: line["run"]["seed"],
    )
    return np.array([line["scores"][kind] for line in own], np.float64)


def _loss(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return counts[..., 1] / np.maximum(counts[..., 0], 1)


def _cells(gain: intervals.Difference) -> tuple[str, str]:
    return f"{gain.mean:+.3f}", f"{gain.low:+.3f} to {gain.high:+.3f}"


def _means(line: Any) -> dict[str, float]:
    """Return the mean loss of each kind of token of a run."""
    scores = line["scores"]
    return {kind: round(float(_loss(np.sum(scores[kind], axis=0))), 3) for kind in KINDS}


def _read() -> list[Any]:
    if not RESULTS.is_file():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
