"""Training on a GPU: all kinds of batches against `run_mlm`, in tokens per second.

The peer is transformers' Trainer with `DataCollatorForLanguageModeling`, in the two modes of
`run_mlm`: a text per row, padded to the longest of the batch (`--line_by_line`), and texts
concatenated and cut into rows of equal length, with attention across texts (the default). Ours is
`MslmTrainer` with a `MaskedLoader`. Both train an encoder with the same random weights on the same
rows with the same options, in bfloat16. The peer's rows are lists in memory, which is faster than
the table of `run_mlm`.
"""

from __future__ import annotations

import gc
import itertools
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
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

RATE, SENTENCES, NOTES, OUTSIDE = "tokens/s", 2.5, 1.3, 2.0
"""Column of the goals; minimum ratio to the peer's rate on sentences and on notes; maximum
percentage of the time outside the model."""

PADDED, GROUPED = "Trainer, rows padded", "Trainer, rows put together"
BUCKETS, FLAT = "buckets", "flat rows"
_CACHED = 32
"""Number of batches cached on the GPU, to time the model without loading."""
_LOADED, _LOADING_SECONDS = 300, 1.5
"""Maximum number of batches, and of seconds, to time a loader without training."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """Kind of batches.

    Attributes:
        shape: Options of `MaskedDataset.loader`. Default: None, the peer.
        group: Tokens of the peer's concatenated rows. Default: None, a text per row.
    """

    shape: Mapping[str, Any] | None = None
    group: int | None = None


@dataclass(kw_only=True)
class Subject:
    """Encoder, rows and sizes of a comparison.

    Attributes:
        scale: Sizes.
        encoder: A key of `Scale.encoders`.
        shards: The rows.
        rows: Rows of a padded batch.
        tokens: Tokens of a flat batch, about those of a padded batch.
        width: Tokens of a row of the peer's concatenated texts.
        compiled: Whether to use `torch.compile`. Default: False.
        collated: The peer's collator.
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


def sentences(scale: Scale, folder: Path, *, encoder: str, compiled: bool = False) -> Part:
    """Return the part that trains on sentences."""
    shards = open_built(folder, "sentences")
    mean = shards["train"].tokens / len(shards["train"])
    subject = Subject(
        scale=scale,
        encoder=encoder,
        shards=shards,
        rows=scale.sentence_batch,
        tokens=round(scale.sentence_batch * mean),
        width=scale.grouped_tokens,
        compiled=compiled,
    )
    return _part(subject, "sentences", SENTENCES)


def notes(scale: Scale, folder: Path, *, encoder: str, compiled: bool = False) -> Part:
    """Return the part that trains on notes."""
    max_tokens = scale.note_rows[encoder]
    shards = open_built(folder, f"notes-{max_tokens}")
    mean = shards["train"].tokens / len(shards["train"])
    subject = Subject(
        scale=scale,
        encoder=encoder,
        shards=shards,
        rows=max(1, round(scale.note_batch / mean)),
        tokens=scale.note_batch,
        width=max_tokens,
        compiled=compiled,
    )
    return _part(subject, f"notes in rows of {max_tokens}", NOTES)


def _part(subject: Subject, corpus: str, goal: float) -> Part:
    tokens, width = subject.tokens, subject.width
    # Rounding flat rows up to multiples of 64 tokens limits the number of compiled shapes.
    flat = {"batch_tokens": tokens, "flat": True, "multiple_of": 64}
    forms = {
        PADDED: Form(),
        FLAT: Form(shape=flat),
        BUCKETS: Form(shape={"batch_size": subject.rows}),
        GROUPED: Form(group=width),
    }

    runs = {name: partial(train, subject, form) for name, form in forms.items()}
    return Part(
        title=f"Training {subject.encoder} on {corpus}{', compiled' if subject.compiled else ''}",
        about=[
            f"about {tokens:,} tokens a step: {subject.rows} rows, or a flat row, or texts put "
            f"together in rows of {width}",
            "no dropout of attention weights",
            *(["`torch_compile=True`, with dynamic shapes"] if subject.compiled else []),
        ],
        runs=runs,
        goals=_goals(corpus, goal),
    )


def _goals(corpus: str, times: float) -> dict[str, Any]:
    ours = (FLAT,) if corpus != "sentences" else (FLAT, BUCKETS)

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
        batch_rate, eaten = rows[FLAT]["batches/s made"], rows[FLAT]["batches/s eaten"]
        return f"{batch_rate / eaten:.1f}x what the card eats", batch_rate > eaten

    return {
        f"{times}x the padded Trainer": faster,
        f"under {OUTSIDE:g} % of the time outside the model (flat rows)": outside,
        "one loading process is enough (flat rows)": one_process,
    }


# One run ------------------------------------------------------------------------------------------


def train(subject: Subject, form: Form) -> Numbers:
    """Time training on cached batches, then with loading, then loading without training."""
    gc.collect()
    if subject.scale.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    transformers.logging.set_verbosity_error()

    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(subject, form, Path(scratch))
        make_loader = trainer.get_train_dataloader

        def loader() -> Any:
            batches = make_loader()
            if form.shape is not None:
                batches.dataset.epoch = 0  # read outside of training, which would set it
            return batches

        cached_batches: Any = [
            {name: column.to(subject.scale.device) for name, column in batch.items()}
            for batch in itertools.islice(loader(), _CACHED)
        ]

        # Cached batches come first: kernels are selected and compiled in this run.
        trainer.get_train_dataloader = lambda: DataLoader(cached_batches, batch_size=None)
        alone, steps = timed(trainer, subject.scale)
        trainer.get_train_dataloader = make_loader
        rate, _ = timed(trainer, subject.scale)
        batch_rate = loading_rate(loader())

    peak = None
    if subject.scale.device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    return {
        RATE: rate,
        "GiB": peak,
        "% outside the model": 100 * max(0.0, 1 - rate / alone),
        "batches/s made": batch_rate,
        "batches/s eaten": steps,
    }


def make_trainer(subject: Subject, form: Form, scratch: Path) -> Any:
    """Make a Trainer with a new model.

    Args:
        subject: Encoder, rows and sizes.
        form: Kind of batches.
        scratch: Output folder of the Trainer.
    """
    scale = subject.scale
    torch.manual_seed(0)
    if subject.compiled:
        # Shapes differ between batches. Without this, static kernels are compiled first.
        os.environ["ACCELERATE_DYNAMO_USE_DYNAMIC"] = "1"
    options = dict(scale.encoders[subject.encoder])
    config = AutoConfig.for_model(options.pop("model_type"), **options)
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
    """Concatenate rows and cut them into rows of `width` tokens, like `run_mlm`."""
    tokens = list(itertools.chain.from_iterable(rows))
    return [tokens[start : start + width] for start in range(0, len(tokens) - width + 1, width)]


def timed(trainer: Any, scale: Scale) -> tuple[float, float]:
    """Train, and return tokens (without padding) and steps per second after the warm-up."""
    tokens: list[Any] = []
    times: list[float] = []
    step = trainer.training_step

    def counted(model: Any, inputs: Any, *others: Any) -> Any:
        tokens.append(inputs["attention_mask"].sum())  # stays on the GPU: no synchronisation
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
    """Return the batches per second of a loader in this process, without training."""
    begun = time.perf_counter()
    count = 0
    for _ in itertools.islice(loader, _LOADED):
        count += 1
        if time.perf_counter() - begun > _LOADING_SECONDS:
            break
    return count / (time.perf_counter() - begun)
