"""Real corpora and vocabularies, compared with the tokenizer library and the paper's counts."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.source.formats.conll import Conll
from tests import made
from tests.made import build

CASED = "bert-base-cased__Bio_ClinicalBERT.vocab.txt"
VOCABULARIES = (CASED, "bert-base-uncased__BlueBERT.vocab.txt", "PubMedBERT_BiomedBERT.vocab.txt")


def documents_in(path: Path) -> list[Document]:
    source = Conll()
    records = [
        record
        for part in source.cut(Part(str(path)), target_bytes=1 << 40)
        for record in source.read(part)
    ]
    documents = [record for record in records if isinstance(record, Document)]
    assert len(documents) == len(records)
    return documents


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_encode__equals_the_library_on_words(real: Path, vocabulary: str) -> None:
    tokenizer = load_tokenizer(str(real / "tokenizers" / vocabulary))
    documents = documents_in(real / "blurb" / "NCBI-disease-IOB" / "devel.tsv")

    examples, _ = made.encoded(made.encoder(tokenizer, ("Disease",), max_tokens=4096), documents)

    expected = tokenizer.core.encode_batch(
        [document.text.split(" ") for document in documents], is_pretokenized=True
    )
    assert len(expected) == 923
    assert examples.input_ids.tolist() == [encoding.ids for encoding in expected]
    assert examples.word_ids.tolist() == [
        [-1 if word is None else word for word in encoding.word_ids] for encoding in expected
    ]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_encode__tags_all_tokens_of_the_words_of_each_mention(real: Path, vocabulary: str) -> None:
    tokenizer = load_tokenizer(str(real / "tokenizers" / vocabulary))
    path = real / "blurb" / "NCBI-disease-IOB" / "devel.tsv"
    documents = documents_in(path)

    examples, account = made.encoded(
        made.encoder(tokenizer, ("Disease",), max_tokens=4096), documents
    )

    lines = path.read_text(encoding="utf-8").split("\n")
    tags = [
        [line.split("\t")[1][0] for line in lines]
        for blank, lines in groupby(lines, key=bool)
        if blank
    ]
    for words, bio, of_words in zip(
        examples.word_ids.tolist(), examples.bio.tolist(), tags, strict=True
    ):
        for t, (word, tag) in enumerate(zip(words, bio, strict=True)):
            first = word != words[t - 1]
            wanted = "O" if word < 0 else of_words[word]
            assert "OBI"[tag] == (wanted if first or wanted == "O" else "I")
    assert len(examples.span_starts.values) == 787
    assert account.left_out == {}


PAPER = [
    ("BC2GM", (12632, 2531, 5065), (15197, 3061, 6325), (3, 1, 0)),
    ("NCBI-disease", (5432, 923, 942), (5134, 787, 960), (0, 0, 0)),
    ("BC5CDR-chem", (4582, 4602, 4812), (5203, 5347, 5385), (2, 3, 0)),
    ("BC5CDR-disease", (4582, 4602, 4812), (4182, 4246, 4424), (0, 0, 0)),
]


@pytest.mark.parametrize(("corpus", "sequences", "gold", "cut"), PAPER)
def test_build__numbers_of_sequences_equal_the_paper(
    real: Path,
    tmp_path: Path,
    corpus: str,
    sequences: tuple[int, ...],
    gold: tuple[int, ...],
    cut: tuple[int, ...],
) -> None:
    """Abaho et al. 2024, Table 9. For BC5CDR its columns are in the order test, validation, train."""
    pipeline = made.pipeline_of(encode={"split": "paper", "max_tokens": 128})
    tokenizer = load_tokenizer(str(real / "tokenizers" / CASED))

    manifest = build(
        pipeline, [real / "blurb" / f"{corpus}-IOB"], tokenizer, tmp_path / "out", workers=1
    )

    assert manifest is not None
    splits = [manifest.splits[name] for name in ("train", "validation", "test")]
    assert tuple(split.sequences for split in splits) == sequences
    assert tuple(split.given_mentions for split in splits) == gold
    assert tuple(split.cut_mentions for split in splits) == cut
    assert all(split.mentions == split.given_mentions + split.cut_pieces for split in splits)
    assert all(split.left_out == {} for split in splits)
    assert all(split.cut_pieces == split.cut_mentions for split in splits)


def test_build__splits_no_mention_in_short_rows(real: Path, tmp_path: Path) -> None:
    pipeline = made.pipeline_of(encode={"max_tokens": 64})
    tokenizer = load_tokenizer(str(real / "tokenizers" / CASED))

    manifest = build(
        pipeline, [real / "blurb" / "NCBI-disease-IOB"], tokenizer, tmp_path / "out", workers=1
    )

    assert manifest is not None
    assert all(split.windowed > 0 for split in manifest.splits.values())
    assert [split.cut_mentions for split in manifest.splits.values()] == [0, 0, 0]
    assert [split.mentions for split in manifest.splits.values()] == [5134, 787, 960]
