"""Longest match, compared with the WordPiece of the tokenizers library."""

from __future__ import annotations

import numpy as np
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from mslm_data.encode import longest_match, tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.longest_match import is_letter_or_digit, mark_printable

PRINTABLE = [chr(code) for code in range(33, 127)]
letters = st.sampled_from("abAB7-")
pieces = st.tuples(st.sampled_from(["", "##"]), st.text(letters, min_size=1, max_size=4))
words = st.lists(
    st.one_of(
        st.text(letters, min_size=1, max_size=12),
        st.text(st.sampled_from(PRINTABLE), min_size=1, max_size=8),
    ),
    max_size=20,
)


def word_piece(
    vocab: list[str], *, lowercase: bool, longest_run: int = 100
) -> tokenizers.Tokenizer:
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(vocab))}
    core = tokenizers.Tokenizer(
        models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=longest_run)
    )
    core.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.add_special_tokens(["[UNK]", "[MASK]", "a7"])
    return core


def on_a_line(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    chars = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    ends = np.cumsum([0, *map(len, words)])
    return chars, np.stack([ends[:-1], ends[1:]], axis=1)


@given(
    vocab=st.lists(pieces, max_size=40),
    words=words,
    lowercase=st.booleans(),
    longest_run=st.sampled_from([3, 100]),
)
def test_cut_words__equals_the_tokenizers_library(
    vocab: list[tuple[str, str]], words: list[str], lowercase: bool, longest_run: int
) -> None:
    known = ["[UNK]", "[MASK]", "a", "a7", *("".join(piece) for piece in vocab)]
    core = word_piece(known, lowercase=lowercase, longest_run=longest_run)
    made = tokenizer.parse_tokenizer(core.to_str())
    cutter = longest_match.load_longest_match(made)
    assert cutter is not None

    counts, cut = cutter.cut(*on_a_line(words))

    (encoding,) = made.core.encode_batch([words], is_pretokenized=True, add_special_tokens=False)
    assert cut[:, 0].tolist() == encoding.ids
    assert [tuple(piece) for piece in cut[:, 1:3].tolist()] == encoding.offsets
    assert np.repeat(np.arange(len(words)), counts).tolist() == encoding.word_ids


@given(words=words)
def test_cut_words__numbers_runs_as_the_table_numbers_words(words: list[str]) -> None:
    made = tokenizer.parse_tokenizer(word_piece([*"abAB7-", "[UNK]"], lowercase=False).to_str())
    table = WordTable(made)
    chars, bounds = on_a_line(words)
    cutter = longest_match.load_longest_match(made)
    assert cutter is not None

    _, cut = cutter.cut(chars, bounds)

    rows = table.rows("".join(words), chars, bounds)
    of_words = [table.pieces[table.offsets[row] : table.offsets[row + 1], 3] for row in rows]
    assert cut[:, 3].tolist() == np.concatenate([*of_words, np.empty(0, np.int64)]).tolist()


def test_mark_printable__knows_ascii() -> None:
    chars, bounds = on_a_line(["a~!", "", "a b", "\x7f", "é", "\x1f", "Z"])
    marks = np.empty(len(bounds), np.bool_)

    mark_printable(chars, bounds, marks)

    assert marks.tolist() == [True, True, False, False, False, False, True]


def test_is_letter_or_digit__is_isalnum_of_ascii() -> None:
    assert [is_letter_or_digit(code) for code in range(128)] == [
        chr(code).isalnum() for code in range(128)
    ]
