"""Contract checks for plug-ins: sources, annotators, segmenters, strategies; loaders; folders.

    from mslm_data.testing import check_source

    def test_source__keeps_its_promises():
        check_source(Gate(), [Path("tests/sample")])

A check raises `AssertionError`, naming the broken promise. Use small data that covers all features
of the plug-in.
"""

from __future__ import annotations

import codecs
import copy
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from mslm_data.annotate import Annotator, LoadedAnnotator
from mslm_data.builds.verify import verify
from mslm_data.data.bio import paint
from mslm_data.data.document import Document, NotChosen, Part, Placeholder, SetAside, Span
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples, TokenIds, take
from mslm_data.data.ragged import Ragged
from mslm_data.errors import SourceError
from mslm_data.mask.plan import MaskKind, MaskPlan, Objective
from mslm_data.mask.sentinels import merge, put_sentinels
from mslm_data.mask.strategy import Strategy
from mslm_data.registry import Options, list_options
from mslm_data.segment import Segmenter
from mslm_data.source import Source

__all__ = [
    "assert_resumes",
    "check_annotator",
    "check_damaged",
    "check_folder",
    "check_segmenter",
    "check_source",
    "check_strategy",
]

T = TypeVar("T")
Record = Document | SetAside | NotChosen

_TARGETS = (1, 100, 10**9)
"""Target sizes, in bytes, of the parts of a file."""
_REASON = re.compile(r"expected .+, (got|found) ")
"""Format of the reasons for documents that are set aside."""
_SHORTEST_WORD = 4
"""Minimum number of letters of words that messages must not repeat."""
_LETTERS = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(rb"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_NOT_A_NUMBER = "Quagmyxo"
"""Replaces numbers in damaged files."""
_MOST_NUMBERS = 20
"""Maximum number of numbers in a line that are replaced, one at a time."""


def _require(condition: bool, promise: str) -> None:
    if not condition:
        raise AssertionError(promise)


# Sources ------------------------------------------------------------------------------------------


def check_source(source: Source, inputs: Sequence[Path], *, set_aside: int = 0) -> None:
    """Check that a source yields valid documents, independent of how files are cut.

    Files that `Source.files` does not name are not read: their changes would not be noticed.

    Args:
        source: The source, with its options.
        inputs: Files or folders of a small corpus with at least one document.
        set_aside: Number of records in them that are set aside.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(source)
    files = source.find(inputs)
    for split, paths in files.items():
        _require(bool(paths) and paths == sorted(paths), f"find: files of '{split}' are not sorted")
    _check_missing(source)

    num_documents = 0
    aside: list[SetAside] = []
    for split, paths in files.items():
        split_source = source.for_split(split)
        records = [record for path in paths for record in _check_cuts(split_source, path)]
        for record in records:
            if isinstance(record, Document):
                _check_document(record)
            if isinstance(record, SetAside):
                _require(bool(_REASON.match(record.reason.text)), "a reason is `expected …, got …`")
                aside.append(record)
        ids = [record.id for record in records if isinstance(record, Document)]
        _require(
            len(set(ids)) == len(ids),
            f"read: ids of '{split}' are not unique; if a document has several files, `find` "
            "returns one of them",
        )
        num_documents += len(ids)
    _require(num_documents > 0, "read: expected documents in the inputs, got none")

    first = f", the first at {aside[0].place}: {aside[0].reason}" if aside else ""
    _require(
        len(aside) == set_aside,
        f"read: expected {set_aside} records to be set aside, got {len(aside)}{first}; if it is "
        f"right, pass set_aside={len(aside)}",
    )
    _check_files(source, inputs)


def _check_files(source: Source, inputs: Sequence[Path]) -> None:
    """Check that documents are the same in a copy that has only the files named by `files`."""
    promise = "files: a document depends on a file that `files` does not name"
    expected = _as_values(_read_all(source, inputs))
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = _as_values(_read_all(source, _copy(source, inputs, Path(folder))))
        except Exception as error:
            raise AssertionError(promise) from error
    _require(found == expected, promise)


def check_damaged(source: Source, inputs: Sequence[Path]) -> None:
    """Check that damaged files raise `SourceError` or are set aside, without quoting the text.

    One file of a copy is damaged at a time: deleted, emptied, cut in half or after its first line,
    given invalid bytes, a line removed, a number replaced by a word.

    Words of four or more letters are replaced in the copy before, by ROT13, so that words of
    messages are not mistaken for words of the text.

    Args:
        source: The source, with its options.
        inputs: Files or folders of a small corpus. If no word can be replaced, as in packed files,
            the texts need words of their own, which no message has.

    Raises:
        AssertionError: Another exception is raised, or a message contains words of the text.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copies = _copy(source, inputs, folder)
        words = _disguise(source, copies, folder)
        words[_NOT_A_NUMBER.lower()] = f"{_NOT_A_NUMBER} in place of a number"
        for file in _list_files(folder):
            data = file.read_bytes()
            for what, damaged in _damage(data):
                if damaged is None:
                    file.unlink()
                else:
                    file.write_bytes(damaged)
                where = f"{file.name}, {what}"
                for message in _collect_messages(source, copies, where):
                    found = words.keys() & _find_words(message.replace(temporary, ""))
                    leaked = ", ".join(sorted(words[word] for word in found))
                    _require(not leaked, f"{where}: a message repeats the text: {leaked}")
            file.write_bytes(data)


def _damage(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield damaged contents of a file, each with a description; None for a deleted file."""
    middle = len(data) // 2
    yield "deleted", None
    yield "emptied", b""
    yield "cut in half", data[:middle]
    yield "with invalid bytes", data[:middle] + b"\xff\xfe\x00" + data[middle:]

    lines = data.splitlines(keepends=True)
    if not lines:
        return
    middle = len(lines) // 2
    yield "cut after a line", b"".join(lines[:1])
    yield "without a line", b"".join([*lines[:middle], *lines[middle + 1 :]])

    # The line with the most numbers has all columns.
    line = max(lines, key=lambda line: len(_NUMBER.findall(line)))
    before, _, after = data.partition(line)
    for number in islice(_NUMBER.finditer(line), _MOST_NUMBERS):
        start, end = number.span()
        damaged = line[:start] + _NOT_A_NUMBER.encode() + line[end:]
        yield "with a word for a number", before + damaged + after


def _copy(source: Source, inputs: Sequence[Path], folder: Path) -> list[Path]:
    """Copy the files that a source reads, as they lie beside each other; return the new inputs."""
    paths = [path for found in source.find(inputs).values() for path in found]
    files = {_absolute(file) for path in paths for file in source.files(path)}
    roots = [_absolute(root) for root in inputs]
    base = os.path.commonpath([path.parent for path in (*files, *roots)])
    for file in files:
        target = folder / file.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return [folder / root.relative_to(base) for root in roots]


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # `resolve` would follow links


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _disguise(source: Source, inputs: Sequence[Path], folder: Path) -> dict[str, str]:
    """Replace words of the texts in all files by ROT13.

    Words that are also part of the format, of ids or of labels stay as they are.

    Returns:
        New word -> word, in lower case. If no word can be replaced, the words of the texts.
    """
    records = list(_read_all(source, inputs))
    words = _find_text_words(records)
    originals = {file: file.read_bytes() for file in _list_files(folder)}

    def keeps_records(replaced: set[str]) -> bool:
        for file, data in originals.items():
            file.write_bytes(_replace_words(data, replaced))
        try:
            found = list(_read_all(source, inputs))
        except SourceError:
            return False
        return _without_text(found) == _without_text(records)

    replaced = {word for word in words if word.isascii()}
    if not keeps_records(replaced):
        candidates = sorted(replaced)
        replaced = set()
        for word in candidates:
            if keeps_records({*replaced, word}):
                replaced.add(word)
        keeps_records(replaced)

    # In packed files, nothing was replaced.
    new_words = _find_text_words(_read_all(source, inputs))
    disguised = {codecs.encode(word, "rot13"): word for word in replaced}
    found = {new: word for new, word in disguised.items() if new in new_words}
    return found or {word: word for word in words}


def _replace_words(data: bytes, words: Collection[str]) -> bytes:
    """Replace words by ROT13 in UTF-8. Cases and lengths stay the same."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data

    def replace_word(match: re.Match[str]) -> str:
        word = match[0]
        return codecs.encode(word, "rot13") if word.lower() in words else word

    return _LETTERS.sub(replace_word, text).encode()


def _without_text(records: Iterable[Record]) -> list[Any]:
    return _as_values(
        replace(record, text="") if isinstance(record, Document) else record for record in records
    )


def _collect_messages(source: Source, inputs: Sequence[Path], where: str) -> Iterator[str]:
    """Read files; yield the messages of errors and of documents that are set aside."""
    try:
        for record in _read_all(source, inputs):
            if isinstance(record, SetAside):
                yield record.reason.text
    except SourceError as error:
        yield str(error)
    except Exception as error:
        raise AssertionError(
            f"{where}: expected SourceError or a document that is set aside, got "
            f"{type(error).__name__}"
        ) from error


def _read_all(source: Source, inputs: Sequence[Path]) -> Iterator[Record]:
    """Yield the records of files, read in small parts."""
    for split, paths in source.find(inputs).items():
        split_source = source.for_split(split)
        for path in paths:
            for part in split_source.cut(Part(str(path)), target_bytes=100):
                yield from split_source.read(part)


def _find_text_words(records: Iterable[Record]) -> set[str]:
    texts = [record.text for record in records if isinstance(record, Document)]
    return _find_words("\n".join(texts))


def _find_words(text: str) -> set[str]:
    """Return the words of a text, in lower case."""
    words = {word.lower() for word in _LETTERS.findall(text)}
    return {word for word in words if len(word) >= _SHORTEST_WORD}


def _check_missing(source: Source) -> None:
    """Check that a missing folder raises an error with its name."""
    try:
        source.find([Path("no-such-folder")])
    except SourceError as error:
        _require("no-such-folder" in str(error), "find: the error does not name what is missing")
    else:
        raise AssertionError("find: expected SourceError for a missing input, got files")


def _check_cuts(source: Source, path: Path) -> list[Record]:
    """Check that all parts of a file together have its records; return these."""
    file_records = list(source.read(Part(str(path))))
    for target in _TARGETS:
        where = f"{path.name}, cut for {target} bytes"
        parts = list(source.cut(Part(str(path)), target_bytes=target))
        _check_parts(source, path, parts, where)

        part_records: list[Record] = []
        batch_records: list[Record] = []
        for part in parts:
            first = len(part_records)
            _require(part.first == first, f"{where}: `first` is not the number of records before")
            part_records += source.read(part)

            # `batches` may yield arrays instead of documents.
            for batch in source.batches(part):
                batch_records += batch if isinstance(batch, Documents) else [batch]
        expected = _as_values(file_records)
        is_same = _as_values(part_records) == expected
        _require(is_same, f"{where}: the parts have other documents than the whole file")
        is_same = _as_values(batch_records) == expected
        _require(is_same, f"{where}: `batches` and `read` give other documents")
    return file_records


def _check_parts(source: Source, path: Path, parts: Sequence[Part], where: str) -> None:
    """Check that parts cover a file in order."""
    _require(bool(parts), f"{where}: expected at least one part, got none")
    _require(all(Path(part.path) == path for part in parts), f"{where}: a part of another file")
    if [part.stop for part in parts] == [-1]:  # the whole file
        return

    starts = [0, *(part.stop for part in parts[:-1])]
    _require([part.start for part in parts] == starts, f"{where}: parts have a gap, or overlap")

    # Ranges are bytes of a text file, or rows of a binary table.
    size = path.stat().st_size
    if parts[-1].stop != size:
        rows = sum(1 for part in parts for _ in source.read(part))
        _require(parts[-1].stop == rows, f"{where}: the parts end before the file")
        return
    data = path.read_bytes()
    lines = [data[: part.start].count(b"\n") + 1 for part in parts]
    _require([part.line for part in parts] == lines, f"{where}: `line` is not the line of the part")


def _as_values(records: Iterable[Record]) -> list[Any]:
    """Return records as comparable values, sorted by kind: the order of kinds does not matter."""
    values: list[Any] = []
    for record in sorted(records, key=lambda record: type(record).__name__):
        if isinstance(record, Document):
            words: Any = None if record.words is None else record.words.tolist()
            values.append(replace(record, spans=tuple(sorted(record.spans)), words=words))
        else:
            values.append(record)
    return values


def _check_document(document: Document) -> None:
    """Check that mentions, sentences and words lie in the text."""
    where = f"document '{document.id}'"
    for span in document.spans:
        _check_span(span, document.text, where)
    words = [] if document.words is None else document.words.tolist()
    _check_ranges(words, document.text, f"{where}: words")
    _check_ranges(document.sentences or (), document.text, f"{where}: sentences")


def _check_ranges(ranges: Sequence[tuple[int, int]], text: str, what: str) -> None:
    """Check that ranges are sorted, do not overlap, and lie in a text."""
    are_inside = all(0 <= start < end <= len(text) for start, end in ranges)
    are_sorted = all(left[1] <= right[0] for left, right in pairwise(ranges))
    _require(are_inside and are_sorted, f"{what} are out of order, or beyond the text")


def _check_span(span: Span, text: str, where: str) -> None:
    _require(0 <= span.start < span.end <= len(text), f"{where}: a mention beyond the text")
    _require(bool(text[span.start : span.end].strip()), f"{where}: a mention of white space")
    _require(span.label != "", f"{where}: a mention without a label")
    _require(0 <= span.score <= 1, f"{where}: expected a score of 0 to 1, got {span.score}")


# Annotators ---------------------------------------------------------------------------------------


def check_annotator(
    annotator: Annotator,
    documents: Sequence[Document | str],
    *,
    other: Annotator | None = None,
) -> None:
    """Check that the mentions of a text do not depend on other documents.

    Args:
        annotator: The annotator, with its options.
        documents: Documents or texts, at least one with mentions.
        other: The same annotator with another model or table. Its digest must differ.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(annotator)
    _require(isinstance(annotator.weak, bool), "weak: expected True or False")
    _require(isinstance(annotator.slow, bool), "slow: expected True or False")
    labels = annotator.labels()
    _require(len(set(labels)) == len(labels), "labels: a label is listed twice")
    digest = annotator.digest()
    _require(digest == _send(annotator).digest(), "digest: not the same in another process")
    if other is not None:
        _require(other.digest() != digest, "digest: the same for another model")

    loaded = annotator.start()
    originals = _as_documents(documents)
    texts = [document for document in documents if isinstance(document, str)]

    # Add hard cases: Windows line breaks, placeholders, empty texts and separators.
    all_documents = [
        *originals,
        *_as_documents([text.replace("\n", "\r\n") for text in texts]),
        *map(_repeat_in_placeholder, texts),
        *_as_documents(["", " ", "\n\r\n", "\x00", "\u2028"]),
    ]

    # Annotate each document alone, then compare with batches in both orders.
    alone = [_annotate(loaded, [document])[0] for document in all_documents]
    for document, spans in zip(all_documents, alone, strict=True):
        where = f"text '{document.id}'"
        for span in spans:
            _check_span(span, document.text, where)
            text = document.text[span.start : span.end]
            _require(text == text.strip(), f"{where}: white space at an end of a mention")
            _require(
                not labels or span.label in labels, f"labels: '{span.label}' is not among them"
            )
            marks = [(start, end) for start, end, _ in document.placeholders]
            touched = _count_overlaps(span, marks)
            _require(not touched, f"{where}: a mention touches a placeholder")
    _require(any(alone[: len(originals)]), "annotate: expected mentions, got none")

    _require(
        _annotate(loaded, all_documents) == alone,
        "annotate: mentions depend on the other documents",
    )
    _require(
        _annotate(loaded, all_documents[::-1]) == alone[::-1],
        "annotate: mentions depend on the order of documents",
    )
    _require(_annotate(loaded, []) == [], "annotate: mentions in no document")
    _require(
        _annotate(annotator.start(), all_documents) == alone,
        "start: a second start gives other mentions",
    )


def _count_overlaps(span: Span, ranges: Iterable[tuple[int, int]]) -> int:
    return sum(start < span.end and span.start < end for start, end in ranges)


def _repeat_in_placeholder(text: str) -> Document:
    """Return a document with the text, and the text again as a placeholder."""
    start = len(text) + 1
    return Document(
        id="with a placeholder",
        text=f"{text} [**{text}**]",
        placeholders=(Placeholder(start, start + len(text) + 6),),
    )


def _annotate(loaded: LoadedAnnotator, documents: Sequence[Document]) -> list[list[Span]]:
    """Annotate documents in one batch; return the mentions of each."""
    batch = Documents.from_documents(documents)
    annotated = loaded.annotate(batch)
    return [sorted(spans) for spans in annotated.mentions.spans(batch.starts)]


# Segmenters ---------------------------------------------------------------------------------------


def check_segmenter(segmenter: Segmenter, documents: Sequence[Document | str]) -> None:
    """Check that sentences cover all text except white space, and do not split mentions.

    Args:
        segmenter: The segmenter, with its options.
        documents: Documents without overlapping mentions, or texts.

    Raises:
        AssertionError: A promise is broken.
    """
    _check_options(segmenter)
    digest = _send(segmenter).digest()
    _require(digest == segmenter.digest(), "digest: not the same in another process")

    originals = _as_documents(documents)
    alone = [
        _find_sentences(segmenter, Documents.from_documents([document]))[0]
        for document in originals
    ]
    for document, sentences in zip(originals, alone, strict=True):
        where = f"document '{document.id}'"
        _check_ranges(sentences, document.text, f"{where}: sentences")

        # The gaps before, between and after sentences must be white space.
        bounds = [0, *(place for sentence in sentences for place in sentence), len(document.text)]
        gaps = [
            document.text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)
        ]
        _require(not "".join(gaps).strip(), f"{where}: text in no sentence")
        is_whole = all(_count_overlaps(span, sentences) <= 1 for span in document.spans)
        _require(is_whole, f"{where}: a mention in two sentences")

    # Compare with batches, complete and with gaps between documents.
    batch = Documents.from_documents(originals)
    _require(_find_sentences(segmenter, batch) == alone, "sentences depend on the other documents")
    every_second = np.arange(len(originals))[::2]
    _require(
        _find_sentences(segmenter, batch.take(every_second)) == alone[::2],
        "text between documents is read",
    )


def _find_sentences(segmenter: Segmenter, documents: Documents) -> list[list[tuple[int, int]]]:
    """Return the sentences of each document, in characters of its text."""
    ranges = segmenter.sentences(documents)
    shifts = np.repeat(documents.starts, ranges.counts)
    starts, ends = (ranges.starts - shifts).tolist(), (ranges.ends - shifts).tolist()
    bounds = list(zip(starts, ends, strict=True))
    return [bounds[first:past] for first, past in pairwise(ranges.offsets.tolist())]


# Strategies ---------------------------------------------------------------------------------------


def check_strategy(
    strategy: Strategy, rows: Examples | None = None, *, seed: int = 0, epoch: int = 0
) -> None:
    """Check the laws of masking.

    A row's mask does not depend on the other rows, special tokens are not masked, unmasked tokens
    do not change, and the input rows are not modified. Inputs with sentinels and their labels are
    the rows again when they are merged.

    Args:
        strategy: The strategy.
        rows: Rows, such as `split.examples()`. Default: generated rows, of which at least one token
            must be masked.
        seed: Seed of the masks.
        epoch: Epoch of the masks.

    Raises:
        AssertionError: A law is broken.
    """
    examples = _make_rows() if rows is None else rows
    columns = (examples.bio.values, examples.span_labels.values)  # the others are read-only
    originals = [column.copy() for column in columns]

    plan = strategy.plan(examples, seed=seed, epoch=epoch)
    ids = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)

    _require(all(map(np.array_equal, columns, originals)), "the strategy changed its input rows")
    kinds = plan.kinds.values
    offsets = examples.input_ids.offsets.tolist()
    _require(kinds.dtype == np.uint8, f"plan.kinds: expected uint8, got {kinds.dtype}")
    _require(set(kinds.tolist()) <= set(MaskKind), "plan.kinds: a value is not a MaskKind")
    _require(plan.kinds.offsets.tolist() == offsets, "the plan has other rows than the input")
    is_special = examples.word_ids.values < 0
    if plan.objective == Objective.CAUSAL:  # predicts where a text ends
        is_special &= examples.input_ids.values != examples.ids.eos
    _require(not kinds[is_special].any(), "a special token is masked")
    if plan.objective == Objective.SENTINELS:
        whole = merge(ids, put_sentinels(examples, kinds).labels, examples.ids)
        _require(
            whole.tolist() == examples.input_ids.tolist(),
            "inputs and labels, merged again, are not the rows",
        )
    else:
        kept = kinds == MaskKind.NONE
        _require(
            ids.offsets.tolist() == offsets
            and np.array_equal(ids.values[kept], examples.input_ids.values[kept]),
            "a token is changed that is not masked",
        )
    _require(rows is not None or sum(plan.counts()) > 0, "expected masked tokens, got none")
    if plan.rates is not None:
        _require(plan.rates.dtype == np.float32, "plan.rates: expected float32")
        _require(plan.rates.shape == (len(examples),), "plan.rates: expected one for each row")
        _require(bool(np.all((plan.rates >= 0) & (plan.rates <= 1))), "plan.rates: not in [0, 1]")

    # Mask subsets of the rows, in other orders, with a copy of the strategy from another process.
    expected = _list_by_row(plan, ids)
    row_numbers = np.arange(len(examples))
    copy = _send(strategy)
    for indices in (
        row_numbers,
        row_numbers[::-1],
        row_numbers[::2],
        *row_numbers[:20, None],
        row_numbers[:0],
    ):
        subset = take(examples, indices)
        plan = copy.plan(subset, seed=seed, epoch=epoch)
        ids = copy.corrupt(subset, plan, seed=seed, epoch=epoch)
        found = _list_by_row(plan, ids)
        for noun, values in expected.items():
            is_same = found.get(noun) == [values[number] for number in indices]
            _require(is_same, f"a row's {noun} depends on the rows beside it")
    _require(bool(repr(strategy)), "repr: expected the strategy's table, got an empty string")


def _list_by_row(plan: MaskPlan, ids: Ragged) -> dict[str, list[Any]]:
    """Return noun -> values of each row, for all results of a strategy."""
    values = {"mask": plan.kinds.tolist(), "corruption": ids.tolist()}
    if plan.unspent is not None:
        values["unspent budget"] = plan.unspent.tolist()
    if plan.rates is not None:
        values["rate"] = plan.rates.tolist()
    return values


def _make_rows(num_rows: int = 40) -> Examples:
    """Generate rows with special tokens, words of one or two tokens, and mentions."""
    words = 12
    token_words = np.repeat(np.arange(words), 1 + np.arange(words) % 2)
    word_ids = [[-1, *token_words.tolist(), -1]] * num_rows
    starts = [[1, 7][: 1 + row % 2] for row in range(num_rows)]
    ends = [[3, 10][: 1 + row % 2] for row in range(num_rows)]
    ids = [[2, *(10 + (row + token_words) % 30).tolist(), 3] for row in range(num_rows)]
    span_starts, span_ends = Ragged.from_rows(starts, np.int32), Ragged.from_rows(ends, np.int32)
    labels = Ragged(np.zeros(len(span_starts.values), np.int16), span_starts.offsets)
    input_ids = Ragged.from_rows(ids, np.int32)
    return Examples(
        keys=np.arange(num_rows, dtype=np.uint64),
        input_ids=input_ids,
        word_ids=Ragged.from_rows(word_ids, np.int32),
        bio=Ragged(paint(span_starts, span_ends, labels, input_ids.offsets), input_ids.offsets),
        span_starts=span_starts,
        span_ends=span_ends,
        span_labels=labels,
        ids=TokenIds(
            size=60,
            mask=4,
            pad=0,
            unk=1,
            sentinels=tuple(range(59, 39, -1)),
            special=(0, 1, 2, 3, 4, *range(40, 60)),
        ),
    )


# Folders ------------------------------------------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Check that a built folder keeps every rule of FORMAT.md, as `mslm-data verify` does.

    Args:
        folder: A built folder.

    Raises:
        AssertionError: A rule is broken. The message names file and row.
        ShardError: The manifest is missing, damaged or inconsistent, or has another format.
    """
    _, problems = verify(folder)
    _require(not problems, "; ".join(map(str, problems)))


# Loaders ------------------------------------------------------------------------------------------


def assert_resumes(make_loader: Callable[[], Any], *, epochs: int = 2) -> None:
    """Restore a loader at each of its states, and compare all batches that follow.

    It tests your own loader around `MaskedDataset` or `md.Batches`, or a combination of options::

        def test_loader__resumes():
            assert_resumes(lambda: MyLoader(data, batch_size=4))

    The loader is an iterable of dicts of arrays, with `state_dict` and `load_state_dict`, as
    torchdata's StatefulDataLoader has them. Each iteration is an epoch. States are copied, as by a
    checkpoint. With N batches, about N**2 / 2 are made, so use a few rows.

    Args:
        make_loader: Returns a new loader at its first batch. All loaders must be alike.
        epochs: Number of epochs to compare. Default: 2, so that the order and the masks of a later
            epoch are compared too.

    Raises:
        AssertionError: There are no batches, or all are alike; or a restored loader gives too few
            or another one, or ends a pass elsewhere. The message names the batch and the fields
            that differ.
    """
    loader = make_loader()
    states = [_checkpoint(loader)]
    passes: list[list[dict[str, str]]] = []
    for _ in range(epochs):
        passes.append([])
        for batch in _batches(loader):
            passes[-1].append(batch)
            states.append(_checkpoint(loader))
    _require(len(states) > 1, "expected batches, got none")
    # Otherwise a loader that forgets its position would pass.
    first = passes[0]
    _require(
        any(batch != first[0] for batch in first),
        f"expected several batches a pass that differ, got {len(first)} alike; pass more rows or a "
        "smaller batch size",
    )

    # The position after the last batch is that of a further epoch, which is not compared.
    for number, state in enumerate(states[:-1]):
        restored = make_loader()
        restored.load_state_dict(state)
        place = number
        for expected in _passes_after(passes, number):
            rest = list(_batches(restored))
            for batch, other in zip(expected, rest, strict=False):
                names = batch.keys() | other.keys()
                differing = sorted(name for name in names if batch.get(name) != other.get(name))
                _require(
                    not differing,
                    f"restored after {number} batches: batch {place} differs in "
                    f"{', '.join(differing)}",
                )
                place += 1
            _require(
                len(rest) == len(expected),
                f"restored after {number} batches: expected a pass of {len(expected)}, got "
                f"{len(rest)}",
            )


def _passes_after(
    passes: Sequence[list[dict[str, str]]], number: int
) -> Iterator[list[dict[str, str]]]:
    """Yield the rest of each pass after some batches. A complete pass is not continued."""
    for batches in passes:
        if number < len(batches):
            yield batches[number:]
        number = max(number - len(batches), 0)


def _checkpoint(loader: Any) -> Any:
    # Not by `_send`: between processes, tensors would share their memory with the loader's.
    return copy.deepcopy(loader.state_dict())


def _batches(loader: Any) -> Iterator[dict[str, str]]:
    """Yield the batches of a pass as name -> dtype and values."""
    for batch in loader:
        _require(isinstance(batch, Mapping), f"expected dicts of arrays, got {type(batch)}")
        yield {name: _describe(name, value) for name, value in batch.items()}


def _describe(name: str, value: Any) -> str:
    """Return the dtype and the values of an array, or another value, as text."""
    if hasattr(value, "tolist"):
        return f"{getattr(value, 'dtype', '')} {value.tolist()}"
    is_plain = isinstance(value, str | int | float | NoneType)
    _require(is_plain, f"{name}: expected an array, a number or a text, got {type(value)}")
    return repr(value)


# Shared -------------------------------------------------------------------------------------------


def _as_documents(documents: Sequence[Document | str]) -> list[Document]:
    """Convert texts to documents; documents are returned unchanged."""
    return [
        Document(id=str(number), text=document) if isinstance(document, str) else document
        for number, document in enumerate(documents)
    ]


def _check_options(plugin: Any) -> None:
    """Check that a plug-in is a documented struct of options that other processes can receive."""
    name = type(plugin).__name__
    _require(isinstance(plugin, Options), f"{name}: expected a class of Options")
    _require(_send(plugin) == plugin, f"{name}: not the same in another process")
    _require(bool(type(plugin).__doc__), f"{name}: expected a docstring, which `recipes` prints")
    for option in list_options(type(plugin)):
        _require(bool(option.help), f"{name}.{option.name}: expected a Meta(description=…)")


def _send(value: T) -> T:
    """Return an object as another process would receive it."""
    # Not through a pipe: sending more than it holds, some 100 KB, waits for the receiver.
    received: T = ForkingPickler.loads(ForkingPickler.dumps(value))
    return received
