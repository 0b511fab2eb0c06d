"""Checks for tests of plug-ins: each detects its errors.

Correct plug-ins pass in the tests of each room.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from msgspec import Meta

import mslm_data as md
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.ragged import Ragged
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.mask import MaskKind, MaskPlan
from mslm_data.segment.given import Whole
from mslm_data.source import Source
from mslm_data.source.formats.brat import Brat
from mslm_data.testing import (
    assert_resumes,
    check_annotator,
    check_damaged,
    check_segmenter,
    check_source,
    check_strategy,
)
from tests.generate import fixed_examples


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Marzipan cures colds.\n" * 20, encoding="utf-8")
    return tmp_path


class Reads(Source, frozen=True, kw_only=True):
    """A source with one text per file, with scripted changes of its documents."""

    suffixes = (".txt",)
    change: ClassVar[Any] = staticmethod(lambda document, part: document)

    def read(self, part: Part) -> Iterator[Any]:
        path = Path(part.path)
        text = path.read_bytes().decode("utf-8", "replace")
        yield self.change(Document(id=path.stem, text=text, place=f"{path.name}:1"), part)


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        (lambda document, _: dataclasses.replace(document, id="d"), "ids of 'train' are not uni"),
        (lambda document, _: document.with_spans([Span(0, 9999, "X")]), "a mention beyond the te"),
        (lambda document, _: document.with_spans([Span(8, 9, "X")]), "a mention of white space"),
        (
            lambda document, _: SetAside("d", "a.txt:1", Reason(document.text)),
            "a reason is `expected",
        ),
        (
            lambda document, _: SetAside("d", "a:1", Reason("expected a, got b")),
            "documents in the inputs",
        ),
    ],
)
def test_check_source__detects_errors(
    texts: Path, change: Callable[..., Any], promise: str
) -> None:
    class Wrong(Reads):
        """A source with a mistake."""

    Wrong.change = staticmethod(change)
    globals()["Wrong"] = Wrong  # Makes it picklable.
    Wrong.__qualname__ = "Wrong"

    check_source(Reads(), [texts])
    with pytest.raises(AssertionError, match=promise):
        check_source(Wrong(), [texts])


class Lines(Reads, frozen=True, kw_only=True):
    """A source with a text per line, cut between its lines."""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        lines = Path(part.path).read_bytes().splitlines(keepends=True)
        start = 0
        for number, line in enumerate(lines):
            stop = start + len(line)
            yield part._replace(start=start, stop=stop, first=number, line=number + 1)
            start = stop

    def read(self, part: Part) -> Iterator[Document]:
        text = Path(part.path).read_bytes()[part.start :]
        text = text if part.stop < 0 else text[: part.stop - part.start]
        for number, line in enumerate(text.decode().splitlines(), part.first):
            yield Document(id=f"{Path(part.path).stem}:{number}", text=line)


class Unsorted(Lines, frozen=True, kw_only=True):
    """A source with files in the wrong order."""

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        return {split: paths[::-1] for split, paths in super().find(inputs).items()}


class FindsAnything(Lines, frozen=True, kw_only=True):
    """A source that finds nothing without an error."""

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        return super().find(inputs) if inputs[0].exists() else {}


class Changes(Lines, frozen=True, kw_only=True):
    """A source with a number in its parts that is one too high."""

    number: ClassVar[str] = "start"

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        for cut in super().cut(part, target_bytes=target_bytes):
            yield cut._replace(**{self.number: getattr(cut, self.number) + 1})


class Miscounts(Changes, frozen=True, kw_only=True):
    """A source with wrong numbers of records."""

    number = "first"


class CountsLinesWrongly(Changes, frozen=True, kw_only=True):
    """A source with wrong numbers of lines."""

    number = "line"


class ReadsMoreInParts(Lines, frozen=True, kw_only=True):
    """A source whose parts have other documents than the file."""

    def read(self, part: Part) -> Iterator[Document]:
        for document in super().read(part):
            yield dataclasses.replace(document, adjusted={} if part.stop < 0 else {"moved": 1})


class ReadsMoreInBatches(Lines, frozen=True, kw_only=True):
    """A source whose batches have other documents."""

    def batches(self, part: Part) -> Iterator[Document]:
        for document in self.read(part):
            yield dataclasses.replace(document, doc_label="A")


@pytest.mark.parametrize(
    ("source", "promise"),
    [
        (Unsorted, "find: files of 'train' are not sorted"),
        (FindsAnything, "find: expected SourceError for a missing input"),
        (Changes, "parts have a gap, or overlap"),
        (Miscounts, "`first` is not the number of records before"),
        (CountsLinesWrongly, "`line` is not the line of the part"),
        (ReadsMoreInParts, "the parts have other documents than the whole file"),
        (ReadsMoreInBatches, "`batches` and `read` give other documents"),
    ],
)
def test_check_source__detects_wrong_files_and_parts(
    texts: Path, source: type[Source], promise: str
) -> None:
    check_source(Lines(), [texts])
    with pytest.raises(AssertionError, match=promise):
        check_source(source(), [texts])


class Table(Source, frozen=True, kw_only=True):
    """A text per file, and a table `NAME.rows` of mentions beside it."""

    suffixes = (".txt",)

    def files(self, path: Path) -> list[Path]:
        return [path, path.with_suffix(".rows")]

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        path = Path(part.path)
        try:
            text = path.read_text("utf-8")
            spans = self.spans(path.with_suffix(".rows"), text)
        except UnicodeDecodeError:
            yield SetAside(path.stem, f"{path.name}:1", Reason("expected UTF-8, got other bytes"))
        except (OSError, LookupError, ValueError) as error:
            raise SourceError(f"{path.name}: {self.explain(error, text)}") from error
        else:
            yield Document(id=path.stem, text=text, spans=tuple(spans), place=f"{path.name}:1")

    def spans(self, path: Path, _: str) -> list[Span]:
        _, *rows = path.read_text("utf-8").splitlines() or [""]
        return [Span(int(start), int(end), label) for start, end, label in map(str.split, rows)]

    def explain(self, _: Exception, __: str) -> str:
        return "expected rows of start, end and label, found others"


class ForgetsTheTable(Table, frozen=True, kw_only=True):
    """A source whose documents depend on a file that `files` does not name."""

    def files(self, path: Path) -> list[Path]:
        return [path]

    def spans(self, path: Path, text: str) -> list[Span]:
        return super().spans(path, text) if path.exists() else []


class NeedsTheTable(ForgetsTheTable, frozen=True, kw_only=True):
    """A source that cannot be read without a file that `files` does not name."""

    spans = Table.spans


class QuotesNumbers(Table, frozen=True, kw_only=True):
    """A source whose messages have the message of `int`."""

    def explain(self, error: Exception, _: str) -> str:
        return str(error)


class QuotesTheText(Table, frozen=True, kw_only=True):
    """A source whose messages have the text."""

    def explain(self, _: Exception, text: str) -> str:
        return text


class FailsWithoutTable(Table, frozen=True, kw_only=True):
    """A source that fails if a table is missing."""

    def spans(self, path: Path, text: str) -> list[Span]:
        if not path.exists():
            raise AttributeError
        return super().spans(path, text)


class FailsWithoutRows(Table, frozen=True, kw_only=True):
    """A source that fails if a table has a header only."""

    def spans(self, path: Path, text: str) -> list[Span]:
        if path.exists() and path.read_bytes() == b"start end label\n":
            raise ZeroDivisionError
        return super().spans(path, text)


class FailsWithoutOneRow(Table, frozen=True, kw_only=True):
    """A source that fails if a row is missing."""

    def spans(self, path: Path, text: str) -> list[Span]:
        found = super().spans(path, text)
        if len(found) == 2:
            raise AttributeError
        return found


@pytest.fixture
def tables(texts: Path) -> Path:
    rows = "start end label\n0 8 Sweet\n9 14 Verb\n15 20 Cold\n"
    for name in ("a.rows", "b.rows"):
        (texts / name).write_text(rows, encoding="utf-8")
    return texts


class OfTwoSuffixes(Table, frozen=True, kw_only=True):
    """A source that finds texts, and their tables as documents of their own."""

    suffixes = (".txt", ".rows")


def test_check_source__wants_one_file_per_document(tables: Path) -> None:
    with pytest.raises(AssertionError, match="not unique; if a document has several files"):
        check_source(OfTwoSuffixes(), [tables])


@pytest.mark.parametrize("source", [ForgetsTheTable, NeedsTheTable])
def test_check_source__detects_files_that_are_not_named(tables: Path, source: type[Source]) -> None:
    check_source(Table(), [tables])
    with pytest.raises(AssertionError, match="a file that `files` does not name"):
        check_source(source(), [tables])
    with pytest.raises(AssertionError, match="a file that `files` does not name"):
        check_source(source(), [tables / "a.txt"])


def test_check_source__compares_the_number_of_records_set_aside(texts: Path) -> None:
    class Half(Reads):
        """A source that reads half of the files."""

        change = staticmethod(
            lambda document, _: (
                document
                if document.id == "a"
                else SetAside("b", "b.txt:1", Reason("expected a, got b"))
            )
        )

    globals()["Half"] = Half  # Makes it picklable.
    Half.__qualname__ = "Half"

    check_source(Half(), [texts], set_aside=1)
    with pytest.raises(AssertionError, match=r"got 1, the first at b\.txt:1: expected a, got b"):
        check_source(Half(), [texts])


class Undescribed(Lines, frozen=True, kw_only=True):
    """A source with an option that has no description."""

    depth: int = 1


class Undocumented(Lines, frozen=True, kw_only=True):
    depth: Annotated[int, Meta(description="A number.")] = 1


@pytest.mark.parametrize(
    ("source", "promise"),
    [
        (Undescribed, r"Undescribed\.depth: expected a Meta"),
        (Undocumented, "Undocumented: expected a docstring"),
    ],
)
def test_check_source__wants_descriptions(texts: Path, source: type[Source], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_source(source(), [texts])


@pytest.mark.parametrize(
    ("source", "promise"),
    [
        (QuotesNumbers, r"a\.rows, with a word for a number: a message repeats the text: Quagmyxo"),
        (QuotesTheText, r"a\.rows, deleted: a message repeats the text: colds, cures, marzipan"),
        (FailsWithoutTable, r"a\.rows, deleted: .* got AttributeError"),
        (FailsWithoutRows, r"a\.rows, cut after a line: .* got ZeroDivisionError"),
        (FailsWithoutOneRow, r"a\.rows, without a line: .* got AttributeError"),
    ],
)
def test_check_damaged__detects_errors(tables: Path, source: type[Source], promise: str) -> None:
    check_damaged(Table(), [tables])
    with pytest.raises(AssertionError, match=promise):
        check_damaged(source(), [tables])


def test_check_damaged__does_not_mistake_words_of_messages_for_words_of_the_text(
    tmp_path: Path,
) -> None:
    text = "Expected text, found annotations beside the file with another line."
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.ann").write_text("T1\tX 0 13\tExpected text\n", encoding="utf-8")

    check_damaged(Brat(), [tmp_path])


def test_check_damaged__compares_words_of_packed_texts(texts: Path) -> None:
    class Packed(Reads):
        """A source of packed texts that quotes them."""

        def read(self, part: Part) -> Iterator[Any]:
            path = Path(part.path)
            try:
                yield Document(id=path.stem, text=zlib.decompress(path.read_bytes()).decode())
            except zlib.error:
                yield SetAside("d", "a.txt:1", Reason("expected no marzipan, got some"))

    for path in texts.iterdir():
        path.write_bytes(zlib.compress(path.read_bytes()))

    with pytest.raises(AssertionError, match="repeats the text: marzipan"):
        check_damaged(Packed(), [texts])


class OfNeighbours(Terms):
    """An annotator that finds nothing in documents beside others."""

    def start(self) -> Any:
        loaded = super().start()
        annotate = loaded.annotate

        class Loaded:
            def annotate(self, documents: Documents) -> Any:
                found = annotate(documents)
                if len(documents) < 2:
                    return found
                none: list[list[Span]] = [[] for _ in range(len(documents))]
                return found._replace(mentions=Mentions.from_rows(none, documents.starts))

        return Loaded()


class OtherLabels(Terms):
    """An annotator with unknown labels."""

    def labels(self) -> tuple[str, ...]:
        return ("Food",)


def test_check_annotator__detects_errors(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,label\nmarzipan,Sweet\n", encoding="utf-8")
    table = str(tmp_path / "t.csv")
    given = ["Marzipan\ncures colds."]

    check_annotator(Terms(table=table), given)
    with pytest.raises(AssertionError, match="expected mentions, got none"):
        check_annotator(Terms(table=table), ["Nougat."])
    with pytest.raises(AssertionError, match="mentions depend on the other documents"):
        check_annotator(OfNeighbours(table=table), given)
    with pytest.raises(AssertionError, match="'Sweet' is not among them"):
        check_annotator(OtherLabels(table=table), given)
    with pytest.raises(AssertionError, match="the same for another model"):
        check_annotator(Terms(table=table), given, other=Terms(table=table))


class Halves(Whole):
    """A segmenter that loses the second half of a text."""

    def sentences(self, documents: Documents) -> Ranges:
        whole = super().sentences(documents)
        return dataclasses.replace(whole, ends=(whole.starts + whole.ends) // 2)


class Thawed:
    """Mutable options."""

    def digest(self) -> str:
        return ""


def test_check_segmenter__detects_errors() -> None:
    check_segmenter(Whole(), ["Marzipan cures colds."])
    with pytest.raises(AssertionError, match="text in no sentence"):
        check_segmenter(Halves(), ["Marzipan cures colds."])
    with pytest.raises(AssertionError, match="expected a class of Options"):
        check_segmenter(Thawed(), ["Marzipan cures colds."])  # type: ignore[arg-type]


class RowRng(md.Strategy):
    """Masks tokens at random, including special tokens."""

    origin = None
    needs = frozenset()
    follows_training = False

    def __init__(self, which: str, size: int = 0) -> None:
        self.which = which
        self.frequencies = np.zeros(size)

    def plan_with(self, examples: Any, rng: Any) -> MaskPlan:
        kinds = np.zeros(len(examples.input_ids.values), np.uint8)
        if self.which == "specials":
            kinds[:] = MaskKind.BASE
            return MaskPlan(Ragged(kinds, examples.input_ids.offsets))
        if self.which != "none":
            kinds[1:2] = MaskKind.BASE
        if self.which == "batch":
            kinds[-2:-1] = MaskKind.BASE
        if self.which == "rows":
            examples.bio.values[:] = 0
        rates = np.full(len(examples), 2.0) if self.which == "rates" else None
        return MaskPlan.from_kinds(examples, kinds, rates=rates)

    def corrupt_with(self, examples: Any, plan: MaskPlan, rng: Any) -> Any:
        ids = md.strategy("bert").corrupt_with(examples, plan, rng)
        if self.which == "corruption":
            ids.values[2:3] += 1
        return ids

    def table(self) -> dict[str, Any]:
        return {"use": "draws"}


@pytest.mark.parametrize(
    ("which", "law"),
    [
        ("specials", "a special token is masked"),
        ("batch", "a row's mask depends on the rows beside it"),
        ("corruption", "a token is changed that is not masked"),
        ("rates", r"plan\.rates: not in \[0, 1\]"),
        ("rows", "the strategy changed its input rows"),
        ("none", "expected masked tokens, got none"),
    ],
)
def test_check_strategy__detects_errors(which: str, law: str) -> None:
    check_strategy(md.strategy("joint", elm=0.5, blm=0.3))
    with pytest.raises(AssertionError, match=law):
        check_strategy(RowRng(which))


def test_check_strategy__copies_a_strategy_with_large_tables() -> None:
    """A pipe holds less, and sending to it would wait forever for a receiver."""
    check_strategy(RowRng("none", size=1_000_000), fixed_examples(4))


class Counting:
    """A loader of four batches an epoch, with a switch for each way to resume wrongly."""

    def __init__(self, flaw: str = "") -> None:
        self.flaw = flaw
        self.state = {"epoch": 0, "batch": 0}

    def __iter__(self) -> Iterator[Any]:
        for batch in range(self.state["batch"], 4):
            number = 10 * self.state["epoch"] + batch
            self.state = {"epoch": self.state["epoch"], "batch": batch + 1}
            if self.state["batch"] == 4 and self.flaw != "empty":
                self.state = {"epoch": self.state["epoch"] + 1, "batch": 0}
            yield {"input_ids": np.array([number]), "extra": number, "text": "text"}
        if self.flaw == "empty":
            self.state = {"epoch": self.state["epoch"] + 1, "batch": 0}

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        if self.flaw == "epoch":
            state = {**state, "epoch": 0}
        elif self.flaw == "repeats":
            state = {**state, "batch": max(0, state["batch"] - 1)}
        elif self.flaw == "ends":
            state = {**state, "batch": 99, "epoch": 99}
        self.state = dict(state)


def test_assert_resumes__detects_errors() -> None:
    assert_resumes(Counting)
    for flaw, message in (
        ("epoch", r"restored after 4 batches: batch 4 differs in extra, input_ids$"),
        ("repeats", r"restored after 1 batches: batch 1 differs in extra, input_ids$"),
        ("ends", r"restored after 0 batches: expected a pass of 4, got 0$"),
        ("empty", r"restored after 4 batches: expected a pass of 4, got 0$"),
    ):
        with pytest.raises(AssertionError, match=message):
            assert_resumes(lambda flaw=flaw: Counting(flaw))
    with pytest.raises(AssertionError, match="expected batches, got none"):
        assert_resumes(Counting, epochs=0)


class Forgetful(Counting):
    """A loader that forgets its position, of which nothing is seen if all batches are alike."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter([{"ids": np.zeros(3)}] * self.batches)

    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


@pytest.mark.parametrize("batches", [1, 4])
def test_assert_resumes__needs_batches_that_differ(batches: int) -> None:
    with pytest.raises(AssertionError, match=f"expected several batches .*, got {batches} alike"):
        assert_resumes(lambda: Forgetful(batches))


def test_assert_resumes__detects_a_loader_that_ends() -> None:
    class Ending(Counting):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(()) if self.flaw == "restored" else super().__iter__()

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.flaw = "restored"

    with pytest.raises(
        AssertionError, match="restored after 0 batches: expected a pass of 4, got 0"
    ):
        assert_resumes(Ending)


class Long(Counting):
    """Arrays whose representation leaves out most values."""

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            ids = np.zeros(5_000)
            ids[2_500] = batch["input_ids"][0]
            yield {"ids": ids}


def test_assert_resumes__compares_whole_arrays() -> None:
    assert_resumes(Long)
    with pytest.raises(AssertionError, match="batch 4 differs in ids"):
        assert_resumes(lambda: Long("epoch"))


@pytest.mark.parametrize("batch", [[1], {"ids": [np.zeros(2)]}, {"ids": {"x": 1}}])
def test_assert_resumes__takes_dicts_of_arrays(batch: Any) -> None:
    class Other(Counting):
        def __iter__(self) -> Iterator[Any]:
            return (batch for _ in super().__iter__())

    with pytest.raises(AssertionError, match=r"expected (dicts of arrays|an array, a number)"):
        assert_resumes(Other)


def test_assert_resumes__copies_states_with_tensors() -> None:
    torch = pytest.importorskip("torch")

    class OfTensors(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.position = torch.zeros(2, dtype=torch.int64)

        def state_dict(self) -> Any:
            self.position[0], self.position[1] = self.state["epoch"], self.state["batch"]
            return {"position": self.position}

        def load_state_dict(self, state: Any) -> None:
            epoch, batch = state["position"].tolist()
            self.state = {"epoch": epoch, "batch": batch}

    assert_resumes(OfTensors)
