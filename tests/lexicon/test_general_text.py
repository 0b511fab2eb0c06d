from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

import pytest
import tokenizers

import mslm_data as md
from mslm_data.errors import MissingExtraError, VocabularyError
from mslm_data.lexicon.anchors.general_text import (
    WORDFREQ_WORDS,
    from_file,
    from_wordfreq,
    from_words,
    normalise_word,
    spellings,
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


@pytest.mark.long
def test_spellings__count_the_words_of_the_sample(tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "built" / "tokenizer.json"))
    words = count_words(md.load(tmp_path / "built")["train"].chunks())

    found = spellings(words, core)

    lines = (made.SAMPLE / "ncbi-disease" / "train.tsv").read_text(encoding="utf-8").splitlines()
    expected = [word for line in lines if (word := normalise_word(line.split("\t")[0]))]
    assert {word: spelling.count for word, spelling in found.items()} == {
        word: expected.count(word) for word in set(expected)
    }


def test_of_words__names_the_other_folder_by_its_manifest(tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "built" / "tokenizer.json"))
    words = count_words(md.load(tmp_path / "built")["train"].chunks())
    manifest = tmp_path / "built" / "manifest.json"

    frequencies = from_words(words, core, manifest=manifest)

    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert frequencies.about == {"source": "shards", "manifest_sha256": digest}
    assert frequencies.counts == {
        word: spelling.count for word, spelling in spellings(words, core).items()
    }


def test_of_file__merges_case_and_skips_other_lines(tmp_path: Path) -> None:
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


def test_of_file__reads_gzipped_files(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv.gz"
    path.write_bytes(gzip.compress(b"the\t2\nof\t1\n"))

    assert from_file(path).counts == {"the": 2, "of": 1}


@pytest.mark.parametrize(
    "line", ["secret", "secret 12", "secret\t-1", "secret\t1.5", "secret\t", "\u0661\t\u0661", ""]
)
def test_of_file__another_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text(f"the\t1\n{line}\nof\t1\n", encoding="utf-8")

    with pytest.raises(
        VocabularyError, match=r"counts.tsv:2: expected a word, a tab and a whole number; correct"
    ) as caught:
        from_file(path)
    assert "secret" not in str(caught.value)


def test_of_file__missing_or_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "bytes.tsv").write_bytes(b"the\t1\n\xff\xfe\t2\n")

    with pytest.raises(VocabularyError, match=r"missing\.tsv: cannot be read"):
        from_file(tmp_path / "missing.tsv")
    with pytest.raises(VocabularyError, match="not valid UTF-8"):
        from_file(tmp_path / "bytes.tsv")


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


def test_from_wordfreq__not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'mslm-data\[vocab\]'"):
        from_wordfreq()
