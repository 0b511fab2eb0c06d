"""Two small models or tables with different results for each annotator, and the first one's
mentions.

See test_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.annotate.model_made import name_tagger
from tests.spacy_made import ruler

NAMES = ("heart failure", "asthma", "aspirin", "naïve", "Last Name")


class Fixture(NamedTuple):
    options: Mapping[str, Any]
    other: Mapping[str, Any] | None
    """The same options with another model or table, or None if there is none."""


def terms(folder: Path) -> Fixture:
    return Fixture(
        {"table": labels(folder / "a.csv", NAMES)}, {"table": labels(folder / "b.csv", NAMES[:2])}
    )


def labels(path: Path, names: Sequence[str]) -> str:
    path.write_text("name,label\n" + "".join(f"{name},X\n" for name in names), encoding="utf-8")
    return str(path)


def medcat(folder: Path) -> Fixture:
    pytest.importorskip("medcat", reason="medcat is not installed")
    from mslm_data.annotate.medcat.pack import digest
    from tests.annotate.medcat_made import make_pack

    options = []
    for name, names in (("a", NAMES), ("b", NAMES[:2])):
        table = Path(concepts(folder / f"{name}.csv", names))
        pack = make_pack(table, folder / name)
        options.append({"model_pack": str(pack), "sha256": digest(pack)})
    return Fixture(*options)


def concepts(path: Path, names: Sequence[str]) -> str:
    rows = (f"C{number},{name},TEST,P,T047,\n" for number, name in enumerate(names, 9900001))
    path.write_text(
        "cui,name,ontologies,name_status,type_ids,description\n" + "".join(rows), encoding="utf-8"
    )
    return str(path)


def spacy(folder: Path) -> Fixture:
    one, other = (model(folder / name, names) for name, names in [("a", NAMES), ("b", NAMES[:2])])
    return Fixture({"model": one}, {"model": other})


def model(folder: Path, names: Sequence[str]) -> str:
    patterns = []
    for name in names:
        words: list[dict[str, Any]] = []
        for word in name.lower().split():
            words += [{"IS_SPACE": True, "OP": "?"}, {"LOWER": word}]
        patterns.append({"label": "X", "pattern": words})
    return str(ruler(folder, patterns))


def tagger(folder: Path) -> Fixture:
    pytest.importorskip("transformers", reason="transformers is not installed")
    one, other = (
        name_tagger(folder / name, names) for name, names in [("a", NAMES), ("b", NAMES[:2])]
    )
    return Fixture({"model": one}, {"model": other})


def without_options(_: Path) -> Fixture:
    return Fixture({}, None)


def ensemble(folder: Path) -> Fixture:
    tables = [
        labels(folder / f"{name}.csv", names) for name, names in [("a", NAMES), ("b", NAMES[:2])]
    ]

    def of(*chosen: str) -> dict[str, Any]:
        members = {
            f"terms{number}": {"use": "terms", "table": table}
            for number, table in enumerate(chosen)
        }
        return {"annotators": members, "combine": "union", "priority": [*members]}

    return Fixture(of(tables[0], tables[1]), of(tables[0], tables[0]))


FIXTURES: dict[str, Callable[[Path], Fixture]] = {
    "none": without_options,
    "gold": without_options,
    "terms": terms,
    "medcat": medcat,
    "spacy": spacy,
    "model": tagger,
    "ensemble": ensemble,
}
