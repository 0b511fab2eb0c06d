"""Parse the tag names of a model: BIO, BIOES, BILOU, or labels without prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio
from mslm_data.errors import AnnotateError

_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""Prefix of a tag -> prefix in BIOES."""


def read_tag_names(id2label: Mapping[Any, Any]) -> list[str]:
    """Return the tag names of a token-classification model; [] if there is no O.

    Args:
        id2label: Tag number -> name, from the model's configuration.
    """
    names = {str(number): str(name) for number, name in id2label.items()}
    numbers = [str(number) for number in range(len(names))]
    # Numbers must be 0 to C - 1: JSON has them as strings, in any order.
    if not names.keys() >= {*numbers} or "O" not in names.values():
        return []
    return [names[number] for number in numbers]


def find_labels(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the labels in tag names, in order of first occurrence."""
    return tuple(dict.fromkeys(_split_tag(name)[1] for name in tags if name != "O"))


def check_has_labels(labels: Sequence[str]) -> None:
    """Check that a model has labels.

    Raises:
        AnnotateError: There are no labels.
    """
    if not labels:
        raise AnnotateError(
            "model: it has no labels (tags O, B-X and I-X); train one with labels=..., or pass a "
            "token-classification model"
        )


def make_tag_table(tags: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the tag table for `bio.find`, int64 `[C + 1, 4]`."""
    rows = []
    for name in tags:
        if name == "O":
            rows.append(bio.NO_TAG)
            continue
        begins, label = _split_tag(name)
        rows.append((labels.index(label), int(begins in "IE"), int(begins in "ES"), 0))
    return np.array([*rows, bio.NO_TAG], np.int64)


def _split_tag(name: str) -> tuple[str, str]:
    """Split a tag into prefix (B, I, E or S) and label; the default prefix is I."""
    prefix, dash, label = name.partition("-")
    if dash and label and prefix in _PREFIXES:
        return _PREFIXES[prefix], label
    return "I", name
