"""Refuses what would train, measure or find something else without a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data import _optional
from mslm_data.batches.batches import Batches
from mslm_data.data.examples import TokenIds
from mslm_data.encode import tokenizer as tokenizers_of_models
from mslm_data.errors import AnnotateError, PushError, TokenizerError
from mslm_data.log import LOGGER
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.shard.row_protocol import Rows

_SPARE_IDS = 512
"""A model's vocabulary is often rounded up, to a multiple of 64 or 128: it has fewer spare ids."""
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")


def refuse_other_tokenizer(where: str, model: Any, ids: TokenIds) -> None:
    """Refuse rows of another tokenizer than the model's, as far as both are known.

    Known of a model are the size of its vocabulary and its padding; and, where an `MslmModel` has
    its tokenizer, or the folder or the copy of a hub's repository that a model was loaded from has
    one, its mask and unknown token.

    Args:
        where: What begins the message.
        model: Any; one without a configuration of Hugging Face is not looked at.
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
        differ = f"a model of {size:,} ids and rows of a tokenizer of {ids.size:,}"
    else:
        kept = getattr(model, "tokenizer", None)
        own = _own_ids(str(getattr(config, "_name_or_path", ""))) if kept is None else kept.ids
        pad = getattr(config, "pad_token_id", None)
        of_model = {
            "pad": pad if own is None else own.pad,
            "mask": None if own is None else own.mask,
            "unk": None if own is None else own.unk,
        }
        other = [
            f"{kind} {known} in the model and {getattr(ids, kind)} in the rows"
            for kind, known in of_model.items()
            if known is not None and known >= 0 and getattr(ids, kind) not in (-1, known)
        ]
        if not other:
            return
        differ = f"the special ids {', '.join(other)}"

    raise ValueError(
        f"{where}: expected a model and rows of one tokenizer, got {differ}; build the shards with "
        "the tokenizer of the model, or give a model made anew the vocab_size and pad_token_id of "
        "the shards' manifest.token_ids"
    )


def refuse_nan(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Refuse scores of which the tag would be the first one, whatever the text says.

    Args:
        scores: Logits or probabilities of words, of any shape.

    Raises:
        AnnotateError: One is not a number.
    """
    if np.isnan(scores).any():
        raise AnnotateError(
            "model: expected numbers for each word, got NaN; its weights are damaged, or its "
            "training diverged: train it again, with a lower learning rate if the loss was NaN"
        )


def refuse_training(
    where: str, *, arguments: Any, model: Any, datasets: Mapping[str, Any] | Any, collator: Any
) -> None:
    """Refuse what Hugging Face's Trainer would do wrongly with these rows and this model.

    Args:
        where: What begins the message.
        arguments: Its TrainingArguments.
        model: What is trained.
        datasets: The rows, also several by name; those that are not masked rows are not looked at.
        collator: What makes batches of them.

    Raises:
        TypeError: Something is in the place of the rows that has none, such as a whole folder.
        ValueError: Labels would be smoothed, packed rows would see each other, or the rows are of
            another tokenizer or have other labels than the model.
        PushError: Each checkpoint of a model that learns from patients' text would be uploaded.
    """
    _refuse_other_rows(where, datasets, collator)
    if arguments.push_to_hub:
        refuse_patients_text(where, model, datasets, [collator])

    smoothing = arguments.label_smoothing_factor
    if is_mslm(model) and smoothing != 0:
        raise ValueError(
            f"{where}: expected label_smoothing_factor=0, got {smoothing}; the Trainer smooths "
            "plain cross-entropy, and an MslmModel has the loss of Eq. 12: leave it out"
        )

    packs = getattr(getattr(collator, "options", None), "is_packed", False)
    is_plain = type(model).__module__.startswith("transformers.")
    if packs and is_plain:
        raise ValueError(
            f"{where}: expected an MslmModel for packed rows, got {type(model).__name__}, in which "
            "they would see each other; pass MslmModel.wrap(model), or leave out row_tokens and "
            "flat"
        )

    splits = _splits_of(datasets)
    if is_mslm(model):
        for split in splits:
            _refuse_other_labels(where, model.config.labels, split)
    known = [getattr(split, "token_ids", None) for split in splits]
    for ids in [*known, getattr(collator, "ids", None)]:
        if ids is not None:
            refuse_other_tokenizer(where, model, ids)


def is_mslm(model: Any) -> bool:
    """Return whether a model is an `MslmModel`, by its configuration: adapters wrap models."""
    return getattr(getattr(model, "config", None), "model_type", None) == "mslm"


def _refuse_other_rows(where: str, datasets: Mapping[str, Any] | Any, collator: Any) -> None:
    """Raise if rows are a folder or batches, or a split that the collator does not mask.

    Raises:
        TypeError: They are.
    """
    masks = getattr(collator, "strategy", None) is not None
    # A folder is a mapping too, of its splits.
    several = isinstance(datasets, Mapping) and not isinstance(datasets, BuiltFolder)
    for rows in datasets.values() if several else [datasets]:
        unmasked = isinstance(rows, Rows) and not masks
        if unmasked or isinstance(rows, BuiltFolder | Batches | str | Path):
            raise TypeError(
                f"{where}: expected masked rows, as MaskedDataset(split, strategy) gives, got "
                f"{type(rows).__name__}"
            )


def _refuse_other_labels(where: str, of_model: Sequence[str], split: Any) -> None:
    """Raise if the labels of rows are not the first of a model's, as heads know numbers alone."""
    of_rows = getattr(split, "labels", ())
    if of_model and [*of_rows] != [*of_model][: len(of_rows)]:
        raise ValueError(
            f"{where}: expected rows with the labels of the model, {', '.join(of_model)}, got "
            f"{', '.join(of_rows)}; wrap the model with labels of these rows, or keep all folders "
            "in each phase of a mix, in one order, if only with a small weight"
        )


def refuse_patients_text(
    where: str, model: Any, datasets: Mapping[str, Any] | Any, collators: Sequence[Any] = ()
) -> None:
    """Refuse to have the Trainer upload a model that learns from patients' text.

    Args:
        where: What begins the message.
        model: What is trained.
        datasets: The rows, also several by name.
        collators: What makes batches of them. One knows the split whose tokenizer it was given, as
            where the rows are of the `datasets` library.

    Raises:
        PushError: It does, by its configuration, its rows, or their collator.
    """
    of_model = getattr(getattr(model, "config", None), "protected", False)
    if of_model or _are_patients_text(datasets, collators):
        raise PushError(
            f"{where}: expected no push_to_hub where a model learns from patients' text, got one; "
            "it may hold pieces of the text, and data use agreements forbid sharing it; leave it "
            "out, and if yours does not, upload the model by MslmModel.push_to_hub"
        )


def mark_patients_text(
    model: Any, datasets: Mapping[str, Any] | Any, collators: Sequence[Any]
) -> None:
    """Have an `MslmModel` that is to learn from patients' text say so, also where it is saved.

    Then it refuses to be uploaded later on, by any program.
    """
    if is_mslm(model) and not model.config.protected and _are_patients_text(datasets, collators):
        LOGGER.info("the model learns from patients' text, so its config.protected is True now")
        model.config.protected = True


def _are_patients_text(datasets: Mapping[str, Any] | Any, collators: Sequence[Any]) -> bool:
    """Return whether some rows are patients' text, as far as they or their collators know."""
    known = [*_splits_of(datasets), *collators]
    return any(getattr(one, "protected", False) for one in known)


def _splits_of(datasets: Mapping[str, Any] | Any) -> list[Any]:
    """Return the splits that datasets, or loaders of batches, give rows of, or that they are."""
    every = list(datasets.values()) if isinstance(datasets, Mapping) else [datasets]
    found: list[Any] = []
    for one in every:
        inner = parts_of(one)
        if inner:
            found += _splits_of(dict(enumerate(inner)))
        else:
            found.append(one if isinstance(one, Rows) else getattr(one, "split", None))
    return found


def parts_of(rows: Any) -> list[Any]:
    """Return the datasets that a loader, a subset or a concatenation gives rows of, one level."""
    inner = getattr(rows, "dataset", None)
    return list(getattr(rows, "datasets", ())) or ([] if inner is None else [inner])


def _own_ids(name: str) -> TokenIds | None:
    """Return the ids of the tokenizer that lies beside a model's weights; None if there is none.

    Nothing is downloaded.
    """
    folder = Path(name) if name and Path(name).is_dir() else _copy_of_hub(name)
    if folder is None:
        return None
    try:
        return tokenizers_of_models.load(str(folder)).ids
    except TokenizerError:
        return None


def _copy_of_hub(name: str) -> Path | None:
    """Return the folder of a hub's repository in the hub's own cache."""
    if not name:
        return None

    hub = _optional.load("huggingface_hub", wanted_by="a model of the hub")
    for file in _TOKENIZER_FILES:
        try:
            path = hub.try_to_load_from_cache(name, file)
        except ValueError:  # not a repository's name
            return None
        if isinstance(path, str):
            return Path(path).parent
    return None
