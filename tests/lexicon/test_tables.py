from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.scores.tables import count_ids, read_table
from mslm_data.lexicon.store import read_lexicon, write_lexicon
from tests import made
from tests.generate import IDS, examples_of, fixed_examples, rows_of

ABOUT = {"size": made.word_piece().ids.size}


def read(tmp_path, text, *, by="words", given_words=True, tokenizer=None):
    path = tmp_path / "t.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    tokenizer = tokenizer or made.word_piece()
    return read_table(
        path, tokenizer, by=by, given_words=given_words, about={"size": tokenizer.ids.size}
    )


def ids_of(words, tokenizer=None):
    core = (tokenizer or made.word_piece()).core
    return core.encode(words, is_pretokenized=True, add_special_tokens=False).ids


def test_read_table__splits_words_like_rows(tmp_path):
    lexicon, skipped = read(
        tmp_path, "kinase\t0.5\ncolorectal   nucleus\t-2\ninhibitors\t1e3\tmore\r\n"
    )

    assert lexicon.tokens.tolist() == [
        ids_of(["kinase"]),
        ids_of(["colorectal", "nucleus"]),
        ids_of(["inhibitors"]),
    ]
    assert lexicon.word_starts.tolist() == [[0], [0, len(ids_of(["colorectal"]))], [0]]
    assert lexicon.scores.tolist() == [0.5, -2, 1000]
    assert not skipped


@pytest.mark.parametrize(("given_words", "starts"), [(True, [0]), (False, [0, 1, 2])])
def test_read_table__words_of_running_text_are_found(tmp_path, given_words, starts):
    lexicon, _ = read(tmp_path, "a/b\t1\n", given_words=given_words)

    assert lexicon.tokens.tolist() == [ids_of(["a/b"])]
    assert lexicon.word_starts.tolist() == [starts]


def test_read_table__byte_level_words_have_their_space(tmp_path):
    tokenizer = made.byte_level()

    lexicon, _ = read(tmp_path, "kinase binds\t1\n", tokenizer=tokenizer)

    assert lexicon.tokens.tolist() == [ids_of([" kinase", " binds"], tokenizer)]


def test_read_table__counts_excluded_lines(tmp_path):
    lines = ["word\tscore", "kinase\t1", "", "of\tmany", "the", "☃\t1", "the ☃\t2", "kinase\t3", "\t4", "nucleus\tnan",
             "nucleus\tinf", "protein\t5"]  # fmt: skip

    lexicon, skipped = read(tmp_path, "\n".join(lines))

    assert lexicon.tokens.tolist() == [ids_of(["kinase"]), ids_of(["protein"])]
    assert lexicon.scores.tolist() == [1, 5]
    assert skipped == {"no number": 5, "unknown": 2, "repeated": 1, "no entry": 1}


def test_read_table__ends_lines_at_newlines_only(tmp_path):
    lexicon, skipped = read(tmp_path, b"nucleus\t1\nkinase\rprotein\t2\r\n")

    assert lexicon.tokens.tolist() == [ids_of(["nucleus"]), ids_of(["kinase", "protein"])]
    assert lexicon.scores.tolist() == [1, 2]
    assert not skipped


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


@pytest.mark.parametrize("entry", ["-1", "1.5", "x", "²"])
def test_read_table__invalid_ids_refused(tmp_path, entry):
    _, skipped = read(tmp_path, f"9\t1\n{entry}\t1\n", by="ids")

    assert skipped == {"unknown": 1}


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


def test_read_table__entries_survive_the_file(tmp_path):
    lexicon, _ = read(tmp_path, "kinase of\t1\nthe\t2\n")

    write_lexicon(tmp_path / "l.arrow", lexicon)

    assert read_lexicon(tmp_path / "l.arrow").word_starts.tolist() == lexicon.word_starts.tolist()


def test_read_table__without_usable_lines(tmp_path):
    with pytest.raises(
        VocabularyError,
        match=r"t.tsv: no usable line; expected an entry, a tab and a number per line",
    ):
        read(tmp_path, "word\tscore\n☃\t1\n")


def test_read_table__no_file(tmp_path):
    with pytest.raises(
        VocabularyError, match=r"none.tsv: no such file; pass a table of entries and numbers"
    ):
        read_table(
            tmp_path / "none.tsv", made.word_piece(), by="words", given_words=True, about=ABOUT
        )


def test_read_table__not_utf8(tmp_path):
    with pytest.raises(VocabularyError, match="not valid UTF-8"):
        read(tmp_path, b"caf\xe9\t1\n")


def test_encode_words__empty_strings_have_no_ids():
    from mslm_data.encode.word_table import WordTable

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
