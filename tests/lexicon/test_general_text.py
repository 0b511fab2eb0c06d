from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from pathlib import Path

import pytest
import tokenizers

import mslm_data as md
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.anchors.general_text import (
    WORDFREQ_WORDS,
    from_file,
    from_wordfreq,
    from_words,
    normalise_word,
)
from mslm_data.lexicon.word_types import count_words
from tests import made


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Gene", "gene"),
        ("a", ""),
        ("p53", ""),
        ("IL-2", ""),
        ("café", "café"),
        ("[UNK]", ""),
        ("", ""),
        ("ÄÖ", "äö"),
    ],
)
def test_counted__words_have_two_letters_in_lower_case(text: str, word: str) -> None:
    assert normalise_word(text) == word


def test_from_words__counts_the_words_of_a_folder(tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "built" / "tokenizer.json"))
    words = count_words(md.load(tmp_path / "built")["train"].chunks())
    manifest = tmp_path / "built" / "manifest.json"

    frequencies = from_words(words, core, manifest=manifest)

    lines = (made.SAMPLE / "ncbi-disease" / "train.tsv").read_text(encoding="utf-8").splitlines()
    expected = Counter(normalise_word(line.split("\t")[0]) for line in lines if line)
    del expected[""]
    assert frequencies.counts == expected
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert frequencies.about == {"source": "shards", "manifest_sha256": digest}


def test_from_file__merges_case_and_skips_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_bytes(
        "\ufeffthe\t23135851162\r\nThe\t2\np53\t9\na\t9\nnone\t0\nof\t13151942776".encode()
    )

    frequencies = from_file(path)

    assert frequencies.counts == {"the": 23135851164, "of": 13151942776}
    assert frequencies.about == {
        "source": "file",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def test_from_file__reads_gzipped_files(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv.gz"
    path.write_bytes(gzip.compress(b"the\t2\nof\t1\n"))

    assert from_file(path).counts == {"the": 2, "of": 1}


LINES = ["secret", "secret 12", "secret\t-1", "secret\t1.5", "secret\t", "\u0661\t\u0661", ""]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"counts\.tsv: cannot be read"),
        (b"the\t1\n\xff\xfe\t2\n", "not valid UTF-8"),
        *(
            (
                f"the\t1\n{line}\nof\t1\n".encode(),
                r"counts\.tsv:2: expected a word, a tab and a whole number; correct",
            )
            for line in LINES
        ),
    ],
)
def test_from_file__refuses_other_files(data: bytes | None, message: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "counts.tsv").write_bytes(data)

    with pytest.raises(VocabularyError, match=message) as caught:
        from_file(tmp_path / "counts.tsv")
    assert "secret" not in str(caught.value)


def test_from_wordfreq__probabilities_become_counts() -> None:
    wordfreq = pytest.importorskip("wordfreq")

    frequencies = from_wordfreq()

    for word in ("the", "kinase"):  # its own answers are rounded to three digits
        probability = wordfreq.word_frequency(word, "en", wordlist="best")
        assert frequencies.counts[word] == pytest.approx(probability * WORDFREQ_WORDS, rel=5e-3)
    assert min(frequencies.counts.values()) >= 1
    assert all(normalise_word(word) == word for word in frequencies.counts)
    assert frequencies.about["source"] == "wordfreq"
    assert frequencies.about["words"] == WORDFREQ_WORDS == 10**9
