"""Training against `run_mlm`: tokens per second, peak memory, and time outside the model.

`python -m benchmarks epoch`

Ours is an `MslmModel` fed by `MaskedDataset.loader`. The peer is transformers' Trainer with
`DataCollatorForLanguageModeling`, set up like `run_mlm`: rows in random order, batches padded to
their longest row, logits of all positions. Both train an encoder with the same random weights on
the same rows with the same optimizer, in bfloat16 on one thread. Each turn runs in its own process,
so that peak memory can be measured.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.optim import AdamW
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks import folders
from benchmarks.harness import MET, MISSED, Goal, Results, Row, make_row, row_at_most
from benchmarks.inputs import ROOT, Inputs
from mslm_data.api.loading import Shards, load
from mslm_data.torch import MaskedDataset, MslmModel, MslmTrainer, encoder_inputs


def _shape(*, layers: int, width: int, heads: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_attention_heads": heads,
    }


ENCODERS: dict[str, Any] = {
    "MiniLM": _shape(layers=6, width=384, heads=12),
    "2-layer BERT": _shape(layers=2, width=768, heads=12),
    "small BERT": _shape(layers=2, width=128, heads=2),
}
"""Name -> options of `BertConfig`."""
_WARM = 2
"""Number of warm-up steps."""
_LOSS_STEPS = 60
_LOSS_SEEDS = 3
_RATE = 15
"""Masking rate in percent, of strategy `bert` and of the peer's collator."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A short training run in its own process.

    Attributes:
        who: Training program: "peer" (transformers' Trainer, set up like `run_mlm`), "loop" (ours
            in a plain loop) or "trainer" (ours in `MslmTrainer`).
        folder: The shard folder.
        encoder: A key of `ENCODERS`.
        steps: Number of measured steps.
        seed: Seed of weights, row order and masks. Default: 0.
        rows: Batch size of "peer". Default: 32.
        rate: Learning rate. Default: 1e-4.
        shape: Options of `MaskedDataset.loader`, except for "peer".
    """

    who: str
    folder: str
    encoder: str
    steps: int
    seed: int = 0
    rows: int = 32
    rate: float = 1e-4
    shape: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Speed, memory and losses of a turn, without its `_WARM` warm-up steps.

    Attributes:
        tokens_per_second: Tokens per second, without padding.
        peak: Peak memory of the process in MiB.
        losses: Loss of each step in nats.
        ours: Share of the time spent on batches and on the arguments of the encoder, in `[0, 1]`.
            Measured only for `who="loop"`, else 0.
    """

    tokens_per_second: float
    peak: float
    losses: list[float]
    ours: float = 0.0


# Comparisons --------------------------------------------------------------------------------------


def run(inputs: Inputs, scratch: Path) -> Results:
    """Compare speed and memory for two encoders, and losses of a small encoder."""
    shards = folders.sentences(inputs, scratch, copies=1)
    split = shards["train"]
    mean = split.record.tokens / len(split)

    rows = [
        *_compare(shards, "MiniLM", rows=32, steps=8, rounds=3, goal=6, in_trainer=True),
        *_compare(shards, "MiniLM", rows=128, steps=3, rounds=2, goal=12),
        *_compare(shards, "2-layer BERT", rows=32, steps=6, rounds=2),
        _losses(shards),
    ]
    caption = (
        f"Training: {len(split):,} rows of {mean:.1f} tokens, "
        f"a vocabulary of {split.token_ids.size:,}, AdamW (fused), bfloat16 autocast, one thread"
    )
    return Results(rows=rows, inputs=[caption])


def _compare(
    shards: Shards,
    encoder: str,
    *,
    rows: int,
    steps: int,
    rounds: int,
    goal: float | None = None,
    in_trainer: bool = False,
) -> list[Row]:
    """Compare our kinds of batches with the peer, at about equal tokens per step.

    Args:
        shards: The rows.
        encoder: A key of `ENCODERS`.
        rows: Batch size of the peer.
        steps: Measured steps of the peer. Ours, which are faster, run three times as many.
        rounds: Number of turns of each.
        goal: Minimum ratio of our speed to the peer's. Default: no goal.
        in_trainer: Whether to run `MslmTrainer` too. Default: False.
    """
    split = shards["train"]
    tokens = round(rows * split.record.tokens / len(split))
    forms: dict[str, tuple[str, dict[str, Any], str]] = {
        "length buckets": ("loop", {"batch_size": rows, "bucketed": True}, f"{rows} rows a step"),
        "flat rows": ("loop", {"batch_tokens": tokens, "flat": True}, f"{tokens:,} tokens a step"),
    }
    if in_trainer:
        shape = {"batch_tokens": tokens, "flat": True}
        caption = f"`MslmTrainer`, {tokens:,} tokens a step"
        forms["flat rows in the Trainer"] = ("trainer", shape, caption)

    about: dict[str, Any] = {"folder": str(shards.folder), "encoder": encoder, "rows": rows}
    # Ours is several times as fast: three times the steps give turns of similar length.
    turns = {"peer": Turn(who="peer", steps=steps, **about)}
    for name, (who, shape, _) in forms.items():
        turns[name] = Turn(who=who, steps=3 * steps, shape=shape, **about)

    measured_by_form: dict[str, list[Measured]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            measured_by_form[name].append(in_process(turn))

    def rates(name: str) -> list[float]:
        return [measured.tokens_per_second for measured in measured_by_form[name]]

    table_rows = []
    title = f"train {encoder}, {rows} rows a step"
    for name, (_, _, caption) in forms.items():
        table_rows.append(
            make_row(
                f"{title}: {name}",
                {"ours": rates(name), "peer": rates("peer")},
                unit="tokens",
                what=f"{caption}, only masked positions projected to the vocabulary; the peer is "
                f"the Trainer with `DataCollatorForLanguageModeling`, {rows} rows a step.",
                goal=Goal(peer=goal) if goal and name in ("length buckets", "flat rows") else None,
            )
        )
    table_rows.append(
        make_row(
            f"{title}: flat rows beside length buckets",
            {"ours": rates("flat rows"), "peer": rates("length buckets")},
            unit="tokens",
            what="both ours, as above; rows of a flat batch come in a random order, those of a "
            "bucket are of like length.",
            goal=Goal(peer=0.95),
        )
    )
    table_rows.append(
        make_row(
            f"{title}: peak memory",
            {
                "ours": [measured.peak for measured in measured_by_form["flat rows"]],
                "peer": [measured.peak for measured in measured_by_form["peer"]],
            },
            unit="MiB",
            what="the whole process: flat rows, and the peer. Less is better.",
        )
    )
    table_rows.append(_outside_row(title, measured_by_form["flat rows"]))
    return table_rows


def _outside_row(title: str, measured_by_form: Sequence[Measured]) -> Row:
    return row_at_most(
        f"{title}: time outside the model",
        statistics.median(measured.ours for measured in measured_by_form) * 100,
        1,
        unit="%",
        what="flat rows: reading, masking, packing, and the arguments of the encoder. Less is "
        "better.",
    )


def _losses(shards: Shards) -> Row:
    """Compare losses after equal steps on the same rows. Masks have the same distribution."""
    about: dict[str, Any] = {
        "folder": str(shards.folder),
        "encoder": "small BERT",
        "steps": _LOSS_STEPS,
        "rows": 16,
        "rate": 1e-3,
    }
    turns = {
        "ours": Turn(who="trainer", shape={"batch_size": 16, "flat": True}, **about),
        "peer": Turn(who="peer", **about),
    }
    ends: dict[str, list[float]] = {name: [] for name in turns}
    for seed in range(_LOSS_SEEDS):
        for name, turn in turns.items():
            losses = in_process(Turn(**asdict(turn) | {"seed": seed})).losses
            ends[name].append(statistics.mean(losses[-_LOSS_STEPS // 3 :]))

    # Three standard errors of the difference of the two means over seeds.
    noise = 3 * sum(statistics.variance(values) / _LOSS_SEEDS for values in ends.values()) ** 0.5
    difference = abs(statistics.mean(ends["ours"]) - statistics.mean(ends["peer"]))
    return Row(
        name=f"loss after {_LOSS_STEPS} steps",
        what=f"a BERT of 2 layers, 128 wide, 16 rows a step: the mean of the last third, over "
        f"{_LOSS_SEEDS} seeds each; ours is `MslmTrainer` with flat rows and strategy `bert`, the "
        f"peer the Trainer as above. They differ by {difference:.3f}, and by {noise:.3f} at most "
        "by chance (three standard errors).",
        unit="nats",
        ours=statistics.mean(ends["ours"]),
        peer=statistics.mean(ends["peer"]),
        goal="equal within noise",
        met=MET if difference <= noise else MISSED,
    )


# One turn -----------------------------------------------------------------------------------------


def in_process(turn: Turn) -> Measured:
    """Run a turn in a child process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.epoch", json.dumps(asdict(turn))],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def take(turn: Turn) -> Measured:
    """Run a turn in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(turn.seed)
    transformers.logging.set_verbosity_error()

    takers = {"peer": _peer, "loop": _loop, "trainer": _trainer}
    return takers[turn.who](turn, load(turn.folder))


def _loop(turn: Turn, shards: Shards) -> Measured:
    """Train an `MslmModel` in a plain loop."""
    model = _wrapped(turn, shards).train()
    optimiser = AdamW(model.parameters(), lr=turn.rate, fused=True)
    dataset = MaskedDataset(shards["train"], "bert", seed=turn.seed)
    batches = _without_end(dataset.loader(**turn.shape))

    clock = Clock()
    ours = 0.0
    for step in range(_WARM + turn.steps):
        if step == _WARM:
            clock.start()
            ours = 0.0

        begun = time.perf_counter()
        batch = next(batches)

        # The model calls this too; an extra call outside it can be timed.
        encoder_inputs(batch, model)
        ours += time.perf_counter() - begun

        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        clock.count(int(batch["attention_mask"].sum()), loss.item())

    return clock.measured(ours=ours / clock.seconds)


def _without_end(loader: Any) -> Iterator[Any]:
    for epoch in itertools.count():
        loader.set_epoch(epoch)
        yield from loader


def _trainer(turn: Turn, shards: Shards) -> Measured:
    """Train an `MslmModel` by `MslmTrainer`."""
    model = _wrapped(turn, shards)
    loader = MaskedDataset(shards["train"], "bert", seed=turn.seed).loader(**turn.shape)
    return _trained(turn, MslmTrainer, model, loader, None)


def _peer(turn: Turn, shards: Shards) -> Measured:
    """Train a plain masked LM by transformers' Trainer, like `run_mlm`."""
    from benchmarks.folders import usual_table

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(shards.tokenizer),
        **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=_RATE / 100)
    with tempfile.TemporaryDirectory() as scratch:
        table = usual_table(shards, Path(scratch))
        return _trained(turn, Trainer, _encoder(turn, shards), table, collator)


def _trained(
    turn: Turn,
    trainer: Callable[..., Any],
    model: Any,
    dataset: Any,
    collator: Callable[[Any], dict[str, Any]] | None,
) -> Measured:
    """Run a Trainer and measure its steps."""
    clock = Clock()
    tokens: list[int] = []

    def count(_: Any, __: Any, batch: dict[str, Any]) -> None:
        tokens.append(int(batch["attention_mask"].sum()))

    model.register_forward_pre_hook(count, with_kwargs=True)

    class Steps(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            step = state.global_step
            if step == _WARM:
                clock.start()
            if step > _WARM:
                clock.count(tokens[step - 1], 0.0)

    with tempfile.TemporaryDirectory() as scratch:
        options = TrainingArguments(
            scratch,
            max_steps=_WARM + turn.steps,
            per_device_train_batch_size=turn.rows,
            learning_rate=turn.rate,
            lr_scheduler_type="constant",
            seed=turn.seed,
            use_cpu=True,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        table_rows = trainer(
            model=model,
            args=options,
            train_dataset=dataset,
            data_collator=collator,
            callbacks=[Steps()],
        )
        table_rows.train()
    losses = [entry["loss"] for entry in table_rows.state.log_history if "loss" in entry]
    return clock.measured(losses=losses[_WARM:])


def _wrapped(turn: Turn, shards: Shards) -> MslmModel:
    """Return our model, whose loss is about the peer's: the mean over masked tokens."""
    return MslmModel.wrap(_encoder(turn, shards), w_elm=1.0, w_blm=1.0, w_mslm=100 / _RATE)


def _encoder(turn: Turn, shards: Shards) -> BertForMaskedLM:
    vocabulary = shards["train"].token_ids.size
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, **ENCODERS[turn.encoder]))


class Clock:
    """Count tokens, losses and seconds since the last call of `start`."""

    def __init__(self) -> None:
        """Start the clock."""
        self.start()

    def start(self) -> None:
        """Restart the clock."""
        self._begun = time.perf_counter()
        self._tokens = 0
        self._losses: list[float] = []
        self.seconds = 0.0

    def count(self, tokens: int, loss: float) -> None:
        """Record a finished step."""
        self._tokens += tokens
        self._losses.append(loss)
        self.seconds = time.perf_counter() - self._begun

    def measured(self, *, ours: float = 0.0, losses: list[float] | None = None) -> Measured:
        """Return the figures up to the last recorded step."""
        return Measured(
            tokens_per_second=self._tokens / self.seconds,
            peak=_peak(),
            losses=self._losses if losses is None else losses,
            ours=ours,
        )


def _peak() -> float:
    """Return the peak memory of this process in MiB, without that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(asdict(take(Turn(**json.loads(sys.argv[1]))))))
