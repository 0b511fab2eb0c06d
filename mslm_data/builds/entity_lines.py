"""Writes lines of entities in place of rows: what `mslm-data annotate` makes of work units.

A line is a JSON object with a document's id and its entities; it never holds text unless that is
asked for. Units are those of a build, with their receipts, in `FILE.jsonl.parts` until the last one
is done. Then their pieces become the file at once, with a record of what made it beside it.

FILE.jsonl              the lines
FILE.jsonl.made.json    what made them: model, options, input files; and what was counted
FILE.jsonl.parts/.build the unfinished work, as `folder` describes it
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.data_loss import check_set_aside
from mslm_data.builds.duplicates import Copies
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
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import in_batches
from mslm_data.data.reason import Reason
from mslm_data.encode.mentions import Account
from mslm_data.errors import AnnotateError, BuildError
from mslm_data.io import json_once
from mslm_data.io.files import canonical_json, hash_file, write_whole, writing_whole
from mslm_data.log import plain
from mslm_data.pipeline import Pipeline
from mslm_data.shard.write import ShardRecord
from mslm_data.source.formats.text import PlainText
from mslm_data.source.reading.files import stem
from mslm_data.source.reading.records import NOT_UTF8

MAX_BYTES = 64 << 20
"""Maximum size of a text that is one document."""
TOO_LARGE = Reason(f"expected a document of at most {MAX_BYTES} bytes, got more")
_MARK = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class LineCounts:
    """The counts of an annotation run, with the reasons for missing documents.

    Attributes:
        documents: Documents with a line.
        entities: Entities of these.
        left_out: Reason -> mentions that the model found and that are not given.
        set_aside: Reason -> documents that have no line.
        places: Reason -> where the first of these stands.
    """

    documents: int
    entities: int
    left_out: Mapping[str, int]
    set_aside: Mapping[str, int]
    places: Mapping[str, str]


# One unit -----------------------------------------------------------------------------------------


def write_lines(
    unit: WorkUnit,
    records: Iterable[Record],
    pipeline: Pipeline,
    write: Callable[[str], object],
    *,
    show_text: bool,
    folder: Path = Path(),
) -> Receipt:
    """Write a line for each document of a unit, batch by batch.

    Args:
        unit: The unit.
        records: Those of its parts.
        pipeline: Says which model finds entities.
        write: Called with the lines of a batch.
        show_text: Whether entities have their characters too.
        folder: The unfinished folder, where deaths of processes are noted.

    Returns:
        The unit's receipt; its piece is called as the unit is.
    """
    digest_of_lines = hashlib.sha256()
    documents = entities = size = 0
    with CrashLog(folder, unit.name) as crash_log:
        copies = Copies(pipeline, folder, unit.name)
        reading = Reading(pipeline, duplicate_ids=None, copies=copies, crash_log=crash_log)
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
    return make_receipt(unit, reading, Account(), (), piece)


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
    """Writes lines of entities; see `engine.Worker`.

    Attributes:
        names: File that may be a document as a whole -> its path below the input.
        show_text: Whether entities have their characters too.
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
        with writing_whole(path, durable=False) as file:
            receipt = write_lines(
                task,
                self._records(task),
                self.pipeline,
                lambda lines: file.write(lines.encode()),
                show_text=self.show_text,
                folder=folder,
            )
        write_receipt(folder, task, receipt)
        return None


# Texts as they are given --------------------------------------------------------------------------


def names_of(inputs: Inputs, *, staging: Path | None) -> dict[str, str]:
    """Return file that may be a document as a whole -> its path below the input.

    Args:
        inputs: The files.
        staging: The folder into which large compressed files are unpacked; None if none are.
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
    """Give the records of parts of files, with every character of whole files as it stands.

    Args:
        split: The split that has the parts.
        parts: The parts.
        pipeline: Its source reads them.
        names: See `LineWorker`. A document that is a whole file has this name, without its suffix.
    """
    source = make_source(pipeline).for_split(split)

    def records() -> Iterator[Any]:
        for part in parts:
            path = Path(part.path)
            if isinstance(source, PlainText) and part.path in names and source.is_lines(path):
                doc_id = (Path(names[part.path]).parent / stem(path)).as_posix()
                yield whole_text(source.utf8(path), doc_id, f"{path.name}:1")
            else:
                yield from source.read(part)

    for record in in_batches(records()):
        yield Part(""), record


def whole_text(data: bytes, doc_id: str, place: str) -> Document | SetAside:
    """Return a document of all the bytes of a text, but for a byte order mark."""
    if len(data) > MAX_BYTES:
        return SetAside(doc_id, place, TOO_LARGE)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return SetAside(doc_id, place, NOT_UTF8)
    return Document(id=doc_id, text=text.removeprefix(_MARK), place=place)


# All units ----------------------------------------------------------------------------------------


def tell(
    out: Path,
    parts: Path,
    inputs: Inputs,
    identity: Mapping[str, Any],
    *,
    counter: Counter,
) -> Story[LineCounts]:
    """Write a file of lines, from the first scan of the files on.

    Args:
        out: The file.
        parts: The unfinished folder.
        inputs: The files of each split.
        identity: From `collect_identity`.
        counter: Counts finished units.

    Raises:
        BuildError: The unfinished folder follows another plan, or too much is set aside.
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

    counts = count(chain.from_iterable(receipts.values()))
    pieces = [piece_path(parts, unit.name, suffix=".jsonl") for unit in plan.units]
    with writing_file(out, made_of(identity, plan.sources)) as (write, keep):
        for piece in pieces:
            write(piece.read_bytes())
        keep(counts)
    shutil.rmtree(parts, ignore_errors=True)
    return counts


def check_losses(inputs: Inputs, receipts: Mapping[str, Sequence[Receipt]]) -> None:
    """Raise BuildError if more documents of a split are set aside than the pipeline allows."""
    for split, of_split in receipts.items():
        check_set_aside(inputs.pipeline, split, of_split)


def count(receipts: Iterable[Receipt]) -> LineCounts:
    """Add up the receipts of units."""
    documents = entities = 0
    left_out: Counts[str] = Counts()
    set_aside: Counts[str] = Counts()
    places: dict[str, str] = {}
    for receipt in receipts:
        documents += receipt.piece.rows
        entities += receipt.piece.mentions
        left_out.update(receipt.left_out)
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


def parts_of(out: Path) -> Path:
    """Return the folder of the unfinished work on a file."""
    return out.with_name(f"{out.name}.parts")


def collect_identity(inputs: Inputs, *, show_text: bool) -> dict[str, Any]:
    """Return all that decides the lines besides the input files, as plain values."""
    pipeline = inputs.pipeline
    return {
        "annotator": make_annotator(pipeline).digest(),
        "labels": list(pipeline.annotate.labels),
        "show_text": show_text,
        "source": pipeline.effective()["source"],
        "versions": collect_versions(pipeline),
    }


def made_of(identity: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return what made a file of lines, as its record says it."""
    made: dict[str, Any] = msgspec.json.decode(canonical_json({**identity, "sources": sources}))
    return made


@contextmanager
def writing_file(
    out: Path, made: Mapping[str, Any]
) -> Iterator[tuple[Callable[[bytes], None], Callable[[LineCounts], None]]]:
    """Write a file of lines whole or not at all.

    Args:
        out: The file.
        made: From `made_of`.

    Returns:
        A function that takes bytes of the file, and one that takes the counts, to be called last:
        it writes the record. A file without a record is somebody else's, so the record is there
        first.
    """
    digest_of_file = hashlib.sha256()
    with writing_whole(out) as file:

        def write(data: bytes) -> None:
            digest_of_file.update(data)
            file.write(data)

        def keep(counts: LineCounts) -> None:
            record = {
                "counts": asdict(counts),
                "made": made,
                "sha256": digest_of_file.hexdigest(),
            }
            write_whole(_record_of(out), [canonical_json(record)])

        yield write, keep


def finished(out: Path, inputs: Inputs, identity: Mapping[str, Any]) -> LineCounts | None:
    """Return the counts of a file that is there already, None where it is not.

    Raises:
        AnnotateError: It is another program's, or not as it was written.
        BuildError: It was made of something else.
    """
    if not out.exists():
        return None
    check_output(out)
    record = _read_record(out)
    assert record is not None  # noqa: S101 - see `check_output`
    files = inputs.every_file()
    digests = digest(Digest(0, tuple(map(str, files))))
    sources = fingerprints(inputs, dict(zip(files, digests, strict=True)))
    check_same_record(out, record["made"], made_of(identity, sources), "lines of something else")
    return msgspec.convert(record["counts"], LineCounts)


def check_output(out: Path) -> None:
    """Raise AnnotateError for a file that this command did not write, or that was changed since."""
    if not out.exists():
        return
    record = _read_record(out)
    if record is None or record["sha256"] != hash_file(out):
        raise AnnotateError(
            f"{out}: the file exists, and was changed or not written by this command; name another "
            "--out, or remove it"
        )


def _record_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.made.json")


def _read_record(out: Path) -> dict[str, Any] | None:
    try:
        record = json_once.decode(_record_of(out).read_bytes())
        return {name: record[name] for name in ("counts", "made", "sha256")}
    except (OSError, ValueError, KeyError, TypeError, *json_once.DECODE_ERRORS):
        return None
