"""Writes JSON lines of entities instead of rows, for `mslm-data annotate`.

A line has a document's id and entities, and no text unless asked for. Work units and receipts are
those of a build, in `FILE.jsonl.parts`. At the end, the pieces are joined into the file.

FILE.jsonl              the lines
FILE.jsonl.made.json    the model, options and input files that produced them, and counts
FILE.jsonl.parts/.build unfinished work; see `folder`
"""

from __future__ import annotations

import collections
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.data_loss import check_set_aside
from mslm_data.builds.finish import load_receipts
from mslm_data.builds.folder import (
    Receipt,
    check_same_record,
    is_done,
    keep_plan,
    mark_accepted,
    mark_refused,
    piece_path,
    write_receipt,
)
from mslm_data.builds.plan import collect_versions, fingerprints, make_plan
from mslm_data.builds.reading import Reading, Record
from mslm_data.builds.rounds import Story
from mslm_data.builds.scan import digest, scan_inputs, staged
from mslm_data.builds.stages import Inputs, make_annotator, make_source
from mslm_data.builds.story import Counter, check_unchanged
from mslm_data.builds.tasks import Digest, Task, WorkUnit
from mslm_data.builds.work_unit import make_receipt
from mslm_data.builds.worker import UnitWorker
from mslm_data.data.counts import Counts
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import in_batches
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, BuildError
from mslm_data.io.files import JSON_ERRORS, canonical_json, hash_file, write_whole, writing_whole
from mslm_data.log import plain
from mslm_data.pipeline import Pipeline
from mslm_data.shard.write import ShardRecord
from mslm_data.source.formats.text import PlainText
from mslm_data.source.reading.files import stem
from mslm_data.source.reading.records import NOT_UTF8

MAX_BYTES = 64 << 20
"""Maximum size of a single-document text file, in bytes."""
TOO_LARGE = Reason(f"expected a document of at most {MAX_BYTES} bytes, got more")
_MARK = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class LineCounts:
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
    left_out: Mapping[str, int]
    set_aside: Mapping[str, int]
    places: Mapping[str, str]


# A work unit --------------------------------------------------------------------------------------


def write_lines(
    unit: WorkUnit,
    records: Iterable[Record],
    pipeline: Pipeline,
    write: Callable[[str], object],
    *,
    show_text: bool,
    crash_log: CrashLog | None = None,
) -> Receipt:
    """Write a line per document of a work unit, batch by batch.

    Args:
        unit: The work unit.
        records: Records of its parts.
        pipeline: The pipeline, with the annotator.
        write: Called with the lines of each batch.
        show_text: Whether to write the text of each entity.
        crash_log: The unit's crashes. Default: None, without an unfinished folder.

    Returns:
        The receipt of the unit.
    """
    digest_of_lines = hashlib.sha256()
    documents = entities = size = 0
    reading = Reading(pipeline, duplicate_ids=None, crash_log=crash_log)
    for batch in reading.batches(records):
        lines = "".join(_line(document, show_text=show_text) for document in batch)
        write(lines)

        data = lines.encode()
        digest_of_lines.update(data)
        size += len(data)
        documents += len(batch)
        entities += len(batch.mentions)

    piece = ShardRecord(
        file=f"{unit.name}.jsonl",
        rows=documents,
        tokens=0,
        mentions=entities,
        bytes=size,
        sha256=digest_of_lines.hexdigest(),
    )
    return make_receipt(unit, reading, Counts(mentions=entities), (), piece)


def _line(document: Document, *, show_text: bool) -> str:
    entities = []
    for span in document.spans:
        entity: dict[str, Any] = {
            "start": span.start,
            "end": span.end,
            "label": span.label,
            "score": span.score,
        }
        if show_text:
            entity["text"] = document.text[span.start : span.end]
        entities.append(entity)
    line = json.dumps({"id": document.id, "entities": entities}, ensure_ascii=False)
    return f"{plain(line)}\n"


@dataclass(frozen=True, kw_only=True)
class LineWorker(UnitWorker):
    """Runs the tasks of an annotation run; see `engine.Worker`.

    Attributes:
        names: Path of a possible single-document file -> its path relative to the input.
        show_text: Whether to write the text of each entity.
    """

    names: Mapping[str, str]
    show_text: bool

    def _read(self, unit: WorkUnit) -> Iterator[Record]:
        return records_as_given(unit.split, unit.parts, self.pipeline, self.names)

    def _do(self, task: Task) -> Any:
        if not isinstance(task, WorkUnit):
            return super()._do(task)

        folder = Path(self.folder)
        path = piece_path(folder, task.name, suffix=".jsonl")
        log = CrashLog(folder, task.name)
        with log, writing_whole(path, durable=False) as file:
            receipt = write_lines(
                task,
                self._records(task),
                self.pipeline,
                lambda lines: file.write(lines.encode()),
                show_text=self.show_text,
                crash_log=log,
            )
        write_receipt(folder, task, receipt)
        return None


# Whole files --------------------------------------------------------------------------------------


def list_document_names(inputs: Inputs, *, staging: Path | None) -> dict[str, str]:
    """Return path -> relative path, for files that may be a single document.

    Args:
        inputs: The input files.
        staging: The folder for unpacked files; None if files are not unpacked.
    """
    names: dict[str, str] = {}
    if isinstance(inputs.source, PlainText) and inputs.source.documents == "file":
        below = inputs.names()
        for split, paths in inputs.files.items():
            for path, name in zip(paths, below[split], strict=True):
                names[str(path)] = name
                if staging is not None and path.suffix == ".gz":
                    names[str(staged(staging, path))] = name
    return names


def records_as_given(
    split: str, parts: Iterable[Part], pipeline: Pipeline, names: Mapping[str, str]
) -> Iterator[Record]:
    """Yield the records of parts of files. Whole files keep every character.

    Args:
        split: The split of the parts.
        parts: Parts of files.
        pipeline: The pipeline, with the source.
        names: See `LineWorker`. The id of a whole file is this name without its suffix.
    """
    source = make_source(pipeline).for_split(split)

    def records() -> Iterator[Any]:
        for part in parts:
            path = Path(part.path)
            # Text sources normalise line ends and blank lines; read the bytes, so that character
            # offsets count from the beginning of the file.
            if isinstance(source, PlainText) and part.path in names and source.is_lines(path):
                doc_id = (Path(names[part.path]).parent / stem(path)).as_posix()
                yield whole_text(source.utf8(path), doc_id, f"{path.name}:1")
            else:
                yield from source.read(part)

    for record in in_batches(records()):
        yield Part(""), record


def whole_text(data: bytes, doc_id: str, place: str) -> Document | SetAside:
    """Decode a whole file as a document, without a byte order mark."""
    if len(data) > MAX_BYTES:
        return SetAside(doc_id, place, TOO_LARGE)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return SetAside(doc_id, place, NOT_UTF8)
    return Document(id=doc_id, text=text.removeprefix(_MARK), place=place)


# The run ------------------------------------------------------------------------------------------


def tell(
    out: Path,
    parts: Path,
    inputs: Inputs,
    identity: Mapping[str, Any],
    *,
    counter: Counter,
) -> Story[LineCounts]:
    """Write a file of lines, from the first scan of the input files.

    Args:
        out: The file.
        parts: The unfinished folder.
        inputs: The files of each split.
        identity: From `collect_identity`.
        counter: Counts finished units.

    Raises:
        BuildError: The unfinished folder has another plan, or too many documents are set aside.
        SourceError: An input has changed since the command began.
    """
    scan = yield from scan_inputs(inputs, staging=parts / ".build" / "staging")
    plan = make_plan(inputs, scan, identity)
    keep_plan(parts, plan, alone=True)

    missing = [unit for unit in plan.units if not is_done(parts, unit)]
    counter.start(plan.units, missing, plan.sizes)
    yield missing
    yield from check_unchanged(parts, inputs, scan)

    receipts = load_receipts(parts, plan)
    try:
        check_losses(inputs, receipts)
    except BuildError:
        mark_refused(parts)
        raise
    mark_accepted(parts)

    # Join the pieces in the order of the input.
    counts = count(chain.from_iterable(receipts.values()))
    pieces = [piece_path(parts, unit.name, suffix=".jsonl") for unit in plan.units]
    with writing_file(out, make_record(identity, plan.sources)) as (write, keep):
        for piece in pieces:
            write(piece.read_bytes())
        keep(counts)
    shutil.rmtree(parts, ignore_errors=True)
    return counts


def check_losses(inputs: Inputs, receipts: Mapping[str, Sequence[Receipt]]) -> None:
    """Check the share of documents set aside in each split.

    Raises:
        BuildError: More than the share `source.max_loss` was set aside.
    """
    for split, split_receipts in receipts.items():
        check_set_aside(inputs.pipeline, split, split_receipts)


def count(receipts: Iterable[Receipt]) -> LineCounts:
    """Add up the receipts of work units."""
    documents = entities = 0
    left_out: collections.Counter[str] = collections.Counter()
    set_aside: collections.Counter[str] = collections.Counter()
    places: dict[str, str] = {}
    for receipt in receipts:
        documents += receipt.piece.rows
        entities += receipt.piece.mentions
        left_out.update(receipt.counts.left_out)
        for aside in receipt.set_aside:
            set_aside[aside.reason.text] += 1
            places.setdefault(aside.reason.text, aside.place)
    return LineCounts(
        documents=documents,
        entities=entities,
        left_out=dict(left_out),
        set_aside=dict(set_aside),
        places=places,
    )


# The file and its record --------------------------------------------------------------------------


def parts_folder(out: Path) -> Path:
    """Return the folder for the unfinished work on a file."""
    return out.with_name(f"{out.name}.parts")


def collect_identity(inputs: Inputs, *, show_text: bool) -> dict[str, Any]:
    """Return everything that decides the lines besides the input files, as plain values."""
    pipeline = inputs.pipeline
    return {
        "annotator": make_annotator(pipeline).digest(),
        "labels": list(pipeline.annotate.labels),
        "show_text": show_text,
        "source": pipeline.effective()["source"],
        "versions": collect_versions(pipeline),
    }


def make_record(identity: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the model, options and inputs that produce a file."""
    record: dict[str, Any] = msgspec.json.decode(canonical_json({**identity, "sources": sources}))
    return record


@contextmanager
def writing_file(
    out: Path, made: Mapping[str, Any]
) -> Iterator[tuple[Callable[[bytes], None], Callable[[LineCounts], None]]]:
    """Write a file of lines, complete or not at all.

    Args:
        out: The file.
        made: From `make_record`.

    Yields:
        A function that writes bytes, and one that takes the counts and writes the record. The
            second must be called last.
    """
    digest_of_file = hashlib.sha256()
    with writing_whole(out) as file:

        def write(data: bytes) -> None:
            digest_of_file.update(data)
            file.write(data)

        # The record exists before the file: a file without a record is somebody else's.
        def keep(counts: LineCounts) -> None:
            record = {
                "counts": asdict(counts),
                "made": made,
                "sha256": digest_of_file.hexdigest(),
            }
            write_whole(_record_path(out), [canonical_json(record)])

        yield write, keep


def load_finished(out: Path, inputs: Inputs, identity: Mapping[str, Any]) -> LineCounts | None:
    """Return the counts of an existing file; None if there is none.

    Raises:
        AnnotateError: The file was written by another program, or changed.
        BuildError: The file was made from other inputs or options.
    """
    if not out.exists():
        return None
    record = _read_record(out)
    if record is None or record["sha256"] != hash_file(out):
        raise AnnotateError(
            f"{out}: the file exists, and was changed or not written by this command; name another "
            "--out, or remove it"
        )

    files = inputs.every_file()
    digests = digest(Digest(0, tuple(map(str, files))))
    sources = fingerprints(inputs, dict(zip(files, digests, strict=True)))
    check_same_record(
        out, record["made"], make_record(identity, sources), "lines of something else"
    )
    return msgspec.convert(record["counts"], LineCounts)


def _record_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.made.json")


def _read_record(out: Path) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(_record_path(out).read_bytes())
        return {name: record[name] for name in ("counts", "made", "sha256")}
    except (OSError, ValueError, KeyError, TypeError, *JSON_ERRORS):
        return None
