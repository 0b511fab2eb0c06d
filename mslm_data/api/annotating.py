"""Texts in, lines of entities out: what `mslm-data annotate` does.

A line is a JSON object with a document's id and its entities; it never holds text unless that is
asked for. A file of lines grows a group of documents at a time, and a record beside it says which
model, options and input files it is of. So an interrupted run can be resumed, two models are never
mixed in one file, and no text gets what was found in another.
"""

from __future__ import annotations

import io
import json
import os
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from mslm_data._version import __version__
from mslm_data.data.document import Document, NotChosen, Part, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, CallError, PipelineError
from mslm_data.io import json_once
from mslm_data.io.files import canonical_json, make_folder, write_whole
from mslm_data.io.locks import HeldError, locked
from mslm_data.log import plain
from mslm_data.pipeline import STAGES, Pipeline

if TYPE_CHECKING:
    from mslm_data.builds.plan import Stamp
    from mslm_data.builds.stages import Inputs
    from mslm_data.source.formats.text import PlainText
    from mslm_data.torch.predict.tagger import Tagger

STDIN = "-"
_STDIN_ID = "stdin"
_PROTECTED = "about.protected"
"""The option besides those of the source that is heeded: it warns of readers of patients' text."""
_OF_BUILDS = ("leave_out", "duplicates", "duplicate_similarity", "sample", "fetch")
"""Options of `[source]` that are not the source's own, and do nothing here."""
_CHARACTERS = 256 << 10
_DOCUMENTS = 1024
"""A group of documents is full when it has so many, or so many characters."""
_BLANKS = " \t\r\n\f\v"
"""Characters of a blank line."""
_LARGEST = 64 << 20
"""Most bytes of a text that is one document."""
_TOO_LARGE = Reason(f"expected a document of at most {_LARGEST} bytes, got more")


@dataclass(slots=True)
class Told:
    """Count what became of documents.

    Attributes:
        documents: Documents with a line, those of earlier runs included.
        earlier: Documents that had their line before.
        entities: Entities of the documents of this run.
        left_out: Reason -> mentions that were found in this run and are not given.
        set_aside: Reason -> documents that could not be read.
        places: Reason -> where the first of these documents stands.
    """

    documents: int = 0
    earlier: int = 0
    entities: int = 0
    left_out: Counter[Reason] = field(default_factory=Counter)
    set_aside: Counter[Reason] = field(default_factory=Counter)
    places: dict[Reason, str] = field(default_factory=dict)


# Options ------------------------------------------------------------------------------------------


def check_sets(sets: Sequence[str]) -> None:
    """Refuse assignments of options that have no say in how documents are read.

    Args:
        sets: What `--set` was given; what is not `stage.option=value` is left to `pipeline.read`.

    Raises:
        PipelineError: One is not of the source, or only builds have it.
    """
    for text in sets:
        path = text.partition("=")[0].strip()
        stage, _, option = path.partition(".")
        is_known = stage in STAGES and option
        if not is_known or path == _PROTECTED:
            continue
        if stage != "source" or option.partition(".")[0] in _OF_BUILDS:
            raise PipelineError(
                f"--set {path}: expected an option of how documents are read, such as "
                "source.text_column, source.documents or source.max_loss, got one that only "
                "builds have; leave it out"
            )


# Documents ----------------------------------------------------------------------------------------


class InputFile(NamedTuple):
    """Name a file that documents are read from.

    Attributes:
        name: Its path below the input, or `-` for standard input.
        stamps: Size and time of change of the file and of those that are read beside it, which
            change with their bytes unless somebody sees to it.
        path: Where it lies; not part of the record.
    """

    name: str
    stamps: tuple[tuple[int, int], ...] = ()
    path: str = ""

    @property
    def key(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return what two runs compare."""
        return self.name, self.stamps

    def record(self) -> dict[str, Any]:
        """Return what the record beside the lines says of the file."""
        return {"name": self.name, "stamps": [list(stamp) for stamp in self.stamps]}


class InputTexts:
    """The texts that a run reads, file by file, with every character as it stands.

    Attributes:
        files: In the order in which they are read.
        given: Documents that were given so far.
    """

    def __init__(self, pipeline: Pipeline, found: Inputs | None) -> None:
        """Look at the files, before any is read.

        Args:
            pipeline: Its source reads them.
            found: The files, or None for standard input.
        """
        self.given = 0
        self._pipeline = pipeline
        self._found = found
        self._firsts: list[int] = []
        self._splits = {} if found is None else found.splits_of_paths()
        self._stamps = {} if found is None else _read_stamps(found)
        self.files = [InputFile(STDIN)] if found is None else _stamped(found, self._stamps)
        self._read: InputFile | None = None

    @property
    def of_stdin(self) -> bool:
        """Whether they come from standard input, which cannot be read again."""
        return self._found is None

    def continue_after(self, recorded: Sequence[InputFile], out: Path) -> None:
        """Put the files of earlier runs first, so that lines are of the first documents.

        Args:
            recorded: The files that lines are of, in the order of the lines.
            out: The file of lines, for messages.

        Raises:
            AnnotateError: A file has changed or is not among the inputs.
        """
        left: dict[Any, list[InputFile]] = {}
        for file in self.files:
            left.setdefault(file.key, []).append(file)
        names = {file.name for file in self.files}

        first = []
        for file in recorded:
            same = left.get(file.key)
            if same:
                first.append(same.pop(0))
            elif file.name in names:
                raise AnnotateError(
                    f"{out}: expected input {file.name} as it was when its lines were written, got "
                    "a file of another size or time of change; remove the file of lines and run "
                    "the same command again, or name another --out"
                )
            else:
                raise AnnotateError(
                    f"{out}: expected input {file.name}, whose lines are there, among the inputs, "
                    "got none of that name; name the inputs of all runs with --input, or another "
                    "--out"
                )
        self.files = first + [file for file in self.files if file in left[file.key]]

    def with_lines(self, lines: int) -> list[InputFile]:
        """Return the files that a number of lines are of, where no file gave more documents."""
        bounds = [*self._firsts, self.given]
        return [
            file
            for file, (first, past) in zip(self.files, pairwise(bounds), strict=False)
            if first < min(past, lines)
        ]

    def __iter__(self) -> Iterator[Document | SetAside]:
        """Read documents one by one.

        Raises:
            SourceError: An input is not of the source's format, or has changed meanwhile.
        """
        for file in self.files:
            self._read = file
            self.refuse_changed()
            self._firsts.append(self.given)
            for record in self._of(file):
                self.given += isinstance(record, Document)
                yield record
            self.refuse_changed()

    def refuse_changed(self) -> None:
        """Check that the file that is read is still the one that the record names.

        A run may take hours. Whoever writes lines calls it before, so that no line is of another
        file than the record says.

        Raises:
            SourceError: It has changed since the run began, or is gone.
        """
        if self._read is not None and self._found is not None:
            from mslm_data.builds.plan import refuse_changed

            refuse_changed(self._stamps, [self._read.path])

    def _of(self, file: InputFile) -> Iterator[Document | SetAside]:
        if self._found is None:
            yield from _of_stdin(self._pipeline)
            return

        found = self._found
        path = Path(file.path)
        whole = _whole_files(found)
        if whole is not None and whole.is_lines(path):
            yield _of_file(whole, path, file.name)
            return
        for split in self._splits[path]:
            source = found.source.of_split(split)
            for part in source.cut(Part(file.path), target_bytes=found.pipeline.shard.unit_bytes):
                for record in source.read(part):
                    if not isinstance(record, NotChosen):
                        yield record


def find_texts(pipeline: Pipeline, given: Sequence[str]) -> InputTexts:
    """Find the texts of a run.

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
        _check_only_stdin(pipeline, given)
        return InputTexts(pipeline, None)
    return InputTexts(pipeline, find_inputs(pipeline, localise(given)))


def _read_stamps(found: Inputs) -> dict[str, tuple[Stamp, ...]]:
    from mslm_data.builds.plan import stamps_of

    return stamps_of(found)


def _stamped(found: Inputs, stamps: Mapping[str, Sequence[Stamp]]) -> list[InputFile]:
    """Return the files that a source reads, each once, with their stamps."""
    names = found.names()
    paths = {
        path: name
        for split, of_split in found.files.items()
        for path, name in zip(of_split, names[split], strict=True)
    }
    return [
        InputFile(
            name=plain(name),
            stamps=tuple((stamp.size, stamp.mtime_ns) for stamp in stamps[str(path)]),
            path=str(path),
        )
        for path, name in paths.items()
    ]


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


def _check_only_stdin(pipeline: Pipeline, given: Sequence[str]) -> None:
    from mslm_data.builds.stages import source_of
    from mslm_data.source.formats.text import PlainText

    source = source_of(pipeline)
    if len(given) > 1 or not isinstance(source, PlainText) or source.documents == "block":
        raise CallError(
            "--input -: expected standard input alone, with plain text, one or a line a document; "
            "write other input to a file"
        )


def _of_stdin(pipeline: Pipeline) -> Iterator[Document | SetAside]:
    """Read standard input in the encoding that the source says, whole or line by line."""
    from mslm_data.builds.stages import source_of
    from mslm_data.source.formats.text import PlainText
    from mslm_data.source.reading.encodings import marked, to_utf8

    source = cast(PlainText, source_of(pipeline))  # as `_check_only_stdin` has seen to
    if source.documents == "line":
        yield from _read_stdin_lines(source.encoding)
        return
    data = sys.stdin.buffer.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        yield SetAside(_STDIN_ID, f"{_STDIN_ID}:1", _TOO_LARGE)
        return
    utf8 = to_utf8(data, marked(data, source.encoding))
    yield _decoded(utf8, _STDIN_ID, f"{_STDIN_ID}:1")


def _read_stdin_lines(encoding: str) -> Iterator[Document | SetAside]:
    """Read the lines of standard input as they come; blank ones are passed over."""
    from mslm_data.source.reading.encodings import DAMAGED, DAMAGED_LETTER
    from mslm_data.source.reading.records import NOT_UTF8

    stream = io.TextIOWrapper(
        sys.stdin.buffer,
        # A byte order mark stands before the first line, and is not of it.
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
        errors=DAMAGED,
        newline="\n",
    )
    try:
        number = 0
        for line_number, line in enumerate(iter(lambda: stream.readline(_LARGEST + 1), ""), 1):
            text = line.removesuffix("\n").removesuffix("\r")
            if not text.strip(_BLANKS):
                continue

            doc_id = f"{_STDIN_ID}:{number}"
            place = f"{_STDIN_ID}:{line_number}"
            number += 1
            if len(line) > _LARGEST:
                yield SetAside(doc_id, place, _TOO_LARGE)
                _pass_over_line(stream, line)
            elif DAMAGED_LETTER in text:
                yield SetAside(doc_id, place, NOT_UTF8)
            else:
                yield Document(id=doc_id, text=text, place=place)
    finally:
        stream.detach()  # or standard input would be closed


def _pass_over_line(stream: IO[str], read: str) -> None:
    """Read the rest of a line of which some has been read."""
    while read and not read.endswith("\n"):
        read = stream.readline(_LARGEST)


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
    done: Sequence[str] = (),
    progress: Callable[[Told], None] = lambda _: None,
) -> Told:
    """Write a line for each document; as in a build, no entity touches a placeholder.

    Args:
        records: The documents of `InputTexts`, and those that cannot be read.
        tagger: Finds the entities.
        write: Takes the lines of some documents.
        batch_size: See `Tagger.annotate`.
        show_text: Whether an entity has its characters too.
        done: Ids of the documents that have their line, which are the first.
        progress: Called when lines were written.

    Raises:
        AnnotateError: The first documents are others than those that have their line.
    """
    from mslm_data.annotate.one_by_one import chosen
    from mslm_data.data.documents import Documents

    told = Told()
    for group in _groups(_documents(records, done, told)):
        # Of a group that a killed run has begun, all texts are read again: the last digit of a
        # score can depend on the texts beside it.
        fresh = [document for document, has_line in group if not has_line]
        if not fresh:
            continue
        documents = Documents.of([document for document, _ in group])
        found = tagger.mentions(documents, batch_size=batch_size)
        lines = []
        for document, mentions in zip(fresh, found[-len(fresh) :], strict=True):
            spans = [Span(start, end, label, score=score) for start, end, label, score in mentions]
            kept, left_out = chosen(spans, document.placeholders, min_score=0)
            entities = []
            for span in kept:
                entity: dict[str, Any] = {
                    "start": span.start,
                    "end": span.end,
                    "label": span.label,
                    "score": span.score,
                }
                if show_text:
                    entity["text"] = document.text[span.start : span.end]
                entities.append(entity)
            told.left_out.update(left_out)
            told.entities += len(entities)
            line = json.dumps({"id": _id_of(document), "entities": entities}, ensure_ascii=False)
            lines.append(f"{plain(line)}\n")
        write("".join(lines))
        told.documents += len(fresh)
        progress(told)
    return told


def _documents(
    records: Iterable[Document | SetAside], done: Sequence[str], told: Told
) -> Iterator[tuple[Document, bool]]:
    """Give the documents, each with whether it has a line, and count those and what else comes."""
    for record in records:
        if isinstance(record, SetAside):
            told.set_aside[record.reason] += 1
            told.places.setdefault(record.reason, record.place)
        elif told.earlier < len(done):
            if _id_of(record) != done[told.earlier]:
                raise AnnotateError(
                    f"input: expected document '{done[told.earlier]}', which has line "
                    f"{told.earlier + 1} of --out, got '{_id_of(record)}'; remove the file of "
                    "lines and run the same command again, or name another --out"
                )
            told.documents += 1
            told.earlier += 1
            yield record, True
        else:
            yield record, False
    if told.earlier < len(done):
        raise AnnotateError(
            f"input: expected the {len(done):,} documents that have a line of --out, got "
            f"{told.earlier:,}; remove the file of lines and run the same command again, or name "
            "another --out"
        )


def _id_of(document: Document) -> str:
    """Return a document's id as lines have it.

    Of a file whose name is not text, what is not becomes an escape: JSON holds nothing else.
    """
    return document.id.encode("utf-8", "backslashreplace").decode()


def _groups(given: Iterable[tuple[Document, bool]]) -> Iterator[list[tuple[Document, bool]]]:
    """Put documents together, the same ones in every run, wherever the run before was ended."""
    group: list[tuple[Document, bool]] = []
    characters = 0
    for document, has_line in given:
        group.append((document, has_line))
        characters += len(document.text)
        if len(group) >= _DOCUMENTS or characters >= _CHARACTERS:
            yield group
            group = []
            characters = 0
    if group:
        yield group


def check_losses(told: Told, pipeline: Pipeline) -> None:
    """Check that no more documents could not be read than the pipeline allows.

    Raises:
        BuildError: As from `data_loss.check_share`.
    """
    from mslm_data.builds.data_loss import CommandWords, check_share

    check_share(
        told.set_aside,
        told.set_aside.total() + told.documents,
        "documents set aside",
        pipeline,
        "input",
        first=told.places,
        words=CommandWords(again="run the same command again, with another --out if one was named"),
    )


# The file -----------------------------------------------------------------------------------------


def record_of(
    digest: str, tagger: Tagger, pipeline: Pipeline, *, show_text: bool
) -> dict[str, Any]:
    """Return what the record beside a file of lines says, but for the input files.

    Args:
        digest: Of the model's files.
        tagger: The model.
        pipeline: Reads the documents.
        show_text: Whether lines hold characters of entities.
    """
    source = {"use": pipeline.source.use, "options": dict(pipeline.source.options)}
    return {
        "labels": list(tagger.labels),
        "model": digest,
        "mslm-data": __version__,
        "show_text": show_text,
        "source": json.loads(json.dumps(source, default=str)),
    }


@contextmanager
def appending(
    out: Path, made: Mapping[str, Any], texts: InputTexts
) -> Iterator[tuple[Callable[[str], None], Sequence[str]]]:
    """Open a file of lines, new or to go on with, for its owner alone.

    A last line that is not whole is cut off. No other process can open the file so meanwhile. The
    texts that have their line come first in `texts` from here on.

    Args:
        out: The file.
        made: What `record_of` returns.
        texts: What will be read, and has not been.

    Returns:
        A function that appends lines, and the ids of the lines that are there.

    Raises:
        AnnotateError: The file is of another model or other options, or an input that it has lines
            of is another now; or it is not a file of lines; or another process writes it, or its
            file system refuses locks.
        SourceError: Of the function: the input that is read has changed meanwhile.
    """
    make_folder(out.absolute().parent)
    with _claimed(out):
        recorded = _recorded(out, made) if out.exists() else []
        if not out.exists():
            _keep_record(out, made, texts.files)

        # Some file systems grant a lock twice: even then no line is written over another.
        handle = os.open(out, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "r+b") as file:
            done = _ids_in(file, out)
            if done:
                _continue(out, recorded, texts)
            _keep_record(out, made, texts.files)
            lines = len(done)

            def write(more: str) -> None:
                nonlocal lines
                texts.refuse_changed()
                lines += more.count("\n")
                file.write(more.encode("utf-8"))
                file.flush()

            try:
                yield write, done
                os.fsync(file.fileno())
            finally:
                # A file that no line is of may be mended, so the record need not name it. Where not
                # all documents with a line were seen, nobody knows which files these are.
                if texts.given >= lines:
                    with suppress(OSError):
                        _keep_record(out, made, texts.with_lines(lines))


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


def _record_beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.made.json")


def _keep_record(out: Path, made: Mapping[str, Any], files: Sequence[InputFile]) -> None:
    """Write the record beside a file of lines, unless it says the same."""
    record = canonical_json({**made, "inputs": [file.record() for file in files]})
    beside = _record_beside(out)
    if not beside.is_file() or beside.read_bytes() != record:
        write_whole(beside, [record])


def _recorded(out: Path, made: Mapping[str, Any]) -> list[InputFile]:
    """Return the input files that the record beside a file of lines names.

    Raises:
        AnnotateError: The file is of another model or other options, or has no such record.
    """
    try:
        record = json_once.decode(_record_beside(out).read_bytes())
        inputs = record.pop("inputs")
        files = [
            InputFile(file["name"], tuple((size, time) for size, time in file["stamps"]))
            for file in inputs
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, *json_once.DECODE_ERRORS):
        record = None
    if record != made:
        raise AnnotateError(
            f"{out}: expected a new file, or one of the same model, source and options, got "
            "another; name another --out, or remove it"
        )
    return files


def _continue(out: Path, recorded: Sequence[InputFile], texts: InputTexts) -> None:
    """Put the texts first that have lines.

    Raises:
        AnnotateError: They are others now, or come from standard input.
    """
    if texts.of_stdin or STDIN in [file.name for file in recorded]:
        raise AnnotateError(
            f"{out}: expected a new file, as texts of standard input cannot be compared with those "
            "of an earlier run, got one with lines; name another --out, or remove it"
        )
    texts.continue_after(recorded, out)


def _ids_in(file: IO[bytes], out: Path) -> list[str]:
    """Return the ids of a file's lines, and cut off what follows the last whole one."""
    ids: list[str] = []
    end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        try:
            ids.append(json_once.decode(line)["id"])
        except (ValueError, KeyError, TypeError, *json_once.DECODE_ERRORS):
            raise AnnotateError(
                f"{out}: expected lines with an id and entities, got another after byte {end}; "
                "remove the file"
            ) from None
        end += len(line)
    file.seek(end)
    file.truncate()
    return ids
