"""Texts in, lines of entities out: what `mslm-data annotate` does.

A line is a JSON object with a document's id and its entities; it never holds text unless that is
asked for. A file of lines grows a group of documents at a time, and a record beside it says which
model and options it is of, so that an interrupted run can be resumed and two models are never mixed
in one file.
"""

from __future__ import annotations

import json
import os
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mslm_data._version import __version__
from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import AnnotateError, CallError, SourceError
from mslm_data.io import json_once
from mslm_data.io.files import canonical_json, make_folder, write_whole
from mslm_data.io.locks import HeldError, locked
from mslm_data.log import plain
from mslm_data.pipeline import Pipeline

if TYPE_CHECKING:
    from mslm_data.builds.stages import Inputs
    from mslm_data.source.formats.text import PlainText
    from mslm_data.torch.tagger import Tagger

STDIN = "-"
_STDIN_ID = "stdin"
_CHARACTERS = 256 << 10
_DOCUMENTS = 1024
"""A group of documents is full when it has so many, or so many characters."""
_LARGEST = 64 << 20
"""Most bytes of a text that is one document."""
_TOO_LARGE = f"expected a document of at most {_LARGEST} bytes, got more"


@dataclass(slots=True)
class Told:
    """Count what became of documents.

    Attributes:
        documents: Documents with a line, those of earlier runs included.
        earlier: Documents that had their line before.
        entities: Entities of the documents of this run.
        set_aside: Reason -> documents that could not be read.
        first: Where the first of these stands.
    """

    documents: int = 0
    earlier: int = 0
    entities: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)
    first: str = ""


# Documents ----------------------------------------------------------------------------------------


def documents(pipeline: Pipeline, given: Sequence[str]) -> Iterator[Document | SetAside]:
    """Read documents one by one, with every character of a text as it stands.

    Args:
        pipeline: Its source reads them.
        given: Files, folders or URLs; or `-` alone for standard input, which holds one text, or one
            a line where the source's `documents` says so.

    Raises:
        CallError: Standard input beside others, or of a source that needs files.
        SourceError: An input is missing, or not of the source's format.
    """
    from mslm_data.builds.stages import find_inputs
    from mslm_data.source.inputs.localise import localise

    if STDIN in given:
        yield from _of_stdin(pipeline, given)
        return

    found = find_inputs(pipeline, localise(given))
    whole = _whole_files(found)
    for split, paths in found.files.items():
        source = found.source.of_split(split)
        for path, name in zip(paths, found.names()[split], strict=True):
            if whole is not None and whole.is_lines(path):
                yield _of_file(whole, path, name)
                continue
            for part in source.cut(Part(str(path)), target_bytes=found.pipeline.shard.unit_bytes):
                for record in source.read(part):
                    if not isinstance(record, NotChosen):
                        yield record


def _whole_files(found: Inputs) -> PlainText | None:
    """Return the source if it takes whole files as documents, else None."""
    from mslm_data.source.formats.text import PlainText

    source = found.source
    return source if isinstance(source, PlainText) and source.documents == "file" else None


def _of_file(source: PlainText, path: Path, name: str) -> Document | SetAside:
    """Read a file as one document, called by its path below the input without its suffix."""
    from mslm_data.source.reading.files import stem

    doc_id = (Path(name).parent / stem(path)).as_posix()
    return _decoded(source.utf8(path, 0, -1), doc_id, f"{path.name}:1")


def _of_stdin(pipeline: Pipeline, given: Sequence[str]) -> Iterator[Document | SetAside]:
    from mslm_data.builds.stages import source_of
    from mslm_data.source.formats.text import PlainText

    source = source_of(pipeline)
    if len(given) > 1 or not isinstance(source, PlainText) or source.documents == "block":
        raise CallError(
            "--input -: expected standard input alone, with plain text, one or a line a document; "
            "write other input to a file"
        )

    stream = sys.stdin.buffer
    if source.documents == "file":
        yield _decoded(stream.read(_LARGEST + 1), _STDIN_ID, f"{_STDIN_ID}:1")
        return
    number = 0
    for line_number, line in enumerate(iter(lambda: stream.readline(_LARGEST + 1), b""), start=1):
        data = line.removesuffix(b"\n").removesuffix(b"\r")
        if data.strip():
            yield _decoded(data, f"{_STDIN_ID}:{number}", f"{_STDIN_ID}:{line_number}")
            number += 1


def _decoded(data: bytes, doc_id: str, place: str) -> Document | SetAside:
    from mslm_data.source.reading.records import NOT_UTF8

    if len(data) > _LARGEST:
        return SetAside(doc_id, place, _TOO_LARGE)
    try:
        text = data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        return SetAside(doc_id, place, NOT_UTF8)
    return Document(id=doc_id, text=text, place=place)


# Lines --------------------------------------------------------------------------------------------


def annotate(
    records: Iterable[Document | SetAside],
    tagger: Tagger,
    write: Callable[[str], None],
    *,
    batch_size: int,
    show_text: bool = False,
    done: Counter[str] | None = None,
    progress: Callable[[Told], None] = lambda _: None,
) -> Told:
    """Write a line for each document.

    Args:
        records: What `documents` gives.
        tagger: Finds the entities.
        write: Takes the lines of some documents.
        batch_size: See `Tagger.annotate`.
        show_text: Whether an entity has its characters too.
        done: Id -> documents of that id which have their line; the first of them are passed over.
        progress: Called when lines were written.
    """
    from mslm_data.data.documents import Documents

    told = Told()
    left = Counter(done or ())
    for group in _groups(_fresh(records, left, told)):
        found = tagger.mentions(Documents.of(group), batch_size=batch_size)
        lines = []
        for document, mentions in zip(group, found, strict=True):
            entities = []
            for mention in mentions:
                entity: dict[str, Any] = mention._asdict()
                if show_text:
                    entity["text"] = document.text[mention.start : mention.end]
                entities.append(entity)
            told.entities += len(entities)
            line = json.dumps({"id": document.id, "entities": entities}, ensure_ascii=False)
            lines.append(f"{plain(line)}\n")
        write("".join(lines))
        told.documents += len(group)
        progress(told)
    return told


def _fresh(
    records: Iterable[Document | SetAside], left: Counter[str], told: Told
) -> Iterator[Document]:
    """Give the documents without a line, and count the others."""
    for record in records:
        if isinstance(record, SetAside):
            told.set_aside[record.reason] += 1
            told.first = told.first or record.place
        elif left[record.id] > 0:
            left[record.id] -= 1
            told.documents += 1
            told.earlier += 1
        else:
            yield record


def _groups(given: Iterable[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    characters = 0
    for document in given:
        group.append(document)
        characters += len(document.text)
        if len(group) >= _DOCUMENTS or characters >= _CHARACTERS:
            yield group
            group = []
            characters = 0
    if group:
        yield group


def refuse_losses(told: Told, pipeline: Pipeline) -> None:
    """Refuse to call a run well that could not read more documents than the pipeline allows.

    Raises:
        SourceError: More than `source.max_loss` of them were set aside.
    """
    from mslm_data.builds.losses import advice
    from mslm_data.builds.stages import source_of

    aside = told.set_aside.total()
    every = aside + told.documents
    if aside > pipeline.max_loss * every:
        reason, _ = told.set_aside.most_common(1)[0]
        helps = advice(source_of(pipeline), reason)
        raise SourceError(
            f"input: expected at most {pipeline.max_loss:.0%} of the documents set aside "
            f"(source.max_loss), got {aside:,} of {every:,}, the first at {told.first}: {reason}; "
            f"{f'{helps}; ' if helps else ''}"
            "mend it and run the same command again, or pass --set source.max_loss=1"
        )


# The file -----------------------------------------------------------------------------------------


def record_of(digest: str, tagger: Tagger, pipeline: Pipeline, *, show_text: bool) -> bytes:
    """Return the record that stands beside a file of lines.

    Args:
        digest: Of the model's files.
        tagger: The model.
        pipeline: Reads the documents.
        show_text: Whether lines hold characters of entities.
    """
    source = {"use": pipeline.source.use, "options": dict(pipeline.source.options)}
    return canonical_json(
        {
            "labels": list(tagger.labels),
            "model": digest,
            "mslm-data": __version__,
            "show_text": show_text,
            "source": json.loads(json.dumps(source, default=str)),
        }
    )


@contextmanager
def appending(out: Path, record: bytes) -> Iterator[tuple[Callable[[str], None], Counter[str]]]:
    """Open a file of lines, new or to go on with, for its owner alone.

    A last line that is not whole is cut off. No other process can open the file so meanwhile.

    Args:
        out: The file.
        record: What `record_of` returns.

    Returns:
        A function that appends lines, and how many lines each id has already.

    Raises:
        AnnotateError: The file is of another model or other options, or not a file of lines; or
            another process writes it, or its file system refuses locks.
    """
    make_folder(out.absolute().parent)
    with _claimed(out):
        _keep_record(out, record)

        # Some file systems grant a lock twice: even then no line is written over another.
        handle = os.open(out, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "r+b") as file:
            done = _ids_in(file, out)

            def write(lines: str) -> None:
                file.write(lines.encode("utf-8"))
                file.flush()

            yield write, done
            os.fsync(file.fileno())


@contextmanager
def _claimed(out: Path) -> Iterator[None]:
    """Hold a file of lines for one process.

    Raises:
        AnnotateError: Another process holds it, or the file system refuses locks.
    """
    # A link and the file that it leads to have the same lock.
    target = out.resolve()
    lock = target.with_name(f".{target.name}.lock")
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock, error=AnnotateError, patience=0))
        except HeldError as error:
            raise AnnotateError(
                f"{out}: expected a file that no other process writes, got one that another "
                "`mslm-data annotate` is writing; wait for it, or name another --out"
                f"{error.advice}"
            ) from None
        try:
            yield
        finally:
            # The lock's file is removed while it is held: a process that has opened it by then
            # notices, and makes a new one. A file that cannot be removed does no harm.
            with suppress(OSError):
                lock.unlink()


def _keep_record(out: Path, record: bytes) -> None:
    """Write the record beside a new file of lines, or check that the file's record is the same.

    Raises:
        AnnotateError: The file is of another model or other options, or has no record.
    """
    beside = out.with_name(f"{out.name}.made.json")
    if not out.exists():
        write_whole(beside, [record])
    elif not beside.is_file() or beside.read_bytes() != record:
        raise AnnotateError(
            f"{out}: expected a new file, or one of the same model, source and options, got "
            "another; name another --out, or remove it"
        )


def _ids_in(file: IO[bytes], out: Path) -> Counter[str]:
    """Count the ids of a file's lines, and cut off what follows the last whole one."""
    ids: Counter[str] = Counter()
    end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        try:
            ids[json_once.decode(line)["id"]] += 1
        except (ValueError, KeyError, TypeError, *json_once.DECODE_ERRORS):
            raise AnnotateError(
                f"{out}: expected lines with an id and entities, got another after byte {end}; "
                "remove the file"
            ) from None
        end += len(line)
    file.seek(end)
    file.truncate()
    return ids
