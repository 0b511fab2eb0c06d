from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.artefacts import FORMAT
from mslm_data.lexicon.store import Lexicon, open_lexicon, read_lexicon, write_lexicon
from tests.support.properties import with_fixtures

ABOUT = {"tokenizer": "0" * 64, "size": 40, "made": {"command": "test"}}
Entry = tuple[Sequence[int], Sequence[int], float]
"""Tokens, starts of words, and score."""
quick = with_fixtures()


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    tokens = draw(st.lists(st.integers(0, 39), min_size=1, max_size=5))
    starts = sorted(draw(st.sets(st.integers(1, len(tokens)), max_size=3)) - {len(tokens)})
    return tokens, [0, *starts], draw(st.floats(allow_nan=False, allow_infinity=False))


def lexicon_of(rows: Sequence[Entry], about: dict[str, Any] = ABOUT) -> Lexicon:
    return Lexicon(
        tokens=Ragged.from_rows([tokens for tokens, _, _ in rows], np.int32),
        word_starts=Ragged.from_rows([starts for _, starts, _ in rows], np.int32),
        scores=np.array([score for _, _, score in rows], np.float64),
        about=about,
    )


TWO = lexicon_of([([7, 8, 9], [0, 2], 1.5), ([5], [0], -0.25)])


def arrow(path: Path, columns: dict[str, pa.Array], about: Any = None, times: int = 1) -> Path:
    """Write an Arrow file with our metadata and any columns."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    about = {**ABOUT, "format": FORMAT} if about is None else about
    schema = batch.schema.with_metadata(
        {"mslm_data_lexicon": about if isinstance(about, str) else json.dumps(about)}
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for _ in range(times):
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return path


def lists(rows: Sequence[Any]) -> pa.Array:
    return pa.array(rows, pa.list_(pa.int32()))


def columns_of(
    tokens: Sequence[Any] = ([7, 8, 9],),
    starts: Sequence[Any] = ([0, 2],),
    scores: Sequence[Any] = (1.0,),
) -> dict[str, pa.Array]:
    return {
        "tokens": lists(tokens),
        "word_starts": lists(starts),
        "score": pa.array(scores, pa.float64()),
    }


@quick
@given(rows=st.lists(entries(), max_size=6))
def test_read_lexicon__inverts_write_lexicon(rows: list[Entry], tmp_path: Path) -> None:
    write_lexicon(tmp_path / "a.arrow", lexicon_of(rows))

    again = read_lexicon(tmp_path / "a.arrow")

    assert again.tokens.tolist() == [list(tokens) for tokens, _, _ in rows]
    assert again.word_starts.tolist() == [list(starts) for _, starts, _ in rows]
    assert again.scores.tolist() == [score for _, _, score in rows]
    assert again.words.tolist() == [len(starts) for _, starts, _ in rows]
    assert (again.tokens.values.dtype, again.tokens.offsets.dtype) == (np.int32, np.int64)
    assert len(again) == len(rows)
    assert again.about == {**ABOUT, "format": FORMAT}


def test_write_lexicon__does_not_depend_on_the_order_of_about(
    tmp_path: Path,
) -> None:
    turned = lexicon_of(
        [([7, 8, 9], [0, 2], 1.5), ([5], [0], -0.25)],
        {name: ABOUT[name] for name in reversed(list(ABOUT))},
    )

    write_lexicon(tmp_path / "a.arrow", TWO)
    write_lexicon(tmp_path / "b.arrow", turned)

    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


def test_write_lexicon__round_trips_bytes(tmp_path: Path) -> None:
    write_lexicon(tmp_path / "a.arrow", TWO)
    read = read_lexicon(tmp_path / "a.arrow")
    older = Lexicon(
        tokens=read.tokens,
        word_starts=read.word_starts,
        scores=read.scores,
        about={**read.about, "format": 0},
    )

    write_lexicon(tmp_path / "b.arrow", older)

    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


def test_write_lexicon__only_the_owner_can_read_it(tmp_path: Path) -> None:
    write_lexicon(tmp_path / "made" / "vocab" / "a.arrow", TWO)

    assert stat.S_IMODE((tmp_path / "made" / "vocab" / "a.arrow").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "made" / "vocab").stat().st_mode) == 0o700
    assert len(list((tmp_path / "made" / "vocab").iterdir())) == 1


WRONG: dict[str, tuple[list[Entry], str]] = {
    "id too large": ([([40], [0], 1.0)], r"entries of ids in \[0, 40\)"),
    "negative id": ([([-1], [0], 1.0)], r"entries of ids in \[0, 40\)"),
    "empty entry": ([([], [0], 1.0)], r"entries of ids in \[0, 40\)"),
    "NaN": ([([1], [0], float("nan"))], "finite scores"),
    "infinite": ([([1], [0], float("inf"))], "finite scores"),
    "no word": ([([1], [0], 1.0), ([1], [], 1.0)], "a word at the first token of each entry"),
    "first word later": ([([1, 2], [1], 1.0)], "a word at the first token of each entry"),
    "words fall": (
        [([1, 2, 3], [0, 2, 1], 1.0)],
        "words that begin one after the other within their entry",
    ),
    "word twice": (
        [([1, 2], [0, 1, 1], 1.0)],
        "words that begin one after the other within their entry",
    ),
    "word behind the end": (
        [([1, 2], [0, 2], 1.0), ([1], [0], 1.0)],
        "words that begin one after the other",
    ),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG)
def test_read_lexicon__refuses_invalid_entries(
    rows: list[Entry], message: str, tmp_path: Path
) -> None:
    tokens, starts, scores = zip(*rows, strict=True)
    path = arrow(tmp_path / "a.arrow", columns_of(tokens, starts, scores))

    with pytest.raises(VocabularyError, match=message):
        read_lexicon(path)


def test_open_lexicon__reads_a_replaced_file_of_equal_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "names.arrow"
    write_lexicon(path, TWO)
    before = path.stat()
    assert open_lexicon(path) is open_lexicon(path)

    other = lexicon_of([([7, 8, 9], [0, 2], 2.5), ([5], [0], -0.25)])
    write_lexicon(path, other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert path.stat().st_size == before.st_size
    assert open_lexicon(path).scores.tolist() == other.scores.tolist()


OTHER_METADATA = ["null", "[]", "{}", '{"format": 1}', '{"size": 1}', '{"format": true, "size": 1}',
                  '{"format": "1", "size": 1}']  # fmt: skip


@pytest.mark.parametrize("about", OTHER_METADATA)
def test_read_lexicon__another_arrow_file(about: str, tmp_path: Path) -> None:
    path = arrow(tmp_path / "a.arrow", columns_of(), about)

    with pytest.raises(
        VocabularyError, match="expected a lexicon of mslm-data, got another Arrow file"
    ):
        read_lexicon(path)


def test_read_lexicon__missing_newer_and_foreign_columns(tmp_path: Path) -> None:
    newer = arrow(tmp_path / "newer.arrow", columns_of(), {"format": FORMAT + 1, "size": 40})
    columns = columns_of()
    renamed = arrow(tmp_path / "renamed.arrow", {"ids": columns.pop("tokens"), **columns})
    twice = arrow(tmp_path / "twice.arrow", columns_of(), times=2)
    none = arrow(tmp_path / "none.arrow", columns_of(), times=0)

    with pytest.raises(
        VocabularyError,
        match=r"missing.arrow: expected a lexicon, found none; make it with `mslm-data vocab`$",
    ):
        read_lexicon(tmp_path / "missing.arrow")
    with pytest.raises(VocabularyError, match=f"format {FORMAT + 1} needs a newer mslm-data"):
        read_lexicon(newer)
    with pytest.raises(
        VocabularyError,
        match="expected a lexicon of mslm-data, got another Arrow file; make it with `mslm",
    ):
        read_lexicon(renamed)
    for path, times in ((twice, 2), (none, 0)):
        with pytest.raises(
            VocabularyError,
            match=f"expected one batch of rows, got {times}; the file is damaged: make it",
        ):
            read_lexicon(path)


def test_read_lexicon__a_column_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_lexicon(path, TWO)
    path.write_bytes(path.read_bytes().replace(b"word_starts", b"word_start\xff"))

    with pytest.raises(
        VocabularyError,
        match=r"expected a lexicon, got a file that cannot be read as one \(UnicodeDecodeError\); make",
    ):
        read_lexicon(path)


@pytest.mark.parametrize(
    "columns",
    [
        columns_of(tokens=[None]),
        columns_of(tokens=[[7, None, 9]]),
        columns_of(starts=[None]),
        columns_of(starts=[[0, None]]),
        columns_of(scores=[None]),
    ],
)
def test_read_lexicon__nulls(columns: dict[str, pa.Array], tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="expected no nulls; the file is damaged"):
        read_lexicon(arrow(tmp_path / "a.arrow", columns))


def test_read_lexicon__accepts_lists_with_an_offset(tmp_path: Path) -> None:
    tokens = pa.ListArray.from_arrays(
        pa.array([2, 3], pa.int32()), pa.array([9, 9, 7, 9], pa.int32())
    )
    path = arrow(tmp_path / "a.arrow", {**columns_of(starts=[[0]]), "tokens": tokens})

    assert read_lexicon(path).tokens.tolist() == [[7]]


@pytest.mark.parametrize("junk", [b"", b"ARROW1", b"{}", b"\xff" * 200, "[" * 100_000])
def test_read_lexicon__not_arrow_or_not_json(junk: bytes | str, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    if isinstance(junk, str):
        arrow(path, columns_of(), junk)
    else:
        path.write_bytes(junk)

    with pytest.raises(
        VocabularyError,
        match=r"expected a lexicon, got a file that cannot be read as one \(\w+\); make it",
    ):
        read_lexicon(path)


def test_read_lexicon__a_truncated_file_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_lexicon(path, TWO)
    data = path.read_bytes()

    for length in range(0, len(data), 8):
        path.write_bytes(data[:length])
        with pytest.raises(VocabularyError):
            read_lexicon(path)


def flipped(data: bytes, count: int) -> Iterator[bytes]:
    """Yield copies with one to four bytes changed, the same in each run."""
    random = np.random.default_rng(0)
    for _ in range(count):
        copy = bytearray(data)
        for at in random.integers(0, len(data), random.integers(1, 5)):
            copy[at] = random.integers(0, 256)
        yield bytes(copy)


def test_read_lexicon__flipped_bytes_are_refused_or_still_a_lexicon(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_lexicon(path, lexicon_of([([7, 8, 9], [0, 2], 1.5), ([5], [0], 2.0)] * 4))
    refused = 0

    for data in flipped(path.read_bytes(), 400):
        path.write_bytes(data)
        try:
            write_lexicon(
                tmp_path / "b.arrow", read_lexicon(path)
            )  # an accepted lexicon satisfies the checks of writing
        except VocabularyError:
            refused += 1

    assert 0 < refused < 400


@quick
@given(data=st.binary(max_size=300))
def test_read_lexicon__random_bytes(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"ARROW1\0\0" + data)

    with pytest.raises(VocabularyError):
        read_lexicon(tmp_path / "a.arrow")
