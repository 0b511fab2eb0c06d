"""Checks for the tests of a plug-in: what every source, annotator, segmenter and strategy promises.

    from mslm_data.testing import check_source

    def test_source__keeps_its_promises():
        check_source(Gate(), [Path("tests/sample")])

A check raises `AssertionError` with the promise that is broken. Give it small data that shows all
that the plug-in does.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mslm_data.annotate import Annotator, LoadedAnnotator
from mslm_data.data.bio import paint
from mslm_data.data.document import Document, NotChosen, Part, Placeholder, SetAside, Span
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples, TokenIds, take
from mslm_data.data.ragged import Ragged
from mslm_data.errors import SourceError
from mslm_data.mask.plan import MaskKind
from mslm_data.mask.strategy import Strategy
from mslm_data.segment import Segmenter
from mslm_data.source import Source

__all__ = [
    "check_annotator",
    "check_damaged",
    "check_segmenter",
    "check_source",
    "check_strategy",
]

T = TypeVar("T")
Record = Document | SetAside | NotChosen

_TARGETS = (1, 100, 10**9)
"""Sizes of parts, in bytes, into which files are cut."""
_REASON = re.compile(r"expected .+, (got|found) ")
_SHORTEST_WORD = 4
"""Letters of a word that an error must not repeat."""


def _hold(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(promise)


# Sources ------------------------------------------------------------------------------------------


def check_source(source: Source, inputs: Sequence[Path]) -> None:
    """Check that a source reads the same documents however files are cut, and that they are sound.

    Args:
        source: The source, with its options.
        inputs: Files or folders of a small corpus of its form. At least one document is read.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(source)
    files = source.find(inputs)
    for split, paths in files.items():
        _hold(bool(paths) and paths == sorted(paths), f"find: files of '{split}' are not sorted")
    _check_missing(source)

    documents = 0
    for split, paths in files.items():
        of_split = source.for_split(split)
        records = [record for path in paths for record in _check_cuts(of_split, path)]
        for record in records:
            if isinstance(record, Document):
                _check_document(record)
                documents += 1
            if isinstance(record, SetAside):
                _hold(bool(_REASON.match(record.reason.text)), "a reason is `expected …, got …`")
        ids = [record.id for record in records if isinstance(record, Document)]
        _hold(len(set(ids)) == len(ids), f"read: ids of '{split}' are not unique")
    _hold(documents > 0, "read: expected documents in the inputs, got none")


def check_damaged(source: Source, inputs: Sequence[Path]) -> None:
    """Check that damaged files are refused or set aside, in messages without words of the text.

    Copies of the files are cut in half, emptied, and given bytes that are not text.

    Args:
        source: The source, with its options.
        inputs: Files or folders of a small corpus of its form. Its texts have words of their own,
            as a message that has a word of four letters or more in common with them fails.

    Raises:
        AssertionError: An error is not a `SourceError`, or its message has words of the text.
    """
    words = {
        word
        for paths in source.find(inputs).values()
        for path in paths
        for record in source.read(Part(str(path)))
        if isinstance(record, Document)
        for word in _words(record.text)
    }
    for damaged in (_emptied, _halved, _with_other_bytes):
        with tempfile.TemporaryDirectory() as folder:
            copies = [_copied(source, root, Path(folder)) for root in inputs]
            for path in (path for path in Path(folder).rglob("*") if path.is_file()):
                path.write_bytes(damaged(path.read_bytes()))
            for message in _messages(source, copies):
                leaked = words & _words(message.replace(folder, ""))
                _hold(not leaked, f"a message repeats the text: {', '.join(sorted(leaked))}")


def _emptied(_: bytes) -> bytes:
    return b""


def _halved(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _with_other_bytes(data: bytes) -> bytes:
    return _halved(data) + b"\xff\xfe\x00" + data[len(data) // 2 :]


def _copied(source: Source, root: Path, folder: Path) -> Path:
    """Copy a folder, or a file with those that are read with it, and return the copy's path."""
    if root.is_dir():
        return Path(shutil.copytree(root, folder / root.name))
    for path in {root, *source.files(root)}:
        shutil.copy(path, folder)
    return folder / root.name


def _messages(source: Source, inputs: Sequence[Path]) -> Iterator[str]:
    """Read files, and give what is said of them."""
    try:
        for split, paths in source.find(inputs).items():
            of_split = source.for_split(split)
            for path in paths:
                for part in of_split.cut(Part(str(path)), target_bytes=100):
                    for record in of_split.read(part):
                        if isinstance(record, SetAside):
                            yield record.reason.text
    except SourceError as error:
        yield str(error)
    except Exception as error:
        raise AssertionError(
            f"a damaged file: expected SourceError or a document that is set aside, got "
            f"{type(error).__name__}"
        ) from error


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W\d_]+", text) if len(word) >= _SHORTEST_WORD}


def _check_missing(source: Source) -> None:
    """Check that a folder that is not there is an error that names it."""
    try:
        source.find([Path("no-such-folder")])
    except SourceError as error:
        _hold("no-such-folder" in str(error), "find: the error does not name what is missing")
    else:
        raise AssertionError("find: expected SourceError for a missing input, got files")


def _check_cuts(source: Source, path: Path) -> list[Record]:
    """Check that a file gives the same records however it is cut, and return these."""
    whole = list(source.read(Part(str(path))))
    for target in _TARGETS:
        where = f"{path.name}, cut for {target} bytes"
        parts = list(source.cut(Part(str(path)), target_bytes=target))
        _check_parts(source, path, parts, where)

        read: list[Record] = []
        for part in parts:
            _hold(part.first == len(read), f"{where}: `first` is not the number of records before")
            of_part = list(source.read(part))
            batches = (
                batch if isinstance(batch, Documents) else [batch] for batch in source.batches(part)
            )
            in_batches: list[Record] = [record for batch in batches for record in batch]
            _hold(
                _plain(in_batches) == _plain(of_part),
                f"{where}: `batches` and `read` give other documents",
            )
            read += of_part
        _hold(
            _plain(read) == _plain(whole),
            f"{where}: the parts have other documents than the whole file",
        )
    return whole


def _check_parts(source: Source, path: Path, parts: Sequence[Part], where: str) -> None:
    """Check that parts cover a file in order."""
    _hold(bool(parts), f"{where}: expected at least one part, got none")
    _hold(all(Path(part.path) == path for part in parts), f"{where}: a part of another file")
    if [part.stop for part in parts] == [-1]:
        return

    starts = [0, *(part.stop for part in parts[:-1])]
    _hold([part.start for part in parts] == starts, f"{where}: parts have a gap, or overlap")
    size = path.stat().st_size
    if parts[-1].stop != size:
        # Parts of a binary table count rows.
        rows = sum(1 for part in parts for _ in source.read(part))
        _hold(parts[-1].stop == rows, f"{where}: the parts end before the file")
        return
    data = path.read_bytes()
    lines = [data[: part.start].count(b"\n") + 1 for part in parts]
    _hold([part.line for part in parts] == lines, f"{where}: `line` is not the line of the part")


def _plain(records: Iterable[Record]) -> tuple[list[Any], list[SetAside], list[NotChosen]]:
    """Return documents, those set aside and those not chosen, as values that can be compared."""
    listed = list(records)
    documents = [
        (
            *(record.id, record.text, sorted(record.spans), record.sentences, record.place),
            None if record.words is None else record.words.tolist(),
            *(record.placeholders, dict(record.unplaced), dict(record.adjusted)),
        )
        for record in listed
        if isinstance(record, Document)
    ]
    aside = [record for record in listed if isinstance(record, SetAside)]
    return documents, aside, [record for record in listed if isinstance(record, NotChosen)]


def _check_document(document: Document) -> None:
    """Check that mentions, sentences and words lie in the text."""
    where, length = f"document '{document.id}'", len(document.text)
    for span in document.spans:
        _check_span(span, document.text, where)
    for name, ranges in (
        ("sentences", [tuple(sentence) for sentence in document.sentences or ()]),
        ("words", [] if document.words is None else document.words.tolist()),
    ):
        inside = all(0 <= start < end <= length for start, end in ranges)
        rising = all(left[1] <= right[0] for left, right in pairwise(ranges))
        _hold(inside and rising, f"{where}: {name} are out of order, or beyond the text")


def _check_span(span: Span, text: str, where: str) -> None:
    _hold(0 <= span.start < span.end <= len(text), f"{where}: a mention beyond the text")
    _hold(bool(text[span.start : span.end].strip()), f"{where}: a mention of white space")
    _hold(span.label != "", f"{where}: a mention without a label")
    _hold(0 <= span.score <= 1, f"{where}: expected a score of 0 to 1, got {span.score}")


# Annotators ---------------------------------------------------------------------------------------


def check_annotator(
    annotator: Annotator,
    documents: Sequence[Document | str],
    *,
    other: Annotator | None = None,
) -> None:
    """Check that an annotator finds the same in a text whatever stands beside it.

    Args:
        annotator: The annotator, with its options.
        documents: Documents, or texts, with mentions that it finds. At least one is found.
        other: The same with another model or table, whose digest must differ.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(annotator)
    _hold(isinstance(annotator.weak, bool), "weak: expected True or False")
    _hold(isinstance(annotator.slow, bool), "slow: expected True or False")
    labels = annotator.labels()
    _hold(len(set(labels)) == len(labels), "labels: a label is listed twice")
    digest = annotator.digest()
    _hold(digest == _travelled(annotator).digest(), "digest: not the same in another process")
    if other is not None:
        _hold(other.digest() != digest, "digest: the same for another model")

    loaded = annotator.start()
    given = _documents(documents)
    texts = [document for document in documents if isinstance(document, str)]
    every = [
        *given,
        *_documents([text.replace("\n", "\r\n") for text in texts]),
        *map(_behind_placeholder, texts),
        *_documents(["", " ", "\n\r\n", "\x00", "\u2028"]),
    ]
    alone = [_found(loaded, [document])[0] for document in every]
    for document, spans in zip(every, alone, strict=True):
        where = f"text '{document.id}'"
        for span in spans:
            _check_span(span, document.text, where)
            words = document.text[span.start : span.end]
            _hold(words == words.strip(), f"{where}: white space at an end of a mention")
            _hold(not labels or span.label in labels, f"labels: '{span.label}' is not among them")
            touches = any(a < span.end and span.start < b for a, b, _ in document.placeholders)
            _hold(not touches, f"{where}: a mention touches a placeholder")
    _hold(any(alone[: len(given)]), "annotate: expected mentions, got none")

    _hold(_found(loaded, every) == alone, "annotate: mentions depend on the other documents")
    _hold(
        _found(loaded, every[::-1]) == alone[::-1],
        "annotate: mentions depend on the order of documents",
    )
    _hold(_found(loaded, []) == [], "annotate: mentions in no document")
    again = annotator.start()
    _hold(_found(again, every) == alone, "start: a second start gives other mentions")


def _behind_placeholder(text: str) -> Document:
    """Return a document whose text stands a second time where something was taken out."""
    start = len(text) + 1
    return Document(
        id="with a placeholder",
        text=f"{text} [**{text}**]",
        placeholders=(Placeholder(start, start + len(text) + 6),),
    )


def _found(loaded: LoadedAnnotator, documents: Sequence[Document]) -> list[list[Span]]:
    """Return the mentions of each document, found in one batch."""
    given = Documents.from_documents(documents)
    found = loaded.annotate(given)
    return [sorted(spans) for spans in found.mentions.spans(given.starts)]


# Segmenters ---------------------------------------------------------------------------------------


def check_segmenter(segmenter: Segmenter, documents: Sequence[Document | str]) -> None:
    """Check that sentences hold all text but white space, and cut no mention.

    Args:
        segmenter: The segmenter, with its options.
        documents: Documents whose mentions do not overlap, or texts.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(segmenter)
    digest = _travelled(segmenter).digest()
    _hold(digest == segmenter.digest(), "digest: not the same in another process")

    given = _documents(documents)
    alone = [_sentences(segmenter, Documents.from_documents([document]))[0] for document in given]
    for document, sentences in zip(given, alone, strict=True):
        where = f"document '{document.id}'"
        _hold(
            all(left[1] <= right[0] for left, right in pairwise(sentences))
            and all(0 <= start < end <= len(document.text) for start, end in sentences),
            f"{where}: sentences are out of order, or beyond the text",
        )
        bounds = [0, *(place for sentence in sentences for place in sentence), len(document.text)]
        outside = [
            document.text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)
        ]
        _hold(not "".join(outside).strip(), f"{where}: text in no sentence")
        for span in document.spans:
            cut = sum(start < span.end and span.start < end for start, end in sentences)
            _hold(cut <= 1, f"{where}: a mention in two sentences")

    together = Documents.from_documents(given)
    _hold(_sentences(segmenter, together) == alone, "sentences depend on the other documents")
    some = np.arange(len(given))[::2]
    _hold(
        _sentences(segmenter, together.take(some)) == alone[::2], "text between documents is read"
    )


def _sentences(segmenter: Segmenter, documents: Documents) -> list[list[tuple[int, int]]]:
    """Return the sentences of each document, in characters of its text."""
    found = segmenter.sentences(documents)
    shifts = np.repeat(documents.starts, found.counts)
    starts, ends = (found.starts - shifts).tolist(), (found.ends - shifts).tolist()
    bounds = list(zip(starts, ends, strict=True))
    return [bounds[first:past] for first, past in pairwise(found.offsets.tolist())]


# Strategies ---------------------------------------------------------------------------------------


def check_strategy(
    strategy: Strategy, rows: Examples | None = None, *, seed: int = 0, epoch: int = 0
) -> None:
    """Check the laws of masking.

    A row's mask is its own, whatever the rows beside it; special tokens stay; tokens that are not
    masked are not changed; and neither are the rows that are given.

    Args:
        strategy: The strategy.
        rows: Rows such as `split.examples()`; None for made-up rows, of which it hides something.
        seed: Seed of the masks.
        epoch: Epoch of the masks.

    Raises:
        AssertionError: A law is broken.
    """
    examples = _made_up_rows() if rows is None else rows
    columns = (examples.input_ids, examples.word_ids, examples.bio)
    before = [column.values.copy() for column in columns]

    plan = strategy.plan(examples, seed=seed, epoch=epoch)
    ids = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)

    same = (np.array_equal(column.values, old) for column, old in zip(columns, before, strict=True))
    _hold(all(same), "the strategy changed its input rows")
    kinds = plan.kinds.values
    offsets = examples.input_ids.offsets.tolist()
    _hold(kinds.dtype == np.uint8, f"plan.kinds: expected uint8, got {kinds.dtype}")
    _hold(set(kinds.tolist()) <= set(MaskKind), "plan.kinds: a value is not a MaskKind")
    _hold(
        plan.kinds.offsets.tolist() == offsets == ids.offsets.tolist(),
        "the plan has other rows than the input",
    )
    _hold(not kinds[examples.word_ids.values < 0].any(), "a special token is masked")
    kept = kinds == MaskKind.NONE
    _hold(
        np.array_equal(ids.values[kept], before[0][kept]), "a token is changed that is not masked"
    )
    _hold(rows is not None or sum(plan.counts()) > 0, "expected masked tokens, got none")
    if plan.rates is not None:
        _hold(plan.rates.dtype == np.float32, "plan.rates: expected float32")
        _hold(plan.rates.shape == (len(examples),), "plan.rates: expected one for each row")
        _hold(bool(np.all((plan.rates >= 0) & (plan.rates <= 1))), "plan.rates: not in [0, 1]")

    numbers = np.arange(len(examples))
    travelled = _travelled(strategy)
    for some in (numbers, numbers[::-1], numbers[::2], *numbers[:20, None], numbers[:0]):
        taken = take(examples, some)
        of_some = travelled.plan(taken, seed=seed, epoch=epoch)
        expected = [plan.kinds[number].tolist() for number in some]
        _hold(of_some.kinds.tolist() == expected, "a row's mask depends on the rows beside it")
        if plan.unspent is not None and of_some.unspent is not None:
            unspent = plan.unspent[some].tolist()
            _hold(
                of_some.unspent.tolist() == unspent,
                "a row's unspent budget depends on the rows beside it",
            )
        if plan.rates is not None and of_some.rates is not None:
            rates = plan.rates[some].tolist()
            _hold(of_some.rates.tolist() == rates, "a row's rate depends on the rows beside it")
        changed = travelled.corrupt(taken, of_some, seed=seed, epoch=epoch).tolist()
        expected = [ids[number].tolist() for number in some]
        _hold(changed == expected, "a row's corruption depends on the rows beside it")
    _hold(bool(repr(strategy)), "table: expected what a file would have")


def _made_up_rows(number: int = 40) -> Examples:
    """Return rows of words of one or two tokens between special tokens, with mentions."""
    words = 12
    of_words = np.repeat(np.arange(words), 1 + np.arange(words) % 2)
    word_ids = [[-1, *of_words.tolist(), -1]] * number
    starts = [[1, 7][: 1 + row % 2] for row in range(number)]
    ends = [[3, 10][: 1 + row % 2] for row in range(number)]
    ids = [[2, *(10 + (row + of_words) % 30).tolist(), 3] for row in range(number)]
    span_starts, span_ends = Ragged.from_rows(starts, np.int32), Ragged.from_rows(ends, np.int32)
    labels = Ragged(np.zeros(len(span_starts.values), np.int16), span_starts.offsets)
    input_ids = Ragged.from_rows(ids, np.int32)
    return Examples(
        keys=np.arange(number, dtype=np.uint64),
        input_ids=input_ids,
        word_ids=Ragged.from_rows(word_ids, np.int32),
        bio=Ragged(paint(span_starts, span_ends, labels, input_ids.offsets), input_ids.offsets),
        span_starts=span_starts,
        span_ends=span_ends,
        span_labels=labels,
        ids=TokenIds(size=40, mask=4, pad=0, unk=1, special=(0, 1, 2, 3, 4)),
    )


# All ----------------------------------------------------------------------------------------------


def _documents(given: Sequence[Document | str]) -> list[Document]:
    """Return documents as they are, and one for each text."""
    return [
        Document(id=str(number), text=one) if isinstance(one, str) else one
        for number, one in enumerate(given)
    ]


def _check_options(made: Any) -> None:
    """Check that options are a frozen dataclass that other processes can have."""
    is_frozen = dataclasses.is_dataclass(made) and made.__dataclass_params__.frozen  # type: ignore[union-attr]
    _hold(is_frozen, f"{type(made).__name__}: expected a dataclass with frozen=True")
    _hold(_travelled(made) == made, f"{type(made).__name__}: not the same in another process")


def _travelled(made: T) -> T:
    """Return an object as another process would get it."""
    here, there = Pipe()
    with here, there:
        here.send(made)
        travelled: T = there.recv()
    return travelled
