"""Failures of a build at a document, with errors that contain the document's text."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from mslm_data.annotate import Annotations
from mslm_data.annotate.terms.annotator import LoadedTerms
from mslm_data.builds import row_sink
from mslm_data.data.documents import Documents
from mslm_data.encode.encoder import Encoder
from mslm_data.errors import AnnotateError
from mslm_data.source.formats.notes import Notes

MARK = "Mistelbrunner"
"""Documents with this word trigger the fault."""
Put = Callable[[Any, str, Any], None]


class Panic(BaseException):
    """An exception like the panics of Rust libraries, which is no `Exception`."""


def inject(fault: str, put: Put = setattr) -> None:
    """Install a fault with `put`."""
    FAULTS[fault](put)


def _annotator(fail: Callable[[str], object]) -> Callable[[Put], None]:
    """Fail when a document is annotated."""
    annotate = LoadedTerms.annotate

    def failing(self: LoadedTerms, documents: Documents) -> Annotations:
        for text, _ in documents.texts():
            if MARK in text:
                fail(text)
        return annotate(self, documents)

    return lambda put: put(LoadedTerms, "annotate", failing)


def _raising(kind: type[BaseException], *before: object) -> Callable[[str], NoReturn]:
    def fail(text: str) -> NoReturn:
        raise kind(*before, text)

    return fail


def _chained(text: str) -> NoReturn:
    try:
        raise ValueError(text)
    except ValueError as error:
        raise AnnotateError("model: expected a score, got none") from error


def _die(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segmenter(put: Put) -> None:
    class Failing:
        def sentences(self, documents: Documents) -> NoReturn:
            raise RuntimeError(documents.line)

    put(row_sink, "make_segmenter", lambda pipeline: Failing())


def _encoder(put: Put) -> None:
    def encode(self: Any, documents: Documents, *others: object) -> NoReturn:
        raise IndexError(documents.line)

    put(Encoder, "encode", encode)


def _reader(put: Put) -> None:
    read = Notes.read

    def failing(self: Any, part: Any) -> Iterator[Any]:
        for record in read(self, part):
            if MARK in getattr(record, "text", ""):
                raise KeyError(record.text)
            yield record

    put(Notes, "read", failing)


def _full_disk(put: Put) -> None:
    def fsync(handle: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    put(os, "fsync", fsync)


FAULTS: dict[str, Callable[[Put], None]] = {
    "annotator": _annotator(_raising(ValueError)),
    "annotator chained": _annotator(_chained),
    "annotator of the system": _annotator(_raising(OSError)),
    "annotator with a path": _annotator(
        _raising(OSError, errno.ENAMETOOLONG, "File name too long")
    ),
    "annotator out of memory": _annotator(_raising(MemoryError)),
    "annotator in Rust": _annotator(_raising(Panic)),
    "annotator that exits": _annotator(_raising(SystemExit)),
    "annotator interrupted": _annotator(_raising(KeyboardInterrupt)),
    "annotator that dies": _annotator(_die),
    "annotator that is slow": _annotator(lambda text: time.sleep(60)),
    "segmenter": _segmenter,
    "encoder": _encoder,
    "reader": _reader,
    "disk": _full_disk,
}
HERE = [name for name in FAULTS if name not in ("annotator that dies", "annotator that is slow")]
IN_WORKERS = [name for name in FAULTS if name.startswith("annotator ")]
IN_WORKERS = [
    name for name in IN_WORKERS if name not in ("annotator interrupted", "annotator that is slow")
]
"""Faults that leave a worker in different ways; each other fault raises like one of them."""
