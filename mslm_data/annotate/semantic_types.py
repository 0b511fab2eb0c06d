"""Reads tables of semantic types with labels, such as Table 12 of Abaho et al. 2024."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec

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


class _Type(msgspec.Struct, frozen=True):
    """An entry `[[type]]` of a file."""

    tui: str
    label: str


class _Table(msgspec.Struct, frozen=True):
    """A file."""

    labels: tuple[str, ...]
    types: tuple[_Type, ...] = msgspec.field(name="type")


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
        table = msgspec.toml.decode(path.read_bytes(), type=_Table)
    except (OSError, ValueError, RecursionError) as error:
        raise AnnotateError(
            f"{path}: expected labels = [...] and [[type]] entries with tui and label, "
            f"got {type(error).__name__}: {error}"
        ) from None

    label_by_type: dict[str, str] = {}
    for type_id, label in ((entry.tui.upper(), entry.label) for entry in table.types):
        if label not in table.labels:
            known = ", ".join(table.labels) or "(none)"
            raise AnnotateError(
                f"{path}: type {type_id}: expected one of the labels {known}, got '{label}'; "
                f"add it to labels"
            )
        if label_by_type.setdefault(type_id, label) != label:
            raise AnnotateError(
                f"{path}: expected one label for each type, got several for {type_id}; keep one"
            )
    return SemanticTypes(labels=table.labels, label_by_type=label_by_type)
