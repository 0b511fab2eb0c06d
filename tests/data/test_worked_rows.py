"""Worked rows in docstrings have the numbers that the code computes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mslm_data.annotate.terms.texts import Texts, find_text_words
from mslm_data.data import documents as documents_module
from mslm_data.data.document import Document, Sentence, Span
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, count_up
from mslm_data.encode.layout import Layout, lay_out
from mslm_data.encode.word_table import WordTable
from mslm_data.segment.lines import NoteLine, read_lines
from tests import made

SENTENCE = "Warfarin causes haemorrhage ."


def rows_below(documented: object, head: str) -> list[list[int]]:
    """Return the numbers below the head of a table in a docstring."""
    table = (documented.__doc__ or "").partition(f"{head}\n")[2].partition("\n\n")[0]
    return [[int(cell) for cell in line.split()] for line in table.splitlines()]


def codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def words(*bounds: tuple[int, int]) -> npt.NDArray[np.int32]:
    return np.array(bounds, np.int32)


def test_documents__match_the_worked_columns() -> None:
    batch = Documents.from_documents(
        [
            Document(
                id="train:0",
                text="Aspirin helps .",
                spans=(Span(0, 7, "Chemical"),),
                words=words((0, 7), (8, 13), (14, 15)),
            ),
            Document(id="train:1", text="It does .", words=words((0, 2), (3, 7), (8, 9))),
        ]
    )

    shown = documents_module.__doc__ or ""

    assert f"starts      {batch.starts.tolist()}" in shown
    assert f"ends        {batch.ends.tolist()}" in shown
    for name, ranges in (("mentions", batch.mentions), ("words", batch.words)):
        columns = ranges.offsets.tolist(), ranges.starts.tolist(), ranges.ends.tolist()
        assert "{:<12}offsets {}   starts {}   ends {}".format(name, *columns) in shown


def test_layout__matches_the_worked_tokens() -> None:
    document = Document(id="d", text=SENTENCE, sentences=(Sentence(0, len(SENTENCE)),))
    documents = Documents.from_documents([document])

    layout = lay_out(documents, documents.sentences, WordTable(made.word_piece()))

    for token, *row in rows_below(Layout, "token    id  word  start  end"):
        columns = layout.ids, layout.words, layout.starts, layout.ends
        assert row == [int(column[token]) for column in columns]


def test_word_table__matches_the_worked_pieces() -> None:
    known = WordTable(made.word_piece())

    known.rows("causes.", codes("causes."), np.array([[0, 7]]))

    assert rows_below(WordTable, "piece    id  start  end  word") == [
        [number, *row] for number, row in enumerate(known.pieces.tolist())
    ]


def test_find_text_words__matches_the_worked_words() -> None:
    texts = find_text_words(codes("Heart failure."), np.array([0]))

    assert rows_below(Texts, "word  start  end  gap") == [
        [number, *row] for number, row in enumerate(texts.words.tolist())
    ]


def test_read_lines__matches_the_worked_line() -> None:
    text = "x" * 38 + "\n\n  2. Fluids"

    line = read_lines(text, capitals=False)[-1]

    row = (NoteLine.__doc__ or "").partition("item  number\n")[2].splitlines()[0].split()
    shown = line.start, line.end, line.first, line.blank_before, line.item, line.number
    assert row == [str(value) for value in shown]


def test_ragged__matches_the_worked_arrays() -> None:
    ragged = Ragged.from_rows([[7, 8], [], [9]], np.int64)

    for name, values in (("values", ragged.values), ("offsets", ragged.offsets)):
        [line] = [line for line in (Ragged.__doc__ or "").splitlines() if f" {name}  " in line]
        assert [int(value) for value in line.split()[1:]] == values.tolist()


def test_count_up__matches_the_worked_numbers() -> None:
    lengths = np.array([2, 0, 3])

    assert count_up(np.array([5, 9, 0]), lengths).tolist() == [5, 6, 0, 1, 2]
    assert count_up(0, lengths).tolist() == [0, 1, 0, 1, 2]


def test_examples__matches_the_worked_row() -> None:
    spans = (Span(0, 8, "Chemical"), Span(16, 27, "Disease"))
    document = Document(
        id="d", text=SENTENCE, spans=spans, words=words((0, 8), (9, 15), (16, 27), (28, 29))
    )

    by = made.encoder(made.word_piece(), ["Chemical", "Disease"])

    row, _ = made.encoded(by, [document])

    lines = [line.split() for line in (Examples.__doc__ or "").splitlines()]
    for name, column in (
        ("input_ids", row.input_ids),
        ("word_ids", row.word_ids),
        ("bio", row.bio),
    ):
        [shown] = [cells[1:] for cells in lines if cells[:1] == [name]]
        assert [int(cell) for cell in shown] == column[0].tolist()
    assert rows_below(Examples, "mention  span_starts  span_ends  span_labels") == [
        [number, *bounds]
        for number, bounds in enumerate(
            zip(row.span_starts[0], row.span_ends[0], row.span_labels[0], strict=True)
        )
    ]
