"""Row keys: unique across corpora, and equal for equal documents."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data import pipeline
from mslm_data.api.loading import load
from mslm_data.builds.plan import find_inputs
from mslm_data.data.document import Document, Part
from mslm_data.data.documents import Documents, in_batches
from mslm_data.encode.encoder import digest_documents
from mslm_data.io import resources
from mslm_data.pipeline import Pipeline
from tests import made
from tests.made import build

BLURB = {
    "blurb/bc2gm": "BC2GM-IOB",
    "blurb/bc5cdr-chem": "BC5CDR-chem-IOB",
    "blurb/bc5cdr-disease": "BC5CDR-disease-IOB",
    "blurb/ebm-nlp": "ebm_nlp_2_00",
    "blurb/jnlpba": "JNLPBA",
    "blurb/ncbi-disease": "NCBI-disease-IOB",
}

texts = st.text(st.characters(), max_size=4)


def digest_of(corpus: str, doc_id: str, text: str) -> int:
    """Return the digest of a document."""
    (digest,) = digest_documents(
        corpus, Documents.from_documents([Document(id=doc_id, text=text)])
    ).tolist()
    return digest


def keys_of(folder: Path) -> set[int]:
    shards = load(folder)
    return {int(key) for name in shards.splits for key in shards[name].examples().keys}


def rows_of(folder: Path) -> int:
    shards = load(folder)
    return sum(len(shards[name]) for name in shards.splits)


def refuse_shared(keys: dict[str, set[int]]) -> None:
    """Assert that no two corpora share a key."""
    for (name, of), (other, of_other) in itertools.combinations(keys.items(), 2):
        shared = len(of & of_other)
        assert not shared, f"{name} and {other} share {shared} keys"


def built(out: Path, inputs: Path, which: Pipeline) -> set[int]:
    build(which, [inputs], made.word_piece(), out, workers=1)
    return keys_of(out)


def test_keys__samples_share_none(tmp_path: Path) -> None:
    keys, rows = {}, 0

    for name in BLURB:
        of = pipeline.read(name)
        out = tmp_path / name
        keys[name] = built(out, resources.path("vocab", of.source.sample), of)
        rows += rows_of(out)

    refuse_shared(keys)
    assert sum(map(len, keys.values())) == rows > 0


def test_keys__real_corpora_share_none(real: Path) -> None:
    keys: dict[str, set[int]] = {}
    documents = 0

    for name, folder in BLURB.items():
        if not (real / "blurb" / folder).is_dir():
            continue
        inputs = find_inputs(pipeline.read(name), [real / "blurb" / folder])
        source, found = inputs.source, inputs.files
        keys[name] = set()
        for path in sorted(set(itertools.chain.from_iterable(found.values()))):
            for part in source.cut(Part(str(path)), target_bytes=1 << 40):
                for record in in_batches(source.batches(part)):
                    if isinstance(record, Documents):
                        keys[name].update(digest_documents(name, record).tolist())
                        documents += len(record)

    refuse_shared(keys)
    assert len(keys) > 1
    assert sum(map(len, keys.values())) == documents > 50_000


def test_keys__two_folders_of_one_pipeline_file_share_none(tmp_path: Path) -> None:
    """Both number their sentences `train:0`, `train:1` …, and both pipelines are called `mine`."""
    mine = made.pipeline_of(name="mine")

    keys = {
        corpus: built(tmp_path / corpus, made.SAMPLE / corpus, mine)
        for corpus in ("ncbi-disease", "bc2gm")
    }

    refuse_shared(keys)


def test_keys__two_pipelines_of_one_text_share_none(tmp_path: Path) -> None:
    inputs = made.SAMPLE / "ncbi-disease"

    keys = {
        name: built(tmp_path / name, inputs, made.pipeline_of(name=name)) for name in ("a", "b")
    }

    refuse_shared(keys)


def test_keys__stay_when_documents_are_added(tmp_path: Path) -> None:
    sample = (made.SAMPLE / "ncbi-disease" / "train.tsv").read_text(encoding="utf-8")
    for name, text in (("less", sample), ("more", f"{sample.rstrip()}\n\nkinase\tO\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.tsv").write_text(text, encoding="utf-8")

    less = built(tmp_path / "a", tmp_path / "less", made.pipeline_of())
    more = built(tmp_path / "b", tmp_path / "more", made.pipeline_of())

    assert less < more
    assert len(more) == len(less) + 1


@pytest.mark.parametrize(
    ("corpus", "doc_id", "text", "digest"),
    [
        ("", "", "", 2891389769238885931),
        ("blurb/bc2gm", "train:0", "a b", 14394385248505199439),
        ("é", "e\u0301", "\ud800", 5379301274550164598),
    ],
)
def test_digest_documents__equals_golden_values(
    corpus: str, doc_id: str, text: str, digest: int
) -> None:
    """Computed with `b2sum -l 64`, read as little-endian."""
    assert digest_of(corpus, doc_id, text) == digest


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
def test_digest_documents__depends_on_corpus_id_and_sentence(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    digests = [digest_of(*one), digest_of(*other)]

    assert (digests[0] == digests[1]) == (one == other)


def test_digest_documents__separates_the_fields() -> None:
    names = [("ab", "", ""), ("a", "b", ""), ("", "ab", ""), ("a", "", "b"), ("", "", "ab")]

    digests = {digest_of(*name) for name in names}

    assert len(digests) == len(names)
