"""Checks that catch silent mistakes: mismatched tokenizers or labels, uploads of patients' text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.errors import PushError
from mslm_data.log import LOGGER
from mslm_data.mask.plan import Objective
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Rows
from mslm_data.torch.model.forward import find_module


def check_training(
    where: str, *, arguments: Any, model: Any, datasets: Mapping[str, Any] | Any, collator: Any
) -> None:
    """Check rows, model and Trainer options before the first step.

    Args:
        where: Prefix of error messages.
        arguments: The TrainingArguments.
        model: The model to train.
        datasets: The rows, or a mapping of names to rows. Rows of other datasets are not checked.
        collator: The collator of the rows.

    Raises:
        ValueError: Tokenizer or labels of the rows differ from the model's, or tokens of packed
            rows would attend to other rows.
        PushError: Checkpoints of a model trained on patients' text would be uploaded.
    """
    if arguments.push_to_hub:
        check_shareable(where, model, datasets, [collator])

    splits = _find_splits(datasets)
    token_ids = [getattr(split, "token_ids", None) for split in splits]
    for ids in [*token_ids, getattr(collator, "ids", None)]:
        if ids is not None:
            check_tokenizer(where, model, ids)
    if is_mslm(model):
        for split in splits:
            _check_labels(where, model.config.labels, split)

    if type(model).__module__.startswith("transformers."):
        for source in iter_datasets(datasets):
            if getattr(getattr(source, "options", None), "flat", False):
                _check_flat(where, model, source.dataset.strategy)


def _check_flat(where: str, model: Any, strategy: Strategy) -> None:
    """Check that flat rows do not attend to each other in a model of transformers.

    Its encoders ignore the columns of flat rows; an MslmModel converts them. Its decoders separate
    rows by `position_ids`, if they keep no cache.

    Raises:
        ValueError: They would.
    """
    name = type(model).__name__
    if strategy.objectives != {Objective.CAUSAL}:
        raise ValueError(
            f"{where}: in a {name} flat rows would attend to each other; pass "
            "MslmModel.wrap(model), or leave out flat"
        )
    if model.config.use_cache:
        raise ValueError(
            f"{where}: in a {name} with a cache, flat rows would attend to those before them; set "
            "model.config.use_cache = False"
        )


def check_tokenizer(where: str, model: Any, ids: TokenIds) -> None:
    """Check that rows and model use the same tokenizer, as far as both are known.

    The model must have an embedding for each id of the rows, and the same ids of the padding, mask
    and unknown token: those of an `MslmModel`'s tokenizer. Of other models only the padding is
    known.

    Args:
        where: Prefix of error messages.
        model: The model. Models without a Hugging Face configuration are not checked.
        ids: Token ids of the rows' tokenizer.

    Raises:
        ValueError: The tokenizers differ.
    """
    config = getattr(model, "config", None)
    config = getattr(config, "masked_lm", config)
    size = getattr(config, "vocab_size", None)
    if size is None:
        return

    own = getattr(model, "tokenizer", None)
    if own is None:
        model_ids = {"pad": getattr(config, "pad_token_id", None)}
    else:
        model_ids = {kind: getattr(own.ids, kind) for kind in ("pad", "mask", "unk")}

    # -1 and None mean that the model, or the rows' tokenizer, has no such token.
    differences = [
        f"{kind} {id_} in the model and {getattr(ids, kind)} in the rows"
        for kind, id_ in model_ids.items()
        if id_ is not None and id_ >= 0 and getattr(ids, kind) not in (-1, id_)
    ]
    if ids.size > size:
        differences.insert(0, f"{size:,} ids in the model and {ids.size:,} in the rows")
    if differences:
        raise ValueError(
            f"{where}: model and rows have different tokenizers: {', '.join(differences)}; build "
            "the shards with the tokenizer of the model, resize the model's embeddings if you "
            "added tokens, or create a new model with the vocab_size and pad_token_id of the "
            "shards' manifest.token_ids"
        )


def check_rows(where: str, model: Any, rows: Rows | Examples) -> Iterable[Examples]:
    """Check rows to score a model on, and return them in chunks.

    Args:
        where: Prefix of error messages.
        model: The model, or a method of it; see `check_tokenizer`.
        rows: A split or a mix, or examples.

    Raises:
        TypeError: `rows` is something else.
        ValueError: Model and rows have different tokenizers.
    """
    if not isinstance(rows, Rows | Examples):
        raise TypeError(
            "rows: expected a split, such as md.load(folder)['test'], or a subset of one, got "
            f"{type(rows).__name__}"
        )
    ids = rows.ids if isinstance(rows, Examples) else rows.token_ids
    check_tokenizer(where, find_module(model), ids)
    return [rows] if isinstance(rows, Examples) else rows.chunks()


def _check_labels(where: str, model_labels: Sequence[str], split: Any) -> None:
    """Check that the labels of rows are the first labels of the model, in the same order."""
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
    """Check that a model to upload is not trained on patients' text.

    Args:
        where: Prefix of error messages.
        model: The model to upload.
        datasets: The rows, or a mapping of names to rows.
        collators: The collators of the rows. For rows of the `datasets` library, only the collator
            knows the split, through its tokenizer.

    Raises:
        PushError: The model's configuration, the rows or a collator are protected.
    """
    is_protected = getattr(getattr(model, "config", None), "protected", False)
    if is_protected or _are_patients_text(datasets, collators):
        raise PushError(
            f"{where}: push_to_hub is set, but the model is trained on patients' text, which it "
            "may have memorised; data use agreements forbid sharing it: leave the option out"
        )


def mark_protected(model: Any, datasets: Mapping[str, Any] | Any, collators: Sequence[Any]) -> None:
    """Set `config.protected` of an `MslmModel` that is trained on patients' text."""
    if is_mslm(model) and not model.config.protected and _are_patients_text(datasets, collators):
        LOGGER.info("the model is trained on patients' text: config.protected is set to True")
        model.config.protected = True


def is_mslm(model: Any) -> bool:
    """Return whether a model is an `MslmModel`, by its configuration: also inside an adapter."""
    return getattr(getattr(model, "config", None), "model_type", None) == "mslm"


def iter_datasets(rows: Any) -> Iterator[Any]:
    """Yield rows, and all datasets in a mapping, loader, subset or concatenation, at any depth."""
    yield rows
    inner = getattr(rows, "dataset", None)
    parts = rows.values() if isinstance(rows, Mapping) else getattr(rows, "datasets", ())
    for part in parts or ([] if inner is None else [inner]):
        yield from iter_datasets(part)


def _are_patients_text(datasets: Mapping[str, Any] | Any, collators: Sequence[Any]) -> bool:
    sources = [*_find_splits(datasets), *collators]
    return any(getattr(source, "protected", False) for source in sources)


def _find_splits(datasets: Mapping[str, Any] | Any) -> list[Any]:
    """Return the splits of datasets or loaders; None for a dataset without a split."""
    return [
        rows if isinstance(rows, Rows) else getattr(rows, "split", None)
        for rows in iter_datasets(datasets)
    ]
