"""Corpora in two formats: equal mentions, except for known differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part
from mslm_data.source import SOURCES
from tests import made
from tests.made import build

Mentions = Counter[str]

NCBI = {
    "train": "NCBItrainset_corpus",
    "devel": "NCBIdevelopset_corpus",
    "test": "NCBItestset_corpus",
}
CDR = {"train": "CDR_TrainingSet.PubTator", "devel": "CDR_DevelopmentSet.PubTator"}


def documents_in(use: str, path: Path) -> Iterator[Document]:
    source = SOURCES.make(use, {})
    for part in source.cut(Part(str(path)), target_bytes=1 << 40):
        for record in source.read(part):
            assert isinstance(record, Document), record
            yield record


def mentions_in(use: str, path: Path, *, labels: tuple[str, ...] = ()) -> Mentions:
    """Return the mentions without white space, which differs between formats.

    The first document of an id counts.
    """
    documents: dict[str, Document] = {}
    for document in documents_in(use, path):
        documents.setdefault(document.id, document)
    found: Mentions = Counter()
    for document in documents.values():
        wanted, _ = made.relabelled(document.spans, rename={}, labels=labels)
        flat, left_out = made.flat(wanted)
        assert not document.unplaced
        assert not left_out  # No mention lies within another of the same type.
        found.update("".join(document.text[span.start : span.end].split()) for span in flat)
    return found


NCBI_DIFFERENCES: dict[str, tuple[Mentions, Mentions]] = {
    # Two rows of the PubTator file end one character early: PMID 10802668 (line 2216) and 2792129
    # (line 4941). The token file has the complete words.
    "train": (
        Counter(["autosomaldominantdisorder", "absenceoftheseventhcomponentofcomplement"]),
        Counter(["autosomaldominantdisorde", "absenceoftheseventhcomponentofcomplemen"]),
    ),
    "devel": (Counter(), Counter()),
    "test": (Counter(), Counter()),
}


@pytest.mark.parametrize("split", NCBI)
def test_read__gives_equal_mentions_of_ncbi(real: Path, split: str) -> None:
    iob = mentions_in("conll", real / "blurb" / "NCBI-disease-IOB" / f"{split}.tsv")
    pubtator = mentions_in("pubtator", real / "pubtator" / "ncbi" / f"{NCBI[split]}.txt")

    assert (iob - pubtator, pubtator - iob) == NCBI_DIFFERENCES[split]
    assert iob.total() == pubtator.total() == {"train": 5134, "devel": 787, "test": 960}[split]


def test_read__gives_the_repeated_document_of_ncbi(real: Path) -> None:
    """PMID 8528200 occurs twice in train: 5,145 rows of mentions are 5,134 and its 11 again."""
    documents = list(
        documents_in("pubtator", real / "pubtator" / "ncbi" / "NCBItrainset_corpus.txt")
    )

    ids = Counter(document.id for document in documents)
    first, second = [document for document in documents if document.id == "8528200"]
    assert [doc_id for doc_id, count in ids.items() if count > 1] == ["8528200"]
    assert (first.text, first.spans) == (second.text, second.spans)
    assert (
        len(documents),
        sum(len(document.spans) for document in documents),
        len(first.spans),
    ) == (593, 5145, 11)


# The token files split words at white space and some signs. A mention that ends within a token became
# the complete token. "St. Anthony's fire" became two mentions, as a sentence was split after "St.".
CDR_DIFFERENCES: dict[tuple[str, str], tuple[Mentions, Mentions]] = {
    ("devel", "Chemical"): (
        Counter({"5-HT6": 5, "2Cl": 2, "DA1": 1, "DA2": 1, "5-hydroxytryptamine1a": 1}),
        Counter({"5-HT": 5, "Cl": 2, "DA": 2, "5-hydroxytryptamine": 1}),
    ),
    ("devel", "Disease"): (
        Counter({"St.": 2, "Anthony'sfire": 2}),
        Counter({"St.Anthony'sfire": 2}),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("split", CDR)
@pytest.mark.parametrize("label", ["Chemical", "Disease"])
def test_read__gives_equal_mentions_of_bc5cdr(real: Path, split: str, label: str) -> None:
    folder = {"Chemical": "BC5CDR-chem-IOB", "Disease": "BC5CDR-disease-IOB"}[label]
    iob = mentions_in("conll", real / "blurb" / folder / f"{split}.tsv")
    pubtator = mentions_in(
        "pubtator", real / "pubtator" / "bc5cdr" / f"{CDR[split]}.txt", labels=(label,)
    )

    assert (iob - pubtator, pubtator - iob) == CDR_DIFFERENCES.get(
        (split, label), (Counter(), Counter())
    )


def built_ncbi(out: Path, inputs: Path, **source: Any) -> Any:
    annotate = {
        "rename": dict.fromkeys(
            ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention"), "Disease"
        )
    }
    pipeline = made.pipeline_of(source=source, annotate={"labels": ["Disease"], **annotate})
    return build(pipeline, [inputs], made.word_piece(), out, workers=1)


def test_build__counts_equal_mentions_of_ncbi(real: Path, tmp_path: Path) -> None:
    iob = built_ncbi(tmp_path / "iob", real / "blurb" / "NCBI-disease-IOB")
    pubtator = built_ncbi(tmp_path / "pubtator", real / "pubtator" / "ncbi", use="pubtator")

    for name, mentions in (("train", 5134), ("validation", 787), ("test", 960)):
        for manifest in (iob, pubtator):
            split = manifest.splits[name]
            # The document that stands twice has 11 mentions.
            twice = 11 if split.aside else 0
            assert split.given_mentions == mentions + twice
            assert (
                split.mentions
                == split.given_mentions - sum(split.left_out.values()) + split.cut_pieces
            )
            assert sum(split.left_out.values()) == twice
    train = pubtator.splits["train"]
    assert (train.read, train.written, train.aside) == (593, 592, 1)
    assert '"id":"8528200"' in (tmp_path / "pubtator" / "set_aside.jsonl").read_text()
