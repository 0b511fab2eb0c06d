"""Reads tables of semantic types with labels, such as Table 12 of Abaho et al. 2024."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io import resources


@dataclass(frozen=True, kw_only=True)
class SemanticTypes:
    """Semantic types with labels. Concepts of other types are no mentions.

    A row::

        type id  label
        T047     Disease

    Attributes:
        labels: Labels in order of precedence: a concept with types of several labels gets the first
            of these.
        label_by_type: Type id, such as `T047`, -> label.
    """

    labels: tuple[str, ...]
    label_by_type: dict[str, str]

    def label(self, types: Collection[str]) -> str | None:
        """Return the label of a concept with these types; None if there is none."""
        possible = {self.label_by_type.get(type_id) for type_id in types}
        return next((label for label in self.labels if label in possible), None)


def find_table(name: str) -> Path:
    """Return the path of a table shipped in `vocab/`, or else `name` as a path.

    Raises:
        AnnotateError: There are both, with different contents.
    """
    shipped = resources.path("vocab", name)
    own = Path(name)
    if not shipped.is_file():
        return own
    if own.is_file() and own.read_bytes() != shipped.read_bytes():
        raise AnnotateError(
            f"{name}: this file differs from the shipped table of the same name; pass its absolute "
            "path, or rename it to use the shipped one"
        )
    return shipped


def read(name: str) -> SemanticTypes:
    """Read a TOML table: `labels`, and `[[type]]` entries with `tui` and `label`.

    Other keys, such as the `name` of a type, are ignored.

    Args:
        name: File below `vocab/`, or a path.

    Raises:
        AnnotateError: The file does not exist or is malformed.
    """
    path = find_table(name)
    if not path.is_file():
        raise AnnotateError(
            f"annotate.types: no file '{name}', neither below vocab/ nor as a path; the paper's is "
            "semantic_types.toml"
        )

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        types = content["type"]
        labels = tuple(content["labels"])
        label_by_type: dict[str, str] = {}
        ambiguous: set[str] = set()
        for entry in types:
            type_id, label = str(entry["tui"]).upper(), str(entry["label"])
            if label_by_type.setdefault(type_id, label) != label:
                ambiguous.add(type_id)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AnnotateError(
            f"{path}: expected labels = [...] and [[type]] entries with tui and label, "
            f"got {type(error).__name__}"
        ) from None

    if ambiguous:
        raise AnnotateError(
            f"{path}: expected one label for each type, got several for "
            f"{', '.join(sorted(ambiguous))}; keep one of them"
        )
    known = ", ".join(map(str, labels)) or "(none)"
    for type_id, label in label_by_type.items():
        if label not in labels:
            raise AnnotateError(
                f"{path}: type {type_id}: expected one of the labels {known}, got '{label}'; "
                f"add it to labels"
            )
    return SemanticTypes(labels=labels, label_by_type=label_by_type)
