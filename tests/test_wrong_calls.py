"""Values of a wrong type are named, with the expected one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mslm_data as md
from mslm_data.errors import CallError
from tests import made


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return md.load(out)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a strategy file."""
    path = tmp_path_factory.mktemp("strategies") / "mask.toml"
    path.write_text('[mask]\nuse = "joint"\nelm = 0.5\n', encoding="utf-8")
    return path


def test_strategy__accepts_a_file_path(shards: md.Shards, table: Path) -> None:
    by_name = md.strategy("joint", elm=0.5)

    assert md.strategy(table) == md.strategy(str(table)) == shards.strategy(table) == by_name
    assert md.strategy(table, elm=1.0) == md.strategy("joint", elm=1.0)


def test_batches__accept_the_path_of_a_strategy_file(shards: md.Shards, table: Path) -> None:
    given, named = (
        [batch["input_ids"].tolist() for batch in md.Batches(shards["train"], what, batch_size=4)]
        for what in (table, md.strategy("joint", elm=0.5))
    )

    assert given == named


WRONG: dict[str, tuple[Callable[[md.Shards], Any], str]] = {
    "no name of a strategy": (
        lambda shards: md.strategy(None),  # type: ignore[arg-type]
        r"^strategy: expected a name or a TOML file .*, got NoneType$",
    ),
    "the table of a strategy": (
        lambda shards: shards.strategy({"use": "joint"}),  # type: ignore[arg-type]
        r"^strategy: expected a name or a TOML file .*, got dict$",
    ),
    "masks of a whole split": (
        lambda shards: md.strategy("joint").plan(shards["train"]),  # type: ignore[arg-type]
        r"^examples: expected rows, as split\.examples\(0, 100\) gives, got Split$",
    ),
    "a folder that is open": (
        md.load,  # type: ignore[dict-item]
        r"^folder: expected the path or URL of a built folder, got Shards$",
    ),
    "one split to export": (
        lambda shards: shards.export(to="jsonl", out="nowhere", splits="train"),
        r"^splits: expected a list of names, got one; pass \['train'\]$",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_public_functions__name_arguments_of_a_wrong_type(what: str, shards: md.Shards) -> None:
    call, message = WRONG[what]

    with pytest.raises(TypeError, match=message):
        call(shards)


def test_export__needs_a_split(shards: md.Shards, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"^splits: expected one or more names, got none$"):
        shards.export(to="jsonl", out=tmp_path / "out", splits=[])

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", [0, -1, 1.5, None])
def test_chunks__reject_empty_batches(rows: Any, shards: md.Shards) -> None:
    message = "^rows: expected a whole number of at least 1, got "

    for split in (shards["train"], md.mix([shards])):
        with pytest.raises(ValueError, match=message):
            list(split.chunks(rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": "2"}, r"^workers: expected a number from 1, got '2'; leave it out"),
        ({"workers": 0}, r"^workers: expected a number from 1, got 0; leave it out"),
        ({"options": ["encode.keep_text"]}, r"^options: expected a mapping, .*, got list$"),
    ],
)
def test_build__names_arguments_of_a_wrong_type(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CallError, match=message):
        md.build("blurb/ncbi-disease", sample=True, out=tmp_path / "out", **options)

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", [3, (1, 2, 3), ("1", "2"), (3, 2)])
def test_build_part__names_a_wrong_part(part: Any, tmp_path: Path) -> None:
    got = re.escape(repr(part))
    with pytest.raises(CallError, match=rf"^part: expected \(i, n\) with 1 <= .*, got {got}$"):
        md.build_part("blurb/ncbi-disease", sample=True, out=tmp_path / "out", part=part)

    assert not (tmp_path / "out").exists()
