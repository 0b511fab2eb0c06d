"""Training itself: tokens a second, peak memory, and what of an epoch is not the model's.

Ours is an `MslmModel` fed by `MaskedDataset.loader`; the peer is Hugging Face's Trainer with
`DataCollatorForLanguageModeling` as `run_mlm` sets it up: rows in random order, each batch padded
to its longest row, logits of all positions. Both train the same encoder, whose weights are random,
on the same rows with the same optimiser, in bfloat16 on one thread. Each turn of each is a process
of its own, so that its peak of memory is its own too.
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
from benchmarks.harness import MET, MISSED, Goal, Results, Row, row_of
from benchmarks.inputs import ROOT, Inputs
from mslm_data.api.loading import Shards, load
from mslm_data.batches.batches import Batches
from mslm_data.torch import (
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
    MslmTrainer,
    encoder_inputs,
)


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
"""Options of a `BertConfig`."""
_WARM = 2
"""Steps before the measured ones, in which memory is taken and kernels are chosen."""
_LOSS_STEPS = 60
_LOSS_SEEDS = 3
_RATE = 15
"""Percent of tokens that are predicted: strategy `bert` and the peer's collator draw alike."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A short training run, which a process of its own does.

    Attributes:
        who: Which program trains: `peer` is Hugging Face's Trainer as `run_mlm` sets it up, `loop`
            ours in a plain loop, and `trainer` ours in `MslmTrainer`.
        folder: The built folder.
        encoder: One of `ENCODERS`.
        steps: Measured steps.
        seed: Of weights, order and masks.
        rows: Rows of a batch, for the two Trainers.
        rate: Learning rate.
        shape: Options of `MaskedDataset.loader`, or of `MaskingCollator` in `MslmTrainer`.
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
    """The speed, memory and losses of a turn. Its first `_WARM` steps do not count.

    Attributes:
        tokens_per_second: Tokens that the steps trained on, without padding, by their seconds.
        peak: Most memory that the process held at a time, in MiB.
        losses: The loss of each step, in nats.
        ours: The part of the steps' time, in `[0, 1]`, that went into making batches and the
            arguments of the encoder, and not into the model. It is measured where `who` is `loop`,
            and 0 elsewhere.
    """

    tokens_per_second: float
    peak: float
    losses: list[float]
    ours: float = 0.0


# What is compared ---------------------------------------------------------------------------------


def run(inputs: Inputs, scratch: Path) -> Results:
    """Train both encoders at two sizes of batches, and a small one for its losses."""
    shards = folders.sentences(inputs, scratch, copies=1)
    split = shards["train"]
    mean = split.record.tokens / len(split)

    rows = [
        *_compare(shards, "MiniLM", rows=32, steps=8, rounds=3, goal=6, in_trainer=True),
        *_compare(shards, "MiniLM", rows=128, steps=3, rounds=2, goal=12),
        *_compare(shards, "2-layer BERT", rows=32, steps=6, rounds=2),
        _padding(shards),
        _losses(shards),
    ]
    says = (
        f"Training: {len(split):,} rows of {mean:.1f} tokens, "
        f"a vocabulary of {split.token_ids.size:,}, AdamW (fused), bfloat16 autocast, one thread"
    )
    return Results(rows=rows, inputs=[says])


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
    """Compare all forms of our batches with the peer, at about the same tokens a step."""
    split = shards["train"]
    tokens = round(rows * split.record.tokens / len(split))
    width = 256
    forms: dict[str, tuple[str, dict[str, Any], str]] = {
        "length buckets": ("loop", {"batch_size": rows, "bucketed": True}, f"{rows} rows a step"),
        "flat rows": ("loop", {"batch_tokens": tokens, "flat": True}, f"{tokens:,} tokens a step"),
        "packed rows": (
            "loop",
            {"batch_size": max(1, round(tokens / width)), "row_tokens": width},
            f"{max(1, round(tokens / width))} packed rows of {width} tokens a step",
        ),
    }
    if in_trainer:
        says = f"`MslmTrainer` and `MaskingCollator(flat=True)`, {rows} rows a step"
        forms["flat rows in the Trainer"] = ("trainer", {"flat": True}, says)

    about: dict[str, Any] = {"folder": str(shards.folder), "encoder": encoder, "rows": rows}
    turns = {"peer": Turn(who="peer", steps=steps, **about)}
    for name, (who, shape, _) in forms.items():
        turns[name] = Turn(who=who, steps=3 * steps, shape=shape, **about)

    found: dict[str, list[Measured]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            found[name].append(in_process(turn))

    def rates(name: str) -> list[float]:
        return [measured.tokens_per_second for measured in found[name]]

    made = []
    title = f"train {encoder}, {rows} rows a step"
    for name, (_, _, says) in forms.items():
        made.append(
            row_of(
                f"{title}: {name}",
                {"ours": rates(name), "peer": rates("peer")},
                unit="tokens",
                what=f"{says}, only masked positions projected to the vocabulary; the peer is the "
                f"Trainer with `DataCollatorForLanguageModeling`, {rows} rows a step.",
                goal=Goal(peer=goal) if goal and name in ("length buckets", "flat rows") else None,
            )
        )
    made.append(
        row_of(
            f"{title}: flat rows beside length buckets",
            {"ours": rates("flat rows"), "peer": rates("length buckets")},
            unit="tokens",
            what="both ours, as above; rows of a flat batch come in a random order, those of a "
            "bucket are of like length.",
            goal=Goal(peer=0.95),
        )
    )
    made.append(
        row_of(
            f"{title}: peak memory",
            {
                "ours": [measured.peak for measured in found["flat rows"]],
                "peer": [measured.peak for measured in found["peer"]],
            },
            unit="MiB",
            what="the whole process: flat rows, and the peer. Less is better.",
        )
    )
    made.append(_share_of_ours(title, found["flat rows"]))
    return made


def _share_of_ours(title: str, found: Sequence[Measured]) -> Row:
    share = statistics.median(measured.ours for measured in found) * 100
    return Row(
        name=f"{title}: time outside the model",
        what="flat rows: reading, masking, packing, and the arguments of the encoder. Less is "
        "better.",
        unit="%",
        ours=share,
        goal="1 %",
        met=MET if share < 1 else MISSED,
    )


def _padding(shards: Shards) -> Row:
    """Return the share of padding of an epoch in packed rows, and of padded rows in random order.

    It follows from the rows' numbers of tokens, without a model.
    """
    packed = _padding_of(shards, batch_size=8, row_tokens=1024)
    return Row(
        name="padding of packed rows",
        what="8 packed rows of 1,024 tokens a step, over a whole epoch; the peer is batches of 32 "
        "rows in random order, each padded to its longest. Less is better.",
        unit="%",
        ours=packed,
        peer=_padding_of(shards, batch_size=32),
        goal="2 %",
        met=MET if packed < 2 else MISSED,
    )


def _padding_of(shards: Shards, **shape: Any) -> float:
    """Return the percentage of an epoch's positions that no token has."""
    masks = [batch["attention_mask"] for batch in Batches(shards["train"], "bert", **shape)]
    return 100 * (1 - sum(int(mask.sum()) for mask in masks) / sum(mask.size for mask in masks))


def _losses(shards: Shards) -> Row:
    """Compare losses after equal steps of equal batches, whose masks are alike in law."""
    about: dict[str, Any] = {
        "folder": str(shards.folder),
        "encoder": "small BERT",
        "steps": _LOSS_STEPS,
        "rows": 16,
        "rate": 1e-3,
    }
    turns = {
        "ours": Turn(who="trainer", shape={"flat": True}, **about),
        "peer": Turn(who="peer", **about),
    }
    ends: dict[str, list[float]] = {name: [] for name in turns}
    for seed in range(_LOSS_SEEDS):
        for name, turn in turns.items():
            losses = in_process(Turn(**asdict(turn) | {"seed": seed})).losses
            ends[name].append(statistics.mean(losses[-_LOSS_STEPS // 3 :]))

    # The difference that seeds alone make, at three standard errors.
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
    """Take a turn in a process of its own."""
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
    """Take a turn in this process."""
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
        encoder_inputs(batch, model)  # once more than the model does, so that it can be timed
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
    """Train an `MslmModel` by `MslmTrainer`, in whose batches nothing is chosen but their form."""
    model = _wrapped(turn, shards)
    dataset = MaskedDataset(shards["train"], "bert", seed=turn.seed)
    return _trained(
        turn, MslmTrainer, model, dataset, MaskingCollator(**turn.shape), [MaskEpochCallback()]
    )


def _peer(turn: Turn, shards: Shards) -> Measured:
    """Train the plain model by the Trainer, as `run_mlm` does."""
    from benchmarks.batches import usual_table

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(shards.tokenizer),
        **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=_RATE / 100)
    with tempfile.TemporaryDirectory() as scratch:
        table = usual_table(shards, Path(scratch))
        return _trained(turn, Trainer, _encoder(turn, shards), table, collator, [])


def _trained(
    turn: Turn,
    trainer: Callable[..., Any],
    model: Any,
    dataset: Any,
    collator: Callable[[Any], dict[str, Any]],
    callbacks: list[Any],
) -> Measured:
    """Run a Trainer, and measure its steps."""
    clock = Clock()
    tokens: list[int] = []

    def counted(rows: Any) -> dict[str, Any]:
        batch = collator(rows)
        tokens.append(int(batch["attention_mask"].sum()))
        return batch

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
        made = trainer(
            model=model,
            args=options,
            train_dataset=dataset,
            data_collator=counted,
            callbacks=[*callbacks, Steps()],
        )
        made.train()
    losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    return clock.measured(losses=losses[_WARM:])


def _wrapped(turn: Turn, shards: Shards) -> MslmModel:
    """Return ours, whose loss is the peer's: a plain mean over predicted tokens."""
    return MslmModel.wrap(_encoder(turn, shards), w_elm=1.0, w_blm=1.0)


def _encoder(turn: Turn, shards: Shards) -> BertForMaskedLM:
    vocabulary = shards["train"].token_ids.size
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, **ENCODERS[turn.encoder]))


class Clock:
    """Counts tokens and losses of steps from its start on."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self._begun = time.perf_counter()
        self._tokens = 0
        self._losses: list[float] = []
        self.seconds = 0.0

    def count(self, tokens: int, loss: float) -> None:
        """Count a step that has just ended."""
        self._tokens += tokens
        self._losses.append(loss)
        self.seconds = time.perf_counter() - self._begun

    def measured(self, *, ours: float = 0.0, losses: list[float] | None = None) -> Measured:
        """Return what was measured until the last step's end."""
        return Measured(
            tokens_per_second=self._tokens / self.seconds,
            peak=_peak(),
            losses=self._losses if losses is None else losses,
            ours=ours,
        )


def _peak() -> float:
    """Return the MiB of this process at its peak, without what it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(asdict(take(Turn(**json.loads(sys.argv[1]))))))
