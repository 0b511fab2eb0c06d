"""Files of lexicons and score columns: what is common to both kinds."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pytest

from mslm_data.cli.vocab import command as vocab
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.artefacts import (
    FORMAT,
    LEXICON,
    MAKERS,
    SCORE_COLUMN,
    ArtefactKind,
    find_artefact,
    how_to_make,
)
from mslm_data.lexicon.score_columns import read_scores, write_scores
from mslm_data.lexicon.store import Lexicon, read_lexicon, write_lexicon

TOKENIZER = "7" * 64
ABOUT = {"tokenizer": TOKENIZER, "size": 40, "made": {"command": "vocab scores", "of": "table"}}
ROWS: dict[str, tuple[list[Any], ...]] = {
    LEXICON.key: ([[7, 8, 9], [5]], [[0, 2], [0]], [1.5, -0.25]),
    SCORE_COLUMN.key: ([3, 5], [[1, 2], [3, 4, 5, 6]]),
}
"""Key of a kind -> the columns of a file."""

both_kinds = pytest.mark.parametrize("kind", [LEXICON, SCORE_COLUMN], ids=lambda kind: kind.key)


def write_arrow(
    path: Path,
    kind: ArtefactKind,
    rows: Sequence[list[Any]] = (),
    *,
    types: Sequence[pa.DataType] = (),
    about: str = json.dumps({**ABOUT, "format": FORMAT}),
    batches: int = 1,
) -> Path:
    """Write an Arrow file with any columns and any metadata."""
    schema = pa.schema(
        zip(kind.columns, types or kind.columns.values(), strict=True), metadata={kind.key: about}
    )
    columns = zip(rows or ROWS[kind.key], schema.types, strict=True)
    batch = pa.record_batch([pa.array(*column) for column in columns], schema=schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return path


# Reading and writing ------------------------------------------------------------------------------

OTHER = "of mslm-data, got another Arrow file; make it with `mslm-data vocab`"
UNREADABLE = r"got a file that cannot be read as one \(\w+\); make it with `mslm-data vocab`"
DAMAGED = "; the file is damaged: make it with `mslm-data vocab`"


def bytes_of(data: bytes) -> Callable[[Path, ArtefactKind], object]:
    return lambda path, kind: path.write_bytes(data)


def with_metadata(about: str) -> Callable[[Path, ArtefactKind], object]:
    return partial(write_arrow, about=about)


def with_a_column_name_that_is_not_utf8(path: Path, kind: ArtefactKind) -> None:
    data = write_arrow(path, kind).read_bytes()
    first = next(iter(kind.columns)).encode()
    path.write_bytes(data.replace(first, first[:-1] + b"\xff"))


def with_another_type(path: Path, kind: ArtefactKind) -> None:
    rows: list[list[Any]] = [[] for _ in kind.columns]
    write_arrow(path, kind, rows, types=[pa.int64()] * len(rows))


def with_null(place: str) -> Callable[[Path, ArtefactKind], object]:
    def write(path: Path, kind: ArtefactKind) -> None:
        columns = [[*column] for column in ROWS[kind.key]]
        if place == "in a list":
            columns[1][0] = [0, None]
        else:
            columns[int(place)][0] = None
        write_arrow(path, kind, columns)

    return write


OTHER_METADATA = (
    *("null", "[]", '{"size": 1}', '{"format": 1}', '{"format": true, "size": 1}'),
    '{"format": "1", "size": 1}',
)
WRONG: dict[str, tuple[Callable[[Path, ArtefactKind], object], str]] = {
    "no file": (lambda path, kind: None, "found none; make it with `mslm-data vocab`$"),
    "no bytes": (bytes_of(b""), UNREADABLE),
    "the first bytes of Arrow": (bytes_of(b"ARROW1"), UNREADABLE),
    "JSON": (bytes_of(b"{}"), UNREADABLE),
    "other bytes": (bytes_of(b"\xff" * 200), UNREADABLE),
    "deep metadata": (with_metadata("[" * 100_000), UNREADABLE),
    "a column name that is not UTF-8": (with_a_column_name_that_is_not_utf8, UNREADABLE),
    **{f"metadata {about}": (with_metadata(about), OTHER) for about in OTHER_METADATA},
    "another type": (with_another_type, OTHER),
    "a newer format": (
        with_metadata(f'{{"format": {FORMAT + 1}, "size": 40}}'),
        f"format {FORMAT + 1} needs a newer mslm-data",
    ),
    "no batch": (partial(write_arrow, batches=0), f"expected one batch of rows, got 0{DAMAGED}"),
    "two batches": (partial(write_arrow, batches=2), f"expected one batch of rows, got 2{DAMAGED}"),
    "a null in the first column": (with_null("0"), f"expected no nulls{DAMAGED}"),
    "a null in the last column": (with_null("-1"), f"expected no nulls{DAMAGED}"),
    "a null in a list": (with_null("in a list"), f"expected no nulls{DAMAGED}"),
}


@both_kinds
@pytest.mark.parametrize("what", WRONG)
def test_read__refuses_other_and_damaged_files(
    what: str, kind: ArtefactKind, tmp_path: Path
) -> None:
    write, message = WRONG[what]
    write(tmp_path / "a.arrow", kind)

    with pytest.raises(VocabularyError, match=message) as caught:
        kind.read(tmp_path / "a.arrow")

    assert str(caught.value).startswith(f"{tmp_path / 'a.arrow'}: ")


READERS: dict[str, tuple[ArtefactKind, Callable[[Path], object]]] = {
    "lexicon": (LEXICON, read_lexicon),
    "scores": (SCORE_COLUMN, read_scores),
    "mapped scores": (SCORE_COLUMN, partial(read_scores, mapped=True)),
}


@pytest.mark.parametrize("name", READERS)
def test_read__refuses_a_truncated_file_at_every_length(name: str, tmp_path: Path) -> None:
    kind, read = READERS[name]
    path = write_arrow(tmp_path / "a.arrow", kind)
    data = path.read_bytes()
    read(path)

    for length in range(0, len(data), 8):
        path.unlink()  # A file that is mapped must not shrink.
        path.write_bytes(data[:length])
        with pytest.raises(VocabularyError):
            read(path)


@both_kinds
def test_write__equal_arguments_give_equal_bytes(kind: ArtefactKind, tmp_path: Path) -> None:
    """In any order of the metadata, and with those of a file that was read."""
    _, columns = kind.read(write_arrow(tmp_path / "a.arrow", kind))
    turned = {name: ABOUT[name] for name in reversed(list(ABOUT))}
    written = []
    for about in (ABOUT, turned, {**ABOUT, "format": FORMAT + 1}):
        kind.write(tmp_path / "new" / "b.arrow", columns, about)
        written.append((tmp_path / "new" / "b.arrow").read_bytes())

    assert written == written[:1] * 3
    assert kind.read_about(tmp_path / "a.arrow" if kind is LEXICON else tmp_path) == {
        **ABOUT,
        "format": FORMAT,
    }


# Places -------------------------------------------------------------------------------------------


def lexicon(path: Path, **changes: object) -> Path:
    tokens = Ragged.from_rows([[9]], np.int32)
    write_lexicon(path, Lexicon.from_words(tokens, np.ones(1), {**ABOUT, **changes}))
    return path


def column(folder: Path) -> Path:
    keys, scores = np.array([1], np.uint64), Ragged.from_rows([[1.0, 2.0]], np.float32)
    write_scores(folder / "train" / "data.arrow", keys, scores, ABOUT)
    return folder


def find(folder: Path, name: str, kind: ArtefactKind = LEXICON) -> Path:
    return find_artefact(folder, name, kind, tokenizer=TOKENIZER)


def test_find_artefact__prefers_the_folder_to_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = lexicon(tmp_path / "mine.arrow")

    assert find(tmp_path / "built", "mine.arrow") == Path("mine.arrow")
    assert find(tmp_path / "built", str(elsewhere)) == elsewhere
    inside = lexicon(tmp_path / "built" / "vocab" / "mine.arrow")
    assert find(tmp_path / "built", "mine.arrow") == inside


def test_find_artefact__of_a_score_column_returns_its_folder(tmp_path: Path) -> None:
    inside = column(tmp_path / "vocab" / "attention")

    assert find(tmp_path, "attention", SCORE_COLUMN) == inside
    assert SCORE_COLUMN.read_about(inside) == {**ABOUT, "format": FORMAT}


@pytest.mark.parametrize("name", MAKERS)
def test_find_artefact__names_the_command_that_makes_a_missing_file(
    name: str, tmp_path: Path
) -> None:
    kind = LEXICON if name.endswith(".arrow") else SCORE_COLUMN

    with pytest.raises(VocabularyError) as caught:
        find(tmp_path / "built", name, kind)

    path = tmp_path / "built" / "vocab" / name
    command = MAKERS[name].replace("DIR", str(tmp_path / "built"))
    assert str(caught.value) == (
        f"{path}: expected {kind.name}, found none; make it with `{command}`"
    )


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("none", LEXICON, "a lexicon, found none; make it with `mslm-data vocab`"),
        ("none.arrow", SCORE_COLUMN, "a score column, found none; make it with `mslm-data vocab`"),
        ("attention", LEXICON, "a lexicon, which is a file, got a folder"),
        ("mine.arrow", SCORE_COLUMN, "a score column, which is a folder, got a file"),
        ("notes.txt", LEXICON, "expected a lexicon, got a file that cannot be read"),
        (
            "pmi.arrow",
            LEXICON,
            "another tokenizer than that of .*; make it with `mslm-data vocab pmi .*`",
        ),
    ],
)
def test_find_artefact__refuses_other_artefacts(
    name: str, kind: ArtefactKind, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lexicon(tmp_path / "mine.arrow")
    lexicon(tmp_path / "vocab" / "pmi.arrow", tokenizer="another")
    column(tmp_path / "vocab" / "attention")
    (tmp_path / "notes.txt").write_text("no artefact")

    with pytest.raises(VocabularyError, match=message):
        find(tmp_path, name, kind)


def test_how_to_make__knows_the_files_of_a_score_column() -> None:
    known = how_to_make(Path("my data/vocab/logits/train/data-00000-of-00001.arrow"))

    command = MAKERS["logits"].replace("DIR", "'my data'")
    assert known == f"make it with `{command}`"


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_makers__are_commands_with_all_required_options(maker: str) -> None:
    program, group, *words = shlex.split(maker)
    assert (program, group) == ("mslm-data", "vocab")

    found: click.Command | None = vocab
    context = click.Context(vocab)
    while isinstance(found, click.Group):
        found = found.get_command(context, words.pop(0))

    assert found is not None
    found.make_context("x", words)
