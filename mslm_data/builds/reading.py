"""From a work unit's input to documents with flat mentions of the wanted labels, and an account of all others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mslm_data.annotate import ANNOTATORS, Annotated, Annotator, LoadedAnnotator
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.plan import source_of
from mslm_data.builds.trail import Trail
from mslm_data.data.document import Document, NotChosen, Part, SetAside, WorkUnit
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.pipeline import Annotate, Pipeline

_DOCUMENTS_AT_ONCE = 4096
_CHARACTERS_AT_ONCE = 8 << 20
_REMEMBERED = 1 << 12
OURS = (MslmDataError, MemoryError, OSError)
"""Exceptions that no document is to blame for."""
_REPEATED = "expected an id that no document before it has"


class Reading:
    """Reads and annotates one unit, and counts.

    Attributes:
        weak: Whether mentions have concepts and confidences for the shards.
        read: Documents of the corpus that was asked for.
        not_chosen: Reason -> records that are no part of it.
        given: Mentions that the annotator found, with those it left out.
        left_out: Reason -> mentions that documents do not have.
        adjusted: Reason -> mentions not just as the source has them.
        set_aside: Documents that cannot be used.
    """

    def __init__(
        self, pipeline: Pipeline, labels: Sequence[str], *, repeated: frozenset[str], trail: Trail
    ) -> None:
        """Say how; `repeated` are ids that documents of units before have."""
        self._pipeline, self._labels, self._repeated, self._trail = (
            pipeline,
            labels,
            repeated,
            trail,
        )
        self._annotator = started(pipeline.annotate)
        self.weak = self._annotator.weak
        self.read = self.given = self._begun = 0
        self.not_chosen, self.left_out, self.adjusted = (
            Counter[str](),
            Counter[str](),
            Counter[str](),
        )
        self.set_aside: list[SetAside] = []

    def batches(self, unit: WorkUnit) -> Iterator[list[Document]]:
        """Give the unit's documents in lists that are worth one call and fit in memory; one by one on a trail."""
        batch: list[Document] = []
        characters = 0
        for document in self._usable(unit):
            batch.append(document)
            characters += len(document.text)
            if (
                self._trail.careful
                or len(batch) >= _DOCUMENTS_AT_ONCE
                or characters >= _CHARACTERS_AT_ONCE
            ):
                yield self._annotated(batch)
                batch, characters = [], 0
        if batch:
            yield self._annotated(batch)

    def _usable(self, unit: WorkUnit) -> Iterator[Document]:
        source = source_of(self._pipeline).of_split(unit.split)
        seen: dict[str, str] = {}
        for part in unit.parts:
            for record in source.read(part):
                if isinstance(record, NotChosen):
                    self.not_chosen[record.reason] += 1
                    continue
                self.read += 1
                if isinstance(record, SetAside):
                    self.set_aside.append(record)
                elif _repeats(record, part, seen) or record.id in self._repeated:
                    self.set_aside.append(SetAside(record.id, record.place, _REPEATED))
                else:
                    yield record

    def _annotated(self, documents: Sequence[Document]) -> list[Document]:
        """Give documents their mentions: found, renamed, chosen by label, flat."""
        annotate = self._pipeline.annotate
        made = []
        for document, found in self._found(documents):
            wanted, unwanted = relabel(found.spans, rename=annotate.rename, labels=self._labels)
            flat, overlapping = flatten(wanted)
            for reasons in (found.left_out, unwanted, overlapping):
                self.left_out.update(reasons)
            self.adjusted.update(document.adjusted)
            self.given += len(found.spans) + sum(found.left_out.values())
            made.append(document.with_spans(flat))
        return made

    def _found(self, documents: Sequence[Document]) -> Iterator[tuple[Document, Annotated]]:
        """Annotate documents at once or, where one of them makes that fail, one by one."""
        number = self._begun
        self._begun += len(documents)
        if self._trail.careful:
            self._trail.at(number)
        if number in self._trail.fatal:
            self.refuse(documents[0], "a process that died of it each time")
            return
        try:
            found = self._annotator.annotate(documents)
        except OURS:
            raise
        except Exception:  # noqa: BLE001 - it is met again below, and counted
            yield from self._found_alone(documents)
        else:
            yield from zip(documents, found, strict=True)

    def _found_alone(self, documents: Sequence[Document]) -> Iterator[tuple[Document, Annotated]]:
        for document in documents:
            try:
                found = self._annotator.annotate([document])[0]
            except OURS:
                raise
            except Exception as error:  # noqa: BLE001 - a model may raise anything, and its message may hold text
                self.refuse(document, f"{type(error).__name__} from the annotator")
            else:
                yield document, found

    def refuse(self, document: Document, got: str) -> None:
        """Set a document aside that a model cannot take."""
        reason = f"expected text that the models of the pipeline can take, got {got}"
        self.set_aside.append(SetAside(document.id, document.place, reason))


def _repeats(document: Document, part: Part, seen: dict[str, str]) -> bool:
    """Say whether a document of the same file had its id before, and remember it.

    Raises:
        BuildError: A document of another file had it: setting the second file aside whole would be no small loss.
    """
    first = seen.get(document.id)
    seen[document.id] = part.path
    if first not in (None, part.path):
        raise BuildError(
            f"{document.place}: expected ids that no two files share, got document {document.id} in "
            f"{Path(str(first)).name} too; rename a file, or build them apart"
        )
    return first is not None


class Remembering:
    """An annotator in memory that annotates equal documents once: notes are copied forward more often than not."""

    def __init__(self, annotator: Annotator) -> None:
        """Load the model."""
        self.weak = annotator.weak
        self._running: LoadedAnnotator = annotator.start()
        self._known: OrderedDict[bytes, Annotated] = OrderedDict()

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents; only running text is remembered, as gold mentions are each document's own."""
        if not self.weak:
            return self._running.annotate(documents)
        keys = [_key(document) for document in documents]
        new = {
            key: document
            for key, document in zip(keys, documents, strict=True)
            if key not in self._known
        }
        found = {key: self._known[key] for key in keys if key in self._known}
        found |= zip(new, self._running.annotate(list(new.values())), strict=True)
        self._known.update(found)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return [found[key] for key in keys]


def _key(document: Document) -> bytes:
    """Return a digest of all that an annotator may look at."""
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(repr((document.placeholders, document.sentences)).encode())
    return digest.digest()


_STARTED: dict[str, Remembering] = {}


def started(annotate: Annotate) -> Remembering:
    """Return the annotator with its model, which a process loads once."""
    key = json.dumps([annotate.use, annotate.options], sort_keys=True, default=str)
    if key not in _STARTED:
        _STARTED.clear()
        _STARTED[key] = Remembering(ANNOTATORS.make(annotate.use, annotate.options))
    return _STARTED[key]
