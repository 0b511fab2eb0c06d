from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from mslm_data.encode import word_table
from mslm_data.encode.tokenizer import parse_tokenizer
from mslm_data.encode.word_table import Growing, WordTable, number_words
from tests import made
from tests.reference.encode import first_characters

each_tokenizer = pytest.mark.parametrize("name", sorted(made.TOKENIZERS))
Piece = tuple[int, int, int]


def rows_of(table: WordTable, words: list[str]) -> list[int]:
    """Return the table rows of the words of a line."""
    line, ends = "".join(words), np.cumsum([0, *map(len, words)])
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    return table.rows(line, chars, np.stack([ends[:-1], ends[1:]], axis=1)).tolist()


def pieces_of(table: WordTable, words: list[str]) -> list[list[Piece]]:
    """Return id, start and end of the tokens of each word."""
    rows = rows_of(table, words)
    return [
        [tuple(piece) for piece in table.pieces[slice(*table.offsets[row : row + 2]), :3].tolist()]
        for row in rows
    ]


@each_tokenizer
@given(words=st.lists(made.some_words, max_size=12))
def test_rows__has_the_tokens_of_each_single_word(name: str, words: list[str]) -> None:
    tokenizer = made.TOKENIZERS[name]()

    pieces = pieces_of(WordTable(tokenizer), words)

    for word, found in zip(words, pieces, strict=True):
        alone = tokenizer.core.encode(
            [tokenizer.lead + word], is_pretokenized=True, add_special_tokens=False
        )
        control = set(tokenizer.ids.special) - {tokenizer.ids.unk}
        assert [id_ for id_, _, _ in found] == [
            tokenizer.ids.unk if id_ in control else id_ for id_ in alone.ids
        ]
        assert all(0 <= start < end <= len(word) for _, start, end in found)


@each_tokenizer
@given(words=st.lists(made.some_words, min_size=1, max_size=12))
def test_rows__is_the_same_when_read_from_the_vocabulary(name: str, words: list[str]) -> None:
    tokenizer = made.TOKENIZERS[name]()
    expected = WordTable(tokenizer)
    found = WordTable(tokenizer)
    rows_of(expected, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_table, "_MANY", 0)
        rows_of(found, words)

    assert found.pieces.tolist() == expected.pieces.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert (found._longest_match is not None) == (name == "word_piece")


@pytest.mark.parametrize("change", ["added token", "normalizer", "pre-tokenizer"])
def test_rows__uses_the_library_for_complex_tokenizers(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tokenizers.Tokenizer.from_str(made.word_piece().json)
    if change == "added token":
        core.add_tokens(["nas"])
    elif change == "normalizer":
        core.normalizer = normalizers.Sequence([core.normalizer, normalizers.Replace("i", "o")])
    else:
        core.pre_tokenizer = pre_tokenizers.Split("a", "isolated")
    monkeypatch.setattr(word_table, "_MANY", 0)
    table = WordTable(parse_tokenizer(core.to_str()))

    (pieces,) = pieces_of(table, ["kinases"])

    assert table._longest_match is None
    alone = core.encode(["kinases"], is_pretokenized=True, add_special_tokens=False)
    assert [id_ for id_, _, _ in pieces] == alone.ids


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Split words after a few characters. Return the number of characters of each library call."""
    at_once: list[int] = []
    encoded = WordTable._encoded_at_once

    def counted(table: WordTable, texts: Sequence[str]) -> Any:
        at_once.append(sum(map(len, texts)))
        return encoded(table, texts)

    monkeypatch.setattr(word_table, "_LONGEST", 12)
    monkeypatch.setattr("mslm_data.encode.tokenizer.AT_ONCE", 24)
    monkeypatch.setattr(WordTable, "_encoded_at_once", counted)
    return at_once


@each_tokenizer
def test_rows__splits_very_long_words(name: str, short_parts: list[int]) -> None:
    """The library needs up to a KiB per token, so a word of 10 MB took 10 GB."""
    tokenizer = made.TOKENIZERS[name]()
    words = [
        "kinase",
        "inhibitors," * 20,
        "的一是不了人我在有他这中大来上国个到说们" * 3,
        "aé" * 50,
    ]

    found = pieces_of(WordTable(tokenizer), words)

    assert max(short_parts) <= 24 + 12 + len(tokenizer.lead)
    assert len(short_parts) > 10
    for word, pieces in zip(words, found, strict=True):
        starts = [start for _, start, _ in pieces]
        assert starts == sorted(starts)
        assert {place for _, start, end in pieces for place in range(start, end)} == {
            *range(len(word))
        }


@given(batches=st.lists(st.lists(made.some_words, max_size=6), max_size=6))
def test_rows__evicts_words_without_changing_them(batches: list[list[str]]) -> None:
    patient, forgetful = WordTable(made.word_piece()), WordTable(made.word_piece(), limit=3)

    for words in batches:
        assert pieces_of(forgetful, words) == pieces_of(patient, words)


def test_rows__gives_a_repeated_word_the_same_row() -> None:
    table = WordTable(made.word_piece())

    first = rows_of(table, ["kinase", "p53", "kinase"])

    assert first[0] == first[2] != first[1]
    assert rows_of(table, ["p53", "kinase"]) == [first[1], first[0]]
    assert len(table.offsets) == 3


def test_rows__has_words_beyond_one_call_of_the_tokenizer() -> None:
    words = [f"w{number}" for number in range(1500)]

    pieces = pieces_of(WordTable(made.word_piece()), words)

    assert pieces == [pieces_of(WordTable(made.word_piece()), [word])[0] for word in words]


@pytest.mark.parametrize(
    ("stretch", "starts", "words"),
    [
        ("kinase", [0, 3], [0, 0]),
        ("p53/MDM2.", [0, 1, 3, 4, 7, 8], [0, 0, 1, 2, 2, 3]),
        (
            "p53/MDM2.",
            [0, 2, 4, 8],
            [0, 0, 1, 2],
        ),  # A token over "3/" joins the slash to the previous word.
        ("--", [0, 1], [0, 1]),
        ("e\u0301a", [0, 1, 2], [0, 0, 0]),
        ("\u0301a", [0, 1], [0, 1]),
        ("🧬", [0, 0, 0, 0], [0, 0, 0, 0]),  # Four tokens for the bytes of one character.
        ("\x00a", [1], [0]),
        ("", [], []),
    ],
)
def test_number_words__numbers_runs_of_letters_and_other_characters(
    stretch: str, starts: list[int], words: list[int]
) -> None:
    assert number_words(stretch, starts) == words


@given(stretch=made.some_words, data=st.data())
def test_number_words__starts_words_at_word_boundaries_only(
    stretch: str, data: st.DataObject
) -> None:
    starts = sorted(data.draw(st.lists(st.integers(0, len(stretch) - 1), min_size=1)))

    words = number_words(stretch, starts)

    heads = first_characters(stretch)
    assert words[0] == 0
    for before, here, word_before, word in zip(starts, starts[1:], words, words[1:], strict=False):
        assert word - word_before == (here in heads and here != before)


@given(parts=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6))
def test_extend__appends(parts: list[list[int]]) -> None:
    growing = Growing(np.array([7], np.int64))

    for part in parts:
        growing.extend(np.array(part, np.int64))

    assert growing.values.tolist() == [7, *(value for part in parts for value in part)]
