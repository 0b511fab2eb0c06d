"""The contract of all sources, tested on a small corpus of each."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Source
from mslm_data.testing import check_damaged, check_source
from tests.source.formats import fixtures

FIXTURES = fixtures.list_forms()
NAMES = SOURCES.names()
REASON = re.compile(r"expected .+, (got|found) ")


class Corpus:
    """A fixture, its source, and the results of the source."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.fixture = fixtures.fixture(name, folder)
        self.source: Source = SOURCES.make(name, self.fixture.options)
        self.folder = folder

    def found(self) -> dict[str, list[Path]]:
        return dict(self.source.find(self.fixture.inputs))

    def read(self, *, target_bytes: int = 10**9) -> dict[str, list[Document | SetAside]]:
        return {
            split: [
                record
                for path in paths
                for part in source.cut(Part(str(path)), target_bytes=target_bytes)
                for record in source.read(part)
            ]
            for split, paths in self.found().items()
            for source in [self.source.for_split(split)]
        }

    def documents(self, *, target_bytes: int = 10**9) -> Iterator[Document]:
        for records in self.read(target_bytes=target_bytes).values():
            for record in records:
                assert isinstance(record, Document), record.reason.text
                yield record

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(params=NAMES)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    assert request.param in FIXTURES, (
        f"tests/cases/{request.param}.json: a source has a small corpus; found none"
    )
    return Corpus(request.param, tmp_path / "corpus")


def simple(record: Document | SetAside) -> tuple[object, ...]:
    """Return the properties of a record that must not depend on cuts."""
    if isinstance(record, SetAside):
        return record
    spans = tuple((span.start, span.end, span.label, span.concept) for span in sorted(record.spans))
    return record.id, record.text, spans


def test_every_source_has_a_fixture__and_no_other() -> None:
    assert FIXTURES == NAMES


def test_find__gives_the_splits_sorted(corpus: Corpus) -> None:
    found = corpus.found()

    assert list(found) == list(corpus.fixture.expected)
    assert all(paths == sorted(paths) and paths for paths in found.values())


def test_find__names_an_empty_input(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        corpus.source.find([tmp_path / "nowhere"])
    (tmp_path / "bare").mkdir()
    with pytest.raises(SourceError, match="bare"):
        corpus.source.find([tmp_path / "bare"])


def test_read__gives_the_expected_documents(corpus: Corpus) -> None:
    got = {
        split: [simple(record) for record in records] for split, records in corpus.read().items()
    }

    expected = {
        split: [(doc_id, text, tuple(sorted(spans))) for doc_id, text, spans in documents]
        for split, documents in corpus.fixture.expected.items()
    }
    assert got == expected


@pytest.mark.parametrize("is_broken", [False, True])
def test_source__passes_the_public_check(corpus: Corpus, is_broken: bool) -> None:
    if is_broken:
        assert corpus.fixture.broken is not None
        corpus.fixture.broken()

    check_source(corpus.source, corpus.fixture.inputs, set_aside=int(is_broken))


def test_source__reports_damaged_files_without_their_text(corpus: Corpus) -> None:
    check_damaged(corpus.source, corpus.fixture.inputs)


def test_mentions__are_spans_or_counted(corpus: Corpus) -> None:
    documents = list(corpus.documents())

    counted = sum(len(document.spans) + sum(document.unplaced.values()) for document in documents)
    expected = sum(
        len(spans) for of_split in corpus.fixture.expected.values() for _, _, spans in of_split
    )
    assert counted == (expected if corpus.fixture.mentions < 0 else corpus.fixture.mentions)


def test_broken_record__is_set_aside_with_its_place(corpus: Corpus) -> None:
    before = corpus.read()
    assert corpus.fixture.broken is not None, "a fixture says how one record is broken"
    broken = corpus.fixture.broken()

    after = corpus.read()
    (aside,) = [record for record in after["train"] if isinstance(record, SetAside)]
    assert aside.place == broken.place
    assert aside.id == broken.id
    assert REASON.match(aside.reason.text)
    survivors = [simple(record) for record in after["train"] if isinstance(record, Document)]
    assert survivors == [simple(record) for record in before["train"] if record.id != broken.id]
    words = {
        word
        for record in before["train"]
        if isinstance(record, Document)
        for word in record.text.split()
    }
    assert not {word for word in words if len(word) > 3 and word.isalpha()} & set(
        re.findall(r"\w+", aside.reason.text)
    )


@pytest.mark.parametrize("variant", ["crlf", "bom", "unterminated", "gz"])
def test_variant__reads_to_the_same_documents(corpus: Corpus, variant: str) -> None:
    before = {split: list(map(simple, records)) for split, records in corpus.read().items()}
    for path in corpus.files():
        data = path.read_bytes()
        if variant == "gz":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data, mtime=0))
            path.unlink()
        elif variant == "crlf":
            path.write_bytes(data.replace(b"\n", b"\r\n"))
        elif variant == "bom":
            path.write_bytes(b"\xef\xbb\xbf" + data)
        else:
            path.write_bytes(data.rstrip(b"\n"))
    if variant not in corpus.fixture.variants:
        # It is not declared, since it does change the documents.
        with_change = _records_or_none(corpus)
        assert with_change is None or before != {
            split: list(map(simple, records)) for split, records in with_change.items()
        }
        return

    for target_bytes in (1, 10**9):
        after = corpus.read(target_bytes=target_bytes)
        assert {split: list(map(simple, records)) for split, records in after.items()} == before


def test_not_utf8__is_set_aside_or_refused(corpus: Corpus) -> None:
    before = corpus.read()["train"]
    first = before[0]
    assert isinstance(first, Document)
    word = first.text.split()[0].encode()
    for path in corpus.files():
        path.write_bytes(path.read_bytes().replace(word, b"\xff\xfe" + word[1:]))

    after = _records_or_none(corpus)
    if after is not None:
        assert any(isinstance(record, SetAside) for record in after["train"])
        assert len(after["train"]) == len(before)


def test_empty_files__hold_nothing_or_are_refused(corpus: Corpus) -> None:
    for path in corpus.files():
        path.write_bytes(b"")

    records = _records_or_none(corpus)
    assert records is None or not any(
        isinstance(record, Document) and record.text for record in records["train"]
    )


def test_cut__gives_a_part_of_an_empty_file(corpus: Corpus) -> None:
    found = [path for paths in corpus.found().values() for path in paths]
    for path in corpus.files():
        path.write_bytes(b"")

    for path in found:
        with suppress(SourceError):
            assert list(corpus.source.cut(Part(str(path)), target_bytes=100))


def _records_or_none(corpus: Corpus) -> dict[str, list[Document | SetAside]] | None:
    try:
        return corpus.read()
    except SourceError:
        return None


def _size(records: dict[str, list[object]]) -> int:
    return sum(map(len, records.values()))
