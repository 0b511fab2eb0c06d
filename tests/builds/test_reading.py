from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, current_thread, get_ident, main_thread

import pytest
from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.reading import Reading, read_ahead, read_records

from mslm_data.annotate import Annotations
from mslm_data.annotate.gold import Gold
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.builds import stages
from mslm_data.builds.stages import load_annotator
from mslm_data.builds.tasks import WorkUnit
from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, SourceError
from mslm_data.io.files import write_sealed
from mslm_data.pipeline import AnnotateOptions
from mslm_data.source.formats.conll import Conll
from tests import made
from tests.faults.corpora import CORPORA
from tests.support.waiting import PATIENCE_S

UNIT = WorkUnit("train", 0, 0, ())


@pytest.fixture
def reading() -> Reading:
    """The reader of a unit, with the annotator that keeps the mentions of the source."""
    return Reading(made.pipeline_of(), duplicate_ids=frozenset())


def of_texts(*texts: str) -> Documents:
    return Documents.from_documents(
        [Document(id=text, text=text, place=f"f:{text}") for text in texts]
    )


class Model:
    """Reads the texts of documents, and fails on the text `bad`."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.asked: list[list[str]] = []
        self._error = error

    def __call__(self, documents: Documents) -> list[str]:
        texts = [text for text, _ in documents.texts()]
        self.asked.append(texts)
        if "bad" in texts:
            raise self._error("bad")
        return texts


def test_attempts__calls_once_without_failures(reading: Reading) -> None:
    model = Model()
    documents = of_texts("one", "two")

    found = list(reading.attempts(documents, model, "model"))

    assert found == [(documents, ["one", "two"])]
    assert model.asked == [["one", "two"]]
    assert reading.set_aside == []


def test_attempts__tries_each_document_of_a_failed_batch(reading: Reading) -> None:
    model = Model()

    found = list(reading.attempts(of_texts("one", "bad", "two"), model, "model"))

    assert [answer for _, answer in found] == [["one"], ["two"]]
    assert [list(documents.ids) for documents, _ in found] == [["one"], ["two"]]
    assert model.asked == [["one", "bad", "two"], ["one"], ["bad"], ["two"]]
    reason = "expected text that the models of the pipeline can take, got ValueError from the model"
    assert reading.set_aside == [SetAside("bad", "f:bad", Reason(reason), mentions=0)]


@pytest.mark.parametrize("error", [AnnotateError, MemoryError, OSError, KeyboardInterrupt])
def test_attempts__blames_no_document_for_other_failures(
    reading: Reading, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        list(reading.attempts(of_texts("one", "bad"), Model(error), "model"))

    assert reading.set_aside == []


def test_batches__sets_aside_one_failing_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("one\tB-X\n\nbad\tB-X\n\ntwo\tO\n\ntwo\tB-X\n")
    annotate = Gold.annotate

    def failing(self: Gold, documents: Documents) -> Annotations:
        if any(text == "bad" for text, _ in documents.texts()):
            raise ValueError("bad")
        return annotate(self, documents)

    monkeypatch.setattr(Gold, "annotate", failing)
    unit = WorkUnit("train", 0, 0, (Part(str(path)),))
    reading = Reading(made.pipeline_of(), duplicate_ids=frozenset())

    batches = list(reading.batches(read_records(unit, made.pipeline_of())))

    found = [document for documents in batches for document in documents]
    assert [(document.id, document.text) for document in found] == [
        ("train:0", "one"),
        ("train:2", "two"),
        ("train:3", "two"),
    ]
    assert [len(document.spans) for document in found] == [1, 0, 1]
    assert [(aside.id, aside.place) for aside in reading.set_aside] == [("train:1", "train.tsv:3")]
    assert (reading.read, reading.given) == (4, 2)


def test_batches__exclude_repeated_ids(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    ids = ["1", "2", "1", "3", "4"]
    path.write_text("".join(f"-DOCSTART- ({doc_id})\n\nword\tB-X\n\n" for doc_id in ids))
    unit = WorkUnit("train", 0, 0, (Part(str(path)),))
    reading = Reading(made.pipeline_of(), duplicate_ids=frozenset("3"))

    (documents,) = reading.batches(read_records(unit, made.pipeline_of()))

    assert [document.id for document in documents] == ["1", "2", "4"]
    assert [document.spans for document in documents] == [(Span(0, 4, "X"),)] * 3
    assert [aside.id for aside in reading.set_aside] == ["1", "3"]
    assert reading.read == 5


def test_batches__do_not_scan_all_ids_for_each_file() -> None:
    """Scanning took time quadratic in the number of files: 400 s for 120,000."""

    class Known(dict[str, str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all ids are gone through")

    reading = Reading(made.pipeline_of(), duplicate_ids=frozenset())
    documents = Documents.from_documents([Document(id="3", text="kinase")])
    known = Known({"1": "a", "2": "b"})

    kept = reading._first_of_each_id(documents, Part("c"), known)

    assert (len(kept), len(known)) == (1, 3)


def test_batches__number_documents_before_repeated_ids_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    ids = ["1", "repeated", "1", "killer", "innocent"]
    path.write_text("".join(f"-DOCSTART- ({doc_id})\n\nword\tB-X\n\n" for doc_id in ids))
    unit = WorkUnit("train", 0, 0, (Part(str(path)),))
    crashes = tmp_path / ".build" / "crashes"
    crashes.mkdir(parents=True)
    write_sealed(crashes / f"{unit.name}.json", b'{"unknown": 1, "3": 2}')

    found = []
    for duplicate_ids in (frozenset[str](), frozenset({"repeated"})):
        with CrashLog(tmp_path, unit.name) as crash_log:
            reading = Reading(made.pipeline_of(), duplicate_ids=duplicate_ids, crash_log=crash_log)
            batches = [*reading.batches(read_records(unit, made.pipeline_of()))]
        kept = [doc_id for documents in batches for doc_id in documents.ids]
        found.append((kept, [aside.id for aside in reading.set_aside]))
        assert reading.read == 5

    assert found == [
        (["1", "repeated", "innocent"], ["1", "killer"]),
        (["1", "innocent"], ["repeated", "1", "killer"]),
    ]


# Reading ahead ------------------------------------------------------------------------------------


def test_read_ahead__makes_the_first_item_before_it_is_requested() -> None:
    threads: list[int] = []
    made_one = Event()

    def items() -> Iterator[str]:
        for item in ("one", "two", "three"):
            threads.append(get_ident())
            made_one.set()
            yield item

    ahead = read_ahead(items())

    assert made_one.wait(PATIENCE_S)
    assert list(ahead) == ["one", "two", "three"]
    assert threads[0] != get_ident()
    assert threads[1:] == [get_ident()] * 2


def test_read_ahead__raises_at_the_first_item() -> None:
    def items() -> Iterator[str]:
        raise SourceError("f: damaged")
        yield ""

    ahead = read_ahead(items())

    with pytest.raises(SourceError, match="f: damaged"):
        next(ahead)


def test_read_ahead__of_an_empty_iterator_is_empty() -> None:
    assert list(read_ahead(iter(()))) == []


def test_build__reads_each_unit_except_the_first_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_main_thread: dict[int, bool] = {}
    batches = Conll.batches

    def noted(self: Conll, part: Part) -> Iterator[Documents | SetAside]:
        in_main_thread[part.start] = current_thread() is main_thread()
        yield from batches(self, part)

    monkeypatch.setattr(Conll, "batches", noted)
    path = tmp_path / "train.tsv"
    path.write_text("word\tB-X\n\n" * 40)

    made.built(tmp_path / "out", path, made.pipeline_of(unit_bytes=100))

    first, *others = [in_main_thread[start] for start in sorted(in_main_thread)]
    assert first
    assert len(others) > 2
    assert not any(others)


# Models are loaded once ---------------------------------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the table at each load."""
    started: list[str] = []
    start = Terms.start

    def count(self: Terms) -> object:
        started.append(str(self.table))
        return start(self)

    monkeypatch.setattr(stages, "_LOADED", {})
    monkeypatch.setattr(Terms, "start", count)
    return started


def test_build__loads_the_model_once_for_all_units(starts: list[str], tmp_path: Path) -> None:
    lines = CORPORA["lines"]

    manifest = lines.build(lines.write(tmp_path), tmp_path / "out")

    assert manifest
    assert len(manifest.splits["train"].shards) == 4
    assert len(starts) == 1


def test_load_annotator__keeps_the_last_annotator_only(starts: list[str], tmp_path: Path) -> None:
    first = AnnotateOptions(use="terms", options={"table": str(made.SAMPLE / "concepts.csv")})
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    second = AnnotateOptions(use="terms", options={"table": str(tmp_path / "terms.csv")})

    again = load_annotator(first) is load_annotator(first)
    load_annotator(second)
    load_annotator(first)

    assert again
    assert [Path(table).name for table in starts] == ["concepts.csv", "terms.csv", "concepts.csv"]
    assert len(stages._LOADED) == 1


def test_build__annotates_with_the_digested_table(tmp_path: Path) -> None:
    table = tmp_path / "terms.csv"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.txt").write_text("asthma and diabetes")
    pipeline = made.pipeline_of(
        source={"use": "text"},
        annotate={"use": "terms", "table": str(table)},
        segment="clinical",
        labels=["X"],
    )

    manifests = []
    for number, terms in enumerate(["asthma,X\n", "asthma,X\ndiabetes,X\n"]):
        table.write_text(f"name,label\n{terms}")
        manifests.append(made.built(tmp_path / f"out{number}", tmp_path / "in", pipeline))

    first, second = manifests
    assert first.annotator != second.annotator
    assert [manifest.splits["train"].mentions for manifest in manifests] == [1, 2]
