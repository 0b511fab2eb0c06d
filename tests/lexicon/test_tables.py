from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.scores.tables import count_ids, read_table
from tests import made
from tests.generate import IDS, examples_of, fixed_examples, rows_of


def read(tmp_path, text, *, by="words", given_words=True, tokenizer=None):
    path = tmp_path / "t.tsv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    tokenizer = tokenizer or made.word_piece()
    return read_table(
        path, tokenizer, by=by, given_words=given_words, about={"size": tokenizer.ids.size}
    )


def ids_of(words, tokenizer=None):
    tokenizer = tokenizer or made.word_piece()
    words = [tokenizer.lead + word for word in words]
    return tokenizer.core.encode(words, is_pretokenized=True, add_special_tokens=False).ids


@pytest.mark.parametrize("tokenizer", [made.word_piece, made.byte_level])
@pytest.mark.parametrize(
    ("text", "entries", "scores", "skipped"),
    [
        (
            "kinase\t0.5\ncolorectal   nucleus\t-2\ninhibitors\t1e3\tmore\r\n",
            ["kinase", "colorectal nucleus", "inhibitors"],
            [0.5, -2, 1000],
            {},
        ),
        (
            "nucleus\t1\nkinase\rprotein\t2\r\n",  # Only a newline ends a line.
            ["nucleus", "kinase protein"],
            [1, 2],
            {},
        ),
        (
            "word\tscore\nkinase\t1\n\nof\tmany\nthe\nkinase\t3\n\t4\nnucleus\tnan\n"
            "nucleus\tinf\nprotein\t5",
            ["kinase", "protein"],
            [1, 5],
            {"no number": 5, "repeated": 1, "no entry": 1},
        ),
    ],
)
def test_read_table__splits_words_like_rows(tmp_path, tokenizer, text, entries, scores, skipped):
    by = tokenizer()

    lexicon, found_skipped = read(tmp_path, text, tokenizer=by)

    words = [entry.split() for entry in entries]
    firsts = [[len(ids_of(entry[:n], by)) for n in range(len(entry))] for entry in words]
    assert lexicon.tokens.tolist() == [ids_of(entry, by) for entry in words]
    assert lexicon.word_starts.tolist() == firsts
    assert lexicon.scores.tolist() == scores
    assert found_skipped == skipped


def test_read_table__skips_unknown_words(tmp_path):
    lexicon, skipped = read(tmp_path, "☃\t1\nthe ☃\t2\nthe\t3\n")

    assert lexicon.tokens.tolist() == [ids_of(["the"])]
    assert skipped == {"unknown": 2}


@pytest.mark.parametrize(("given_words", "starts"), [(True, [0]), (False, [0, 1, 2])])
def test_read_table__words_of_running_text_are_found(tmp_path, given_words, starts):
    lexicon, _ = read(tmp_path, "a/bq\t1\n", given_words=given_words)

    assert lexicon.tokens.tolist() == [ids_of(["a/bq"])]
    assert lexicon.word_starts.tolist() == [starts]


@pytest.mark.parametrize("by", ["pieces", "ids"])
def test_read_table__single_tokens(tmp_path, by):
    core = made.word_piece().core
    pieces = [core.id_to_token(number) for number in (9, 700, 8)]
    text = {
        "pieces": [*pieces, "[MASK]", "no such piece", pieces[0]],
        "ids": [9, 700, 8, 4, 1144, "09"],
    }[by]

    lexicon, skipped = read(
        tmp_path, "".join(f"{entry}\t{i / 10}\n" for i, entry in enumerate(text)), by=by
    )

    assert lexicon.tokens.tolist() == [[9], [700], [8]]
    assert lexicon.scores.tolist() == [0, 0.1, 0.2]
    assert skipped == {"special": 1, "unknown": 1, "repeated": 1}


def test_read_table__skips_invalid_ids(tmp_path):
    _, skipped = read(tmp_path, "9\t1\n-1\t1\n1.5\t1\nx\t1\n²\t1\n", by="ids")

    assert skipped == {"unknown": 4}


def test_read_table__many_lines_in_any_chunks(tmp_path, monkeypatch):
    words = [f"w{i}" for i in range(100)]
    text = "".join(f"{word} kinase\t{i}\n" for i, word in enumerate(words))
    whole, _ = read(tmp_path, text)
    monkeypatch.setattr("mslm_data.lexicon.scores.tables._LINES_AT_ONCE", 7)

    parts, _ = read(tmp_path, text)

    assert (
        parts.tokens.tolist()
        == whole.tokens.tolist()
        == [ids_of([word, "kinase"]) for word in words]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "word\tscore\n☃\t1\n".encode(),
            r"t.tsv: no usable line; expected an entry, a tab and a number per line",
        ),
        (b"caf\xe9\t1\n", "not valid UTF-8"),
        (None, r"t.tsv: no such file; pass a table of entries and numbers"),
    ],
)
def test_read_table__refuses_other_files(tmp_path, text, message):
    with pytest.raises(VocabularyError, match=message):
        read(tmp_path, text)


def test_encode_words__empty_strings_have_no_ids():
    ids, numbers = encode_words(["", "kinase", "", "a/b"], WordTable(made.word_piece()))

    assert ids.tolist() == [[], ids_of(["kinase"]), [], ids_of(["a/b"])]
    assert numbers.tolist()[3] == [0, 1, 2]


def test_count_ids__equals_a_counter():
    examples = fixed_examples(40)
    counter = Counter(
        id_
        for row in rows_of(examples)
        for id_, word in zip(row.ids, row.word_ids, strict=True)
        if word >= 0
    )
    assert counter.pop(IDS.unk) > 0

    lexicon = count_ids([examples, examples], {"size": IDS.size})

    expected = sorted(((-2 * count, id_) for id_, count in counter.items()))
    assert lexicon.tokens.tolist() == [[id_] for _, id_ in expected]
    assert lexicon.scores.tolist() == [-count for count, _ in expected]


def test_count_ids__no_rows():
    assert len(count_ids([examples_of([])], {"size": 9})) == 0
    assert np.array_equal(count_ids([], {"size": 9}).tokens.offsets, [0])
