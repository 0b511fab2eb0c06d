"""All shipped pipelines and their data."""

from __future__ import annotations

import hashlib
import itertools
import string
import tomllib
from pathlib import Path

import pytest

from mslm_data import pipeline
from mslm_data.data.document import Document, Part
from mslm_data.io import resources
from mslm_data.source import SOURCES

NAMES = resources.pipeline_names()
BLURB = ["bc2gm", "bc5cdr-chem", "bc5cdr-disease", "ebm-nlp", "jnlpba", "ncbi-disease"]
MTL = "https://raw.githubusercontent.com/cambridgeltl/MTL-Bioinformatics-2016/"


def documents(name: str) -> dict[str, list[Document]]:
    """Read the sample of a pipeline. Return its documents by split."""
    made = pipeline.read(name)
    source = SOURCES.make(made.source.use, made.source.options)
    found: dict[str, list[Document]] = {}
    for split, paths in source.find([resources.path("vocab", made.source.sample)]).items():
        parts = [
            part for path in paths for part in source.cut(Part(str(path)), target_bytes=1 << 20)
        ]
        records = list(itertools.chain.from_iterable(map(source.read, parts)))
        assert all(isinstance(record, Document) for record in records), (
            f"{name}, {split}: a record was set aside"
        )
        found[split] = records
    return found


def test_pipeline_names__contain_the_six_of_blurb() -> None:
    assert {f"blurb/{name}" for name in BLURB} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_pipeline__has_a_source_and_a_description(name: str) -> None:
    made = pipeline.read(name)

    assert made.name == name
    assert SOURCES.resolve(made.source.use)
    assert made.about.title
    assert made.about.licence, "say what the corpus' licence is, or that it is unknown"
    assert resources.pipeline_text(name).startswith("# ")
    assert resources.path("vocab", made.source.sample or ".").exists()


@pytest.mark.parametrize("name", BLURB)
def test_sample__has_all_labels_in_every_split_and_is_varied(name: str) -> None:
    labels = set(pipeline.read(f"blurb/{name}").annotate.labels)

    found = documents(f"blurb/{name}")

    sizes = {
        split: sum(len(d.sentences or ()) for d in of_split) for split, of_split in found.items()
    }
    assert sizes == {"train": 60, "validation": 20, "test": 20}
    for split, of_split in found.items():
        assert {span.label for document in of_split for span in document.spans} == labels, split

    lengths = [
        d.text[s.start : s.end].count(" ") + 1 for d in found["train"] for s in d.sentences or ()
    ]
    mentions = [d.text[s.start : s.end].count(" ") + 1 for d in found["train"] for s in d.spans]
    assert min(lengths) == 1
    assert max(lengths) > 40
    assert min(mentions) == 1
    assert max(mentions) > 1


def test_sample__is_dense_in_some_corpora_and_sparse_in_others() -> None:
    """Joint masking is saturated when mentions have more tokens than 7.5 % of the others."""
    saturated = {}
    for name in BLURB:
        train = documents(f"blurb/{name}")["train"]
        words = sum(0 if d.words is None else len(d.words) for d in train)
        inside = sum(d.text[s.start : s.end].count(" ") + 1 for d in train for s in d.spans)
        saturated[name] = inside > 0.075 * (words - inside)

    assert saturated == dict.fromkeys(BLURB, True) | {"bc5cdr-chem": False, "ncbi-disease": False}


@pytest.mark.parametrize("name", NAMES)
def test_fetch__has_distinct_urls_and_digests(name: str) -> None:
    entries = pipeline.read(name).source.fetch

    assert all(entry.url.startswith(("http://", "https://")) for entry in entries)
    assert (
        len({entry.url for entry in entries})
        == len({entry.sha256 for entry in entries})
        == len(entries)
    )
    assert {entry.split for entry in entries} <= {"", "train", "validation", "test"}


def test_fetch__has_the_digests_of_the_real_files(real: Path) -> None:
    entries = [
        entry
        for name in BLURB
        for entry in pipeline.read(f"blurb/{name}").source.fetch
        if entry.url.startswith(MTL)
    ]

    for entry in entries:
        path = real / "blurb" / entry.url.partition("/data/")[2]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256, entry.url
    assert len(entries) == 12


def test_pipeline__jnlpba_reads_fetched_archives_and_blurb_files(
    tmp_path: Path,
) -> None:
    made = pipeline.read("blurb/jnlpba")
    source = SOURCES.make(made.source.use, made.source.options)
    archive = [
        "Genia4ERtask1.iob2",
        "Genia4ERtask2.iob2",
        "Genia4ERtask1.raw",
        "sampletest1.iob2",
        "README.txt",
    ]
    fetched = [f"files/train/Genia4ERtraining/{name}" for name in archive]
    fetched += [
        f"files/test/Genia4ERtest/{name}" for name in ("Genia4EReval1.iob2", "Genia4EReval2.iob2")
    ]
    for name in [*fetched, "blurb/train.tsv", "blurb/devel.tsv", "blurb/test.tsv"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def names(folder: str) -> dict[str, list[str]]:
        return {
            split: [p.name for p in paths]
            for split, paths in source.find([tmp_path / folder]).items()
        }

    assert names("files") == {"train": ["Genia4ERtask1.iob2"], "test": ["Genia4EReval1.iob2"]}
    assert names("blurb") == {
        "train": ["train.tsv"],
        "validation": ["devel.tsv"],
        "test": ["test.tsv"],
    }


def test_sample__vocabulary_works_with_bert() -> None:
    pieces = resources.path("vocab", "sample/vocab.txt").read_text(encoding="utf-8").split("\n")

    assert pieces.pop() == ""
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(set(pieces)) == len(pieces)
    printable = set(string.printable) - set(string.whitespace)
    assert printable | {f"##{char}" for char in printable} <= set(pieces)


def test_sources__md_covers_every_file_below_vocab() -> None:
    root = resources.folder("vocab")
    entries = tomllib.loads((root / "SOURCES.toml").read_text(encoding="utf-8"))["source"]
    covered = [entry["path"] for entry in entries]

    for entry in entries:
        assert entry["origin"], entry["path"]
        assert entry["licence"], entry["path"]
        assert (root / entry["path"]).exists(), entry["path"]
    for path in (path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        assert any(
            name == path or (path.endswith("/") and name.startswith(path)) for path in covered
        ), name
