"""What every source promises, tried on a small corpus of each."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Source
from tests.source.formats import fixtures

FIXTURES = sorted(
    path.stem.replace("_", "-") for path in Path(fixtures.__file__).parent.glob("[a-z]*.py")
)
NAMES = SOURCES.names()
REASON = re.compile(r"expected .+, (got|found) ")


class Corpus:
    """A fixture with its source, and what the source makes of it."""

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
                for part in self.source.cut(Part(str(path)), target_bytes=target_bytes)
                for record in self.source.read(part)
            ]
            for split, paths in self.found().items()
        }

    def documents(self, *, target_bytes: int = 10**9) -> Iterator[Document]:
        for records in self.read(target_bytes=target_bytes).values():
            for record in records:
                assert isinstance(record, Document), record.reason
                yield record

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(params=NAMES)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    assert request.param in FIXTURES, (
        f"tests/source/formats/fixtures/{request.param}.py: a source has a fixture; found none"
    )
    return Corpus(request.param, tmp_path / "corpus")


def simple(record: Document | SetAside) -> tuple[object, ...]:
    """Say of a record what must not depend on how its file was cut."""
    if isinstance(record, SetAside):
        return record
    spans = tuple((span.start, span.end, span.label, span.concept) for span in sorted(record.spans))
    return record.id, record.text, spans


def whole(record: Document | SetAside) -> tuple[object, ...]:
    if isinstance(record, SetAside):
        return record
    words = None if record.words is None else tuple(map(tuple, record.words.tolist()))
    given = (*simple(record), record.sentences, words, record.placeholders, record.place)
    return *given, dict(record.unplaced), dict(record.adjusted)


def in_order(
    records: Iterable[Document | SetAside | NotChosen],
) -> tuple[list[tuple[object, ...]], list[SetAside], list[NotChosen]]:
    """Return the documents, those set aside and those not chosen: the order of each is promised."""
    of_each = list(records)
    return (
        [whole(record) for record in of_each if isinstance(record, Document)],
        [record for record in of_each if isinstance(record, SetAside)],
        [record for record in of_each if isinstance(record, NotChosen)],
    )


def test_every_source_has_a_fixture__and_no_other() -> None:
    assert FIXTURES == NAMES


def test_find__gives_the_splits_sorted(corpus: Corpus) -> None:
    found = corpus.found()

    assert list(found) == list(corpus.fixture.expected)
    assert all(paths == sorted(paths) and paths for paths in found.values())


def test_find__says_where_nothing_is(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        corpus.source.find([tmp_path / "nowhere"])
    (tmp_path / "bare").mkdir()
    with pytest.raises(SourceError, match="bare"):
        corpus.source.find([tmp_path / "bare"])


def test_read__gives_what_was_written(corpus: Corpus) -> None:
    got = {
        split: [simple(record) for record in records] for split, records in corpus.read().items()
    }

    expected = {
        split: [(doc_id, text, tuple(sorted(spans))) for doc_id, text, spans in documents]
        for split, documents in corpus.fixture.expected.items()
    }
    assert got == expected


@pytest.mark.parametrize("target_bytes", [1, 100, 10**9])
def test_cut__covers_each_file_in_order(corpus: Corpus, target_bytes: int) -> None:
    for path in (path for paths in corpus.found().values() for path in paths):
        parts = list(corpus.source.cut(Part(str(path)), target_bytes=target_bytes))

        assert all(Path(part.path) == path for part in parts)
        if [part.stop for part in parts] == [-1]:
            continue
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        num_rows = sum(1 for part in parts for _ in corpus.source.read(part))
        assert parts[-1].stop in (path.stat().st_size, num_rows), (
            "parts count bytes, or rows in a binary table"
        )
        if parts[-1].stop == path.stat().st_size:
            data = path.read_bytes()
            assert [part.line for part in parts] == [
                data[: part.start].count(b"\n") + 1 for part in parts
            ]


@pytest.mark.parametrize("target_bytes", [1, 100])
def test_read__does_not_depend_on_the_cut(corpus: Corpus, target_bytes: int) -> None:
    in_one = {split: in_order(records) for split, records in corpus.read().items()}
    in_parts = {
        split: in_order(records)
        for split, records in corpus.read(target_bytes=target_bytes).items()
    }

    assert in_parts == in_one


def test_cut__says_how_many_records_come_before(corpus: Corpus) -> None:
    for path in (path for paths in corpus.found().values() for path in paths):
        before = 0
        for part in corpus.source.cut(Part(str(path)), target_bytes=1):
            assert part.first == before
            before += sum(1 for _ in corpus.source.read(part))


def test_ids__are_unique_in_a_split(corpus: Corpus) -> None:
    for records in corpus.read().values():
        ids = [record.id for record in records]
        assert len(set(ids)) == len(ids)


def test_spans_sentences_words__lie_in_the_text(corpus: Corpus) -> None:
    for document in corpus.documents():
        length = len(document.text)
        assert all(0 <= span.start < span.end <= length for span in document.spans)
        assert all(span.label for span in document.spans)
        assert all(document.text[span.start : span.end].strip() for span in document.spans)
        ranges = list(document.sentences or ())
        assert all(0 <= start < end <= length for start, end in ranges)
        assert all(left.end <= right.start for left, right in pairwise(ranges))
        words = [] if document.words is None else document.words.tolist()
        assert all(0 <= start < end <= length for start, end in words)
        assert all(left[1] <= right[0] for left, right in pairwise(words))


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
    assert REASON.match(aside.reason)
    survivors = [simple(record) for record in after["train"] if isinstance(record, Document)]
    assert survivors == [simple(record) for record in before["train"] if record.id != broken.id]
    words = {
        word
        for record in before["train"]
        if isinstance(record, Document)
        for word in record.text.split()
    }
    assert not {word for word in words if len(word) > 3 and word.isalpha()} & set(
        re.findall(r"\w+", aside.reason)
    )


def test_broken_record__does_not_depend_on_the_cut(corpus: Corpus) -> None:
    assert corpus.fixture.broken is not None
    corpus.fixture.broken()

    in_parts = in_order(corpus.read(target_bytes=1)["train"])

    assert in_parts == in_order(corpus.read()["train"])


@pytest.mark.parametrize("target_bytes", [1, 100, 10**9])
@pytest.mark.parametrize("is_broken", [False, True])
def test_batches__hold_what_read_gives(corpus: Corpus, target_bytes: int, is_broken: bool) -> None:
    if is_broken:
        assert corpus.fixture.broken is not None
        corpus.fixture.broken()

    for path in (path for paths in corpus.found().values() for path in paths):
        for part in corpus.source.cut(Part(str(path)), target_bytes=target_bytes):
            singly = in_order(corpus.source.read(part))
            records: list[Document | SetAside | NotChosen] = []
            for record in corpus.source.batches(part):
                records += record if isinstance(record, Documents) else [record]

            assert in_order(records) == singly


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
        with_change = _records_or_none(corpus)
        assert with_change is None or _size(with_change) <= _size(before)
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
