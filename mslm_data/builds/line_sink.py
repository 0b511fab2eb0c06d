"""The sink of `mslm-data annotate`: lines of entities instead of rows.

Lines are in one of `line_forms`. Work units and receipts are those of a build, in `FILE.parts`. At
the end, the pieces are joined into the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mslm_data.builds.data_loss import Outcome, check_set_aside
from mslm_data.builds.folder import Receipt, Unfinished
from mslm_data.builds.line_forms import LineForm, Numbering
from mslm_data.builds.plan import as_one_unit
from mslm_data.builds.stages import (
    Inputs,
    attempts,
    make_annotator,
    make_segmenter,
    make_source,
)
from mslm_data.builds.tasks import BuildUnit
from mslm_data.builds.unit import Account, Reader, Record, annotate, build_unit, in_context
from mslm_data.data.accounts import Counts
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from mslm_data.io.files import canonical_json, writing_whole
from mslm_data.pipeline import Pipeline
from mslm_data.shard.write import ShardRecord
from mslm_data.source import Source
from mslm_data.source.formats.text import PlainText
from mslm_data.source.reading.files import stem
from mslm_data.source.reading.records import NOT_UTF8

PIECE = ".lines"
"""Suffix of pieces."""
MAX_BYTES = 64 << 20
"""Maximum size of a single-document text file, in bytes."""
TOO_LARGE = Reason(f"expected a document of at most {MAX_BYTES} bytes, got more")
_MARK = "\ufeff"


class LineCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of an annotation run.

    Attributes:
        documents: Number of documents with a line.
        entities: Number of entities in these lines.
        left_out: Reason -> number of mentions that were found and left out.
        set_aside: Reason -> number of documents without a line.
        places: Reason -> place of its first document.
    """

    documents: int
    entities: int
    left_out: dict[str, int]
    set_aside: dict[str, int]
    places: dict[str, str]


# Documents as they are given ----------------------------------------------------------------------


def list_document_names(inputs: Inputs) -> dict[str, str]:
    """Return path -> path below the input, for files that may be a single document."""
    if not isinstance(inputs.source, PlainText) or inputs.source.documents != "file":
        return {}
    return {str(path): inputs.name(path) for path in inputs.splits_of_paths()}


def as_given(source: Source, names: Mapping[str, str]) -> Callable[[Part], Iterator[Record]]:
    """Return a reader of parts that keeps every character of whole text files.

    Args:
        source: The source.
        names: From `list_document_names`. The id of a whole file is this name without its suffix.
    """

    def read(part: Part) -> Iterator[Record]:
        path = Path(part.path)
        # Text sources normalise line ends and blank lines; read the bytes, so that character
        # offsets count from the beginning of the file.
        if isinstance(source, PlainText) and part.path in names and source.is_lines(path):
            doc_id = (Path(names[part.path]).parent / stem(path)).as_posix()
            yield _whole_text(source.utf8(path), doc_id, f"{path.name}:1")
        else:
            yield from source.read(part)

    return read


def _whole_text(data: bytes, doc_id: str, place: str) -> Document | SetAside:
    """Decode a whole file as a document, without a byte order mark."""
    if len(data) > MAX_BYTES:
        return SetAside(doc_id, place, TOO_LARGE)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return SetAside(doc_id, place, NOT_UTF8)
    return Document(id=doc_id, text=text.removeprefix(_MARK), place=place)


# The lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ToLines:
    """Work units write lines of entities.

    Attributes:
        names: From `list_document_names`.
        form: Form of the lines.
    """

    names: Mapping[str, str]
    form: LineForm

    def build(self, task: BuildUnit, pipeline: Pipeline, folder: Unfinished) -> Receipt:
        """Build a work unit."""
        source = make_source(pipeline).for_split(task.unit.split)
        reader = Reader(task.unit, pipeline, as_given(source, self.names))
        path = folder.piece(task.name, PIECE)
        with writing_whole(path, durable=False) as file:
            sink = LineSink(pipeline, file.write, path.name, self.form)
            return build_unit(task, reader, pipeline, sink, folder)


class LineSink:
    """Writes the lines of a work unit's documents."""

    def __init__(
        self, pipeline: Pipeline, write: Callable[[bytes], object], name: str, form: LineForm
    ) -> None:
        """Begin a piece without lines.

        Args:
            pipeline: The pipeline. Its context options need sentences.
            write: Takes the lines.
            name: Name of the piece.
            form: Form of the lines.
        """
        self._pipeline = pipeline
        self._write = write
        self._name = name
        self._form = form
        self._digest = hashlib.sha256()
        self._documents = self._entities = self._bytes = 0

    def add(self, documents: Documents, account: Account) -> None:
        """Write the lines of documents; see `unit.Sink`."""
        for batch in self._in_context(documents, account):
            lines = self._form.lines(batch)
            for reason, number in lines.left_out.items():
                account.counts.leave_out(reason, number)
            encoded = lines.text.encode()
            self._write(encoded)
            self._digest.update(encoded)
            self._bytes += len(encoded)
            self._documents += len(batch)
            self._entities += lines.entities

    def _in_context(self, documents: Documents, account: Account) -> Iterator[Documents]:
        """Yield documents with context flags, if they are asked for."""
        if not self._pipeline.annotate.wants_context:
            yield documents
            return

        def refuse(document: Documents, reason: Reason) -> None:
            account.drop(document, np.zeros(1, np.int64), reason, are_annotated=True)

        segmenter = make_segmenter(self._pipeline)
        for batch, sentences in attempts(documents, segmenter.sentences, "segmenter", refuse):
            yield in_context(batch, sentences, account, self._pipeline)

    def close(self, account: Account) -> ShardRecord:  # noqa: ARG002
        """Return the record of the piece; see `unit.Sink`."""
        return ShardRecord(
            file=self._name,
            rows=self._documents,
            tokens=0,
            mentions=self._entities,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
        )


def count(outcomes: Iterable[Outcome]) -> LineCounts:
    """Add up the outcomes of work units."""
    every = [*outcomes]
    counts = sum((outcome.counts for outcome in every), Counts())
    places: dict[str, str] = {}
    for outcome in every:
        for aside in outcome.set_aside:
            places.setdefault(aside.reason.text, aside.place)
    return LineCounts(
        documents=counts.written,
        entities=counts.mentions,
        left_out=counts.left_out,
        set_aside=counts.set_aside,
        places=places,
    )


# The file -----------------------------------------------------------------------------------------


def check_new(out: Path) -> None:
    """Check that an output file is missing.

    Raises:
        AnnotateError: It exists.
    """
    if out.exists():
        raise AnnotateError(f"{out}: the file exists; name another --out, or remove it")


def collect_line_identity(inputs: Inputs, form: LineForm) -> dict[str, Any]:
    """Return everything that decides the lines besides the input files, as plain values."""
    pipeline = inputs.pipeline
    identity = {
        "annotator": make_annotator(pipeline).digest(),
        "labels": list(pipeline.annotate.labels),
        "source": pipeline.effective()["source"],
        **form.identity(),
    }
    if pipeline.annotate.wants_context:
        identity["context"] = list(pipeline.annotate.leave_out_context)
        identity["segment"] = pipeline.effective()["segment"]
    values: dict[str, Any] = msgspec.json.decode(canonical_json(identity))
    return values


def annotate_at_once(
    inputs: Inputs,
    write: Callable[[bytes], object],
    form: LineForm,
) -> LineCounts:
    """Annotate all documents in this process, and write their lines immediately.

    Args:
        inputs: The input files.
        write: Called with the lines of each batch, in UTF-8.
        form: Form of the lines.

    Raises:
        BuildError: Too many documents are set aside.
        SourceError: An input has changed meanwhile.
    """
    pipeline = inputs.pipeline
    names = list_document_names(inputs)
    numbering = Numbering(form)
    if form.header:
        write(numbering(b""))
    outcomes: list[Outcome] = []
    for split in inputs.files:
        unit = as_one_unit(inputs, split)
        source = inputs.source.for_split(split)
        reader = Reader(unit, pipeline, as_given(source, names))
        sink = LineSink(pipeline, lambda lines: write(numbering(lines)), "", form)
        for documents in reader.batches():
            for annotated in annotate(documents, reader.account, pipeline):
                sink.add(annotated, reader.account)
        reader.account.counts.mentions = sink.close(reader.account).mentions
        outcomes.append(reader.account.outcome(unit))
        check_set_aside(pipeline, split, outcomes[-1:])
    return count(outcomes)
