"""Checks that catch silent mistakes: mismatched tokenizers or labels, shared patients' text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mslm_data.data.examples import TokenIds
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import PushError, TokenizerError
from mslm_data.io import hub
from mslm_data.log import LOGGER
from mslm_data.shard.row_protocol import Rows

_SPARE_IDS = 512
"""A model's vocabulary is often rounded up, to a multiple of 64 or 128: it has fewer spare ids."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")


def check_training(
    where: str, *, arguments: Any, model: Any, datasets: Mapping[str, Any] | Any, collator: Any
) -> None:
    """Check rows, model and Trainer options before the first step.

    Args:
        where: The beginning of the message.
        arguments: Its TrainingArguments.
        model: The model that is trained.
        datasets: The rows, also several by name; those that are not masked rows are not checked.
        collator: What makes batches of them.

    Raises:
        ValueError: The rows have another tokenizer or other labels than the model, or packed rows
            would see each other.
        PushError: Each checkpoint of a model that learns from patients' text would be uploaded.
    """
    if arguments.push_to_hub:
        check_shareable(where, model, datasets, [collator])

    splits = _find_splits(datasets)
    known = [getattr(split, "token_ids", None) for split in splits]
    for ids in [*known, getattr(collator, "ids", None)]:
        if ids is not None:
            check_tokenizer(where, model, ids)
    if is_mslm(model):
        for split in splits:
            _check_labels(where, model.config.labels, split)

    packs = getattr(getattr(collator, "options", None), "is_packed", False)
    if packs and type(model).__module__.startswith("transformers."):
        raise ValueError(
            f"{where}: in a {type(model).__name__} packed rows would attend to each other; pass "
            "MslmModel.wrap(model), or leave out row_tokens and "
            "flat"
        )


def check_tokenizer(where: str, model: Any, ids: TokenIds) -> None:
    """Check that rows and model use the same tokenizer, as far as both are known.

    Known of a model are the size of its vocabulary and its padding; and, where an `MslmModel` has
    its tokenizer, or the folder or the copy of a hub's repository that a model was loaded from has
    one, its mask and unknown token.

    Args:
        where: The beginning of the message.
        model: Any; one without a configuration of Hugging Face is not checked.
        ids: Those of the rows' tokenizer.

    Raises:
        ValueError: The tokenizers differ.
    """
    config = getattr(model, "config", None)
    config = getattr(config, "masked_lm", config)
    size = getattr(config, "vocab_size", None)
    if size is None:
        return

    if not ids.size <= size < ids.size + _SPARE_IDS:
        differ = f"{size:,} ids in the model and {ids.size:,} in the rows"
    else:
        kept = getattr(model, "tokenizer", None)
        own = _own_ids(str(getattr(config, "_name_or_path", ""))) if kept is None else kept.ids
        pad = getattr(config, "pad_token_id", None)
        model_ids = {
            "pad": pad if own is None else own.pad,
            "mask": None if own is None else own.mask,
            "unk": None if own is None else own.unk,
        }
        other = [
            f"{kind} {known} in the model and {getattr(ids, kind)} in the rows"
            for kind, known in model_ids.items()
            if known is not None and known >= 0 and getattr(ids, kind) not in (-1, known)
        ]
        if not other:
            return
        differ = f"{', '.join(other)}"

    raise ValueError(
        f"{where}: model and rows have different tokenizers: {differ}; build the shards with the "
        "tokenizer of the model, or create a new model with the vocab_size and pad_token_id of "
        "the shards' manifest.token_ids"
    )


def _check_labels(where: str, model_labels: Sequence[str], split: Any) -> None:
    """Check that the labels of rows are the first labels of a model, in the same order."""
    row_labels = getattr(split, "labels", ())
    if model_labels and [*row_labels] != [*model_labels][: len(row_labels)]:
        raise ValueError(
            f"{where}: expected rows with the labels of the model: {', '.join(model_labels)}, got "
            f"{', '.join(row_labels)}; wrap the model with the labels of these rows, or in a mix "
            "keep all folders in every phase, in the same order, with a small weight if need be"
        )


def check_shareable(
    where: str, model: Any, datasets: Mapping[str, Any] | Any, collators: Sequence[Any] = ()
) -> None:
    """Check that a model which the Trainer uploads is not trained on patients' text.

    Args:
        where: The beginning of the message.
        model: The model that is trained.
        datasets: The rows, also several by name.
        collators: What makes batches of them. One knows the split whose tokenizer it was given, as
            where the rows are of the `datasets` library.

    Raises:
        PushError: It does, by its configuration, its rows, or their collator.
    """
    is_protected = getattr(getattr(model, "config", None), "protected", False)
    if is_protected or _are_patients_text(datasets, collators):
        raise PushError(
            f"{where}: push_to_hub is set, but the model is trained on patients' text, which it "
            "may have memorised; data use agreements forbid sharing it: leave the option out. If "
            "yours does not, call MslmModel.push_to_hub"
        )


def mark_protected(model: Any, datasets: Mapping[str, Any] | Any, collators: Sequence[Any]) -> None:
    """Mark an `MslmModel` that is trained on patients' text, so that it is not uploaded."""
    if is_mslm(model) and not model.config.protected and _are_patients_text(datasets, collators):
        LOGGER.info("the model is trained on patients' text: config.protected is set to True")
        model.config.protected = True


def is_mslm(model: Any) -> bool:
    """Return whether a model is an `MslmModel`, also inside an adapter, by its configuration."""
    return getattr(getattr(model, "config", None), "model_type", None) == "mslm"


def unwrap_datasets(rows: Any) -> list[Any]:
    """Return the datasets directly inside a loader, a subset or a concatenation."""
    inner = getattr(rows, "dataset", None)
    return list(getattr(rows, "datasets", ())) or ([] if inner is None else [inner])


def _are_patients_text(datasets: Mapping[str, Any] | Any, collators: Sequence[Any]) -> bool:
    known = [*_find_splits(datasets), *collators]
    return any(getattr(one, "protected", False) for one in known)


def _find_splits(datasets: Mapping[str, Any] | Any) -> list[Any]:
    """Return the splits below datasets or loaders; None for a dataset without a split."""
    every = list(datasets.values()) if isinstance(datasets, Mapping) else [datasets]
    found: list[Any] = []
    for one in every:
        inner = unwrap_datasets(one)
        if inner:
            found += _find_splits(dict(enumerate(inner)))
        else:
            found.append(one if isinstance(one, Rows) else getattr(one, "split", None))
    return found


def _own_ids(name: str) -> TokenIds | None:
    """Return the special ids of the tokenizer in a model's folder; None if it has none."""
    if not name:
        return None
    with suppress(hub.NotFetchedError, TokenizerError):
        folder = Path(name)
        if not folder.is_dir():
            asks = "a model of the hub"
            folder = hub.fetch_files(name, _TOKENIZER_FILES, wanted_by=asks, only_here=True)
        return tokenizers.load_tokenizer(str(folder)).ids
    return None
