"""Training on the card: batches of every shape beside Hugging Face's Trainer as `run_mlm` uses it.

The peer is the Trainer with `DataCollatorForLanguageModeling`, in the two ways of `run_mlm`: each
text a row, padded to the longest of its batch (`--line_by_line`), and texts put together and cut
into rows of equal length, which see each other (the default). Ours is `MslmTrainer` with a
`MaskedLoader`. Both train the same encoder, whose weights are random, on the same rows with the
same options, in bfloat16. The peer's rows are lists in memory, which is faster than the table that
`run_mlm` reads.
"""

from __future__ import annotations

import gc
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.gpu.data import open_built
from benchmarks.gpu.part import Numbers, Part
from benchmarks.gpu.scale import Scale
from mslm_data.api.loading import Shards
from mslm_data.torch import MaskedDataset, MslmModel, MslmTrainer
from mslm_data.torch.model.by_row import BY_ROW

RATE, SENTENCES, NOTES, OUTSIDE = "tokens/s", 2.5, 1.3, 2.0
"""The column that is compared, and goals: times the peer's rate on sentences and on packed notes,
and percent of the time outside the model."""

PADDED, GROUPED = "Trainer, rows padded", "Trainer, rows put together"
BUCKETS, FLAT, PACKED = "buckets", "flat rows", "packed rows"
_CACHED = 32
"""Batches on the card from which the model alone is timed."""
_LOADED, _LOADING_SECONDS = 300, 1.5
"""Most batches, and seconds, for which a loader alone is timed."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A way to train.

    Attributes:
        shape: Options of `MaskedDataset.loader`; None for the peer.
        group: Tokens of the peer's rows where they are put together.
        attention: Of the encoder.
    """

    shape: Mapping[str, Any] | None = None
    group: int | None = None
    attention: str = "sdpa"


@dataclass(kw_only=True)
class Subject:
    """Hold the encoder, the rows and the sizes of one comparison.

    Attributes:
        scale: Sizes.
        encoder: A name of `Scale.encoders`.
        shards: The rows.
        rows: Rows of a padded batch.
        tokens: Tokens of a flat batch, about as many.
        width: Tokens of a packed row.
        compiled: Whether `torch.compile` is used.
    """

    scale: Scale
    encoder: str
    shards: Shards
    rows: int
    tokens: int
    width: int
    compiled: bool = False
    collated: Any = field(init=False)

    def __post_init__(self) -> None:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(self.shards.tokenizer),
            **{name: f"[{name[:-6].upper()}]" for name in _SPECIAL_TOKENS},
        )
        self.collated = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)


_SPECIAL_TOKENS = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def sentences(encoder: str, *, compiled: bool) -> Callable[[Scale, Path], Part]:
    """Return the part that trains on sentences."""

    def part(scale: Scale, folder: Path) -> Part:
        shards = open_built(folder, "sentences")
        mean = shards["train"].tokens / len(shards["train"])
        subject = Subject(
            scale=scale,
            encoder=encoder,
            shards=shards,
            rows=scale.sentence_batch,
            tokens=round(scale.sentence_batch * mean),
            width=scale.packed_tokens,
            compiled=compiled,
        )
        return _part(subject, "sentences", SENTENCES)

    return part


def notes(encoder: str, *, compiled: bool) -> Callable[[Scale, Path], Part]:
    """Return the part that trains on notes."""

    def part(scale: Scale, folder: Path) -> Part:
        most = scale.note_rows[encoder]
        shards = open_built(folder, f"notes-{most}")
        mean = shards["train"].tokens / len(shards["train"])
        subject = Subject(
            scale=scale,
            encoder=encoder,
            shards=shards,
            rows=max(1, round(scale.note_batch / mean)),
            tokens=scale.note_batch,
            width=most,
            compiled=compiled,
        )
        return _part(subject, f"notes in rows of {most}", NOTES)

    return part


def _part(subject: Subject, corpus: str, goal: float) -> Part:
    tokens, width = subject.tokens, subject.width
    # A flat row is at least one row long. Multiples let shapes of compiled kernels come again.
    flat = {"batch_tokens": tokens, "flat": True, "multiple_of": 64}
    packed = {"batch_size": max(1, round(tokens / width)), "row_tokens": width}
    forms = {
        PADDED: Form(),
        FLAT: Form(shape=flat),
        PACKED: Form(shape=packed),
        BUCKETS: Form(shape={"batch_size": subject.rows, "bucketed": True}),
        GROUPED: Form(group=width),
    }
    if not subject.compiled:
        forms[f"{FLAT}, attention by row"] = Form(shape=flat, attention=BY_ROW)

    runs = {name: partial(train, subject, form) for name, form in forms.items()}
    return Part(
        title=f"Training {subject.encoder} on {corpus}{', compiled' if subject.compiled else ''}",
        about=[
            f"about {tokens:,} tokens a step: {subject.rows} rows, or a flat row, or packed rows "
            f"of {width}",
            "no dropout of attention weights",
            *(["`torch_compile=True`, with dynamic shapes"] if subject.compiled else []),
        ],
        runs=runs,
        goals=_goals(corpus, goal),
    )


def _goals(corpus: str, times: float) -> dict[str, Any]:
    ours = (FLAT, PACKED) if corpus != "sentences" else (FLAT, PACKED, BUCKETS)

    def faster(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
        peer = rows[PADDED][RATE]
        name, best = max(
            ((name, rows[name][RATE] / peer) for name in ours if name in rows),
            key=lambda pair: pair[1],
            default=("", None),
        )
        if best is None:
            raise KeyError(ours)
        return f"{best:.2f}x by {name}", best >= times

    def outside(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
        share = rows[FLAT]["% outside the model"]
        return f"{share:.1f} %", share < OUTSIDE

    def one_process(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
        made, eaten = rows[FLAT]["batches/s made"], rows[FLAT]["batches/s eaten"]
        return f"{made / eaten:.1f}x what the card eats", made > eaten

    return {
        f"{times}x the padded Trainer": faster,
        f"under {OUTSIDE:g} % of the time outside the model (flat rows)": outside,
        "one loading process is enough (flat rows)": one_process,
    }


# One run ------------------------------------------------------------------------------------------


def train(subject: Subject, form: Form) -> Numbers:
    """Train on batches that are on the card already, then on those of a loader, then load alone."""
    gc.collect()
    if subject.scale.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    transformers.logging.set_verbosity_error()

    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(subject, form, Path(scratch))
        loader = trainer.get_train_dataloader
        ready: Any = [
            {name: column.to(subject.scale.device) for name, column in batch.items()}
            for batch in itertools.islice(loader(), _CACHED)
        ]

        # First, as kernels are chosen and compiled meanwhile.
        trainer.get_train_dataloader = lambda: DataLoader(ready, batch_size=None)
        alone, steps = timed(trainer, subject.scale)
        trainer.get_train_dataloader = loader
        rate, _ = timed(trainer, subject.scale)
        made = loading_rate(loader())

    peak = None
    if subject.scale.device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    return {
        RATE: rate,
        "GiB": peak,
        "% outside the model": 100 * max(0.0, 1 - rate / alone),
        "batches/s made": made,
        "batches/s eaten": steps,
    }


def make_trainer(subject: Subject, form: Form, scratch: Path) -> Any:
    """Return a Trainer with a fresh model."""
    scale = subject.scale
    torch.manual_seed(0)
    if subject.compiled:
        # Shapes differ from batch to batch. Else kernels are compiled for the first ones too.
        os.environ["ACCELERATE_DYNAMO_USE_DYNAMIC"] = "1"
    options = dict(scale.encoders[subject.encoder])
    config = AutoConfig.for_model(
        options.pop("model_type"), attn_implementation=form.attention, **options
    )
    with torch.device(scale.device):
        model = AutoModelForMaskedLM.from_config(config)

    arguments = TrainingArguments(
        str(scratch),
        max_steps=scale.warm + scale.steps,
        per_device_train_batch_size=subject.rows,
        use_cpu=scale.device == "cpu",
        bf16=True,
        torch_compile=subject.compiled,
        torch_compile_backend=scale.backend if subject.compiled else None,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    if form.shape is not None:
        dataset = MaskedDataset(subject.shards["train"], "bert")
        loader = dataset.loader(**form.shape)
        return MslmTrainer(
            model=MslmModel.wrap(model, w_elm=1.0, w_blm=1.0),
            args=arguments,
            train_dataset=loader,
        )

    rows = subject.shards["train"].examples(0, len(subject.shards["train"])).input_ids.tolist()
    if form.group is not None:
        rows = grouped(rows, form.group)
        arguments.per_device_train_batch_size = max(1, round(subject.tokens / form.group))
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows],
        data_collator=subject.collated,
    )


def grouped(rows: Iterable[list[int]], width: int) -> list[list[int]]:
    """Put rows together and cut them into rows of equal length, as `run_mlm` does."""
    tokens = list(itertools.chain.from_iterable(rows))
    return [tokens[start : start + width] for start in range(0, len(tokens) - width + 1, width)]


def timed(trainer: Any, scale: Scale) -> tuple[float, float]:
    """Train, and return tokens and steps a second, without padding, after the first steps."""
    tokens: list[Any] = []
    times: list[float] = []
    step = trainer.training_step

    def counted(model: Any, inputs: Any, *others: Any) -> Any:
        tokens.append(inputs["attention_mask"].sum())  # on the card, for which nobody waits
        return step(model, inputs, *others)

    class Clock(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.global_step in (scale.warm, scale.warm + scale.steps):
                if scale.device == "cuda":
                    torch.cuda.synchronize()
                times.append(time.perf_counter())

    clock = Clock()
    trainer.training_step = counted
    trainer.add_callback(clock)
    try:
        trainer.train()
    finally:
        trainer.training_step = step
        trainer.remove_callback(clock)
    seconds = times[1] - times[0]
    return sum(map(int, tokens[scale.warm :])) / seconds, scale.steps / seconds


def loading_rate(loader: Any) -> float:
    """Return the batches a second that a loader makes in this process while nothing trains."""
    begun = time.perf_counter()
    count = 0
    for _ in itertools.islice(loader, _LOADED):
        count += 1
        if time.perf_counter() - begun > _LOADING_SECONDS:
            break
    return count / (time.perf_counter() - begun)
