"""Reads tables of semantic types and labels, like Table 12 of Abaho et al. 2024."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io import resources


@dataclass(frozen=True, kw_only=True)
class SemanticTypes:
    """Semantic types that become mentions, with their labels.

    Attributes:
        labels: The labels by precedence: of two that a concept could have, it gets the first here.
        of_type: Type id (`T047`) -> label.
        names: Type id -> name.
    """

    labels: tuple[str, ...]
    of_type: dict[str, str]
    names: dict[str, str]

    def label(self, types: Collection[str]) -> str | None:
        """Return the label of a concept with these types; None if there is none."""
        found = self._find_labels(types)
        return next((label for label in self.labels if label in found), None)

    def num_labels(self, types: Collection[str]) -> int:
        """Return the number of labels that a concept with these types could have."""
        return len(self._find_labels(types))

    def _find_labels(self, types: Collection[str]) -> set[str]:
        return {self.of_type[type_id] for type_id in types if type_id in self.of_type}


def find_table(name: str) -> Path:
    """Return the path of a table: shipped below `vocab/`, or a path of the user."""
    shipped = resources.path("vocab", name)
    return shipped if shipped.is_file() else Path(name)


def read(name: str) -> SemanticTypes:
    """Read a table: `labels`, and `[[type]]` entries with `tui`, `label` and optionally `name`.

    Args:
        name: A file below `vocab/`, or a path.

    Raises:
        AnnotateError: No such file, or it is not such a table.
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
        of_type: dict[str, str] = {}
        twice: set[str] = set()
        for entry in types:
            type_id, label = str(entry["tui"]).upper(), str(entry["label"])
            if of_type.setdefault(type_id, label) != label:
                twice.add(type_id)
        names = {str(entry["tui"]).upper(): str(entry.get("name", "")) for entry in types}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AnnotateError(
            f"{path}: expected labels = [...] and [[type]] entries with tui and label, "
            f"got {type(error).__name__}"
        ) from None

    if twice:
        several = ", ".join(sorted(twice))
        raise AnnotateError(
            f"{path}: expected one label for each type, got several for {several}; keep one of them"
        )
    known = ", ".join(map(str, labels)) or "(none)"
    for type_id, label in of_type.items():
        if label not in labels:
            raise AnnotateError(
                f"{path}: type {type_id}: expected one of the labels {known}, got '{label}'; "
                f"add it to labels"
            )
    return SemanticTypes(labels=labels, of_type=of_type, names=names)
