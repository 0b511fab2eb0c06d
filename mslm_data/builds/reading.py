"""Reads and annotates the documents of a work unit, and counts those that go elsewhere."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import numpy as np

from mslm_data.annotate import FoundBy
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.duplicates import Copies
from mslm_data.builds.stages import attempts, load_annotator, make_source, no_text_for_models
from mslm_data.builds.tasks import WorkUnit
from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.documents import Documents, Ranges, count_by_reason, split_documents
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.pipeline import Pipeline
from mslm_data.source.reading.records import NAME_THE_ID

T = TypeVar("T")

Record: TypeAlias = tuple[Part, Documents | SetAside | NotChosen]
"""Documents in columns, or a record that cannot or must not be one, with its part of a file."""

DUPLICATE_ID = Reason(
    "expected an id that no document before it has",
    advice=NAME_THE_ID
    | {"ids": "{set} source.ids=line if they are different documents of one PMID"},
)
"""Reason for a document whose id another has, of the same split and file."""


def read_records(unit: WorkUnit, pipeline: Pipeline) -> Iterator[Record]:
    """Give the records of a work unit's parts, each with its part."""
    source = make_source(pipeline).for_split(unit.split)
    for part in unit.parts:
        for record in source.batches(part):
            yield part, record


def begun(items: Iterator[T]) -> Iterator[T]:
    """Give the same items, the first of which is made meanwhile, in a thread of its own."""
    first = SimpleQueue[list[T] | BaseException]()

    def make() -> None:
        try:
            first.put([*itertools.islice(items, 1)])
        except BaseException as error:  # noqa: BLE001 - it is raised where the item is asked for
            first.put(error)

    def made() -> Iterator[T]:
        found = first.get()
        if isinstance(found, BaseException):
            raise found
        yield from found
        yield from items

    threading.Thread(target=make, daemon=True).start()
    return made()


class Reading:
    """The reading of one work unit.

    Attributes:
        read: Documents of the corpus that was asked for.
        not_chosen: Reason -> records that are not part of it.
        given: Mentions that the annotator found, with those that it left out.
        left_out: Reason -> mentions that documents do not have.
        found_by: Number of mentions, of wanted labels, that the same ones of several annotators
            found.
        adjusted: Reason -> mentions not just as the source has them.
        labels: Labels of mentions, as keys, before overlaps were resolved.
        unwanted: Labels of mentions that were left out because of them, as keys.
        set_aside: Documents that cannot be used.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        duplicate_ids: frozenset[str] | None,
        copies: Copies,
        crash_log: CrashLog,
    ) -> None:
        """Load the annotator.

        Args:
            pipeline: Says how documents are read and annotated.
            duplicate_ids: Ids that occur in earlier units. None: documents may share an id.
            copies: Its documents that are copies of others.
            crash_log: The crashes at this unit.
        """
        self._pipeline = pipeline
        self._are_unique = duplicate_ids is not None
        self._duplicate_ids = duplicate_ids or frozenset[str]()
        self._crash_log = crash_log
        self.copies = copies
        self._annotator = load_annotator(pipeline.annotate)

        self.read = 0
        self.given = 0
        self.not_chosen = Counter[str]()
        self.left_out = Counter[Reason]()
        self.found_by = Counter[FoundBy]()
        self.adjusted = Counter[str]()
        self.labels = dict[str, None]()
        self.unwanted = dict[str, None]()
        self.set_aside: list[SetAside] = []

    def batches(self, records: Iterable[Record]) -> Iterator[Documents]:
        """Give the unit's documents with flat mentions of the wanted labels, some at a time.

        A batch is large enough for one call of the model and fits in memory. After a crash at the
        unit it is one document.

        Args:
            records: Those of the unit, from `read_records`.
        """
        for number, documents in self._usable(records):
            yield from self._annotated(number, documents)

    def attempts(
        self,
        documents: Documents,
        call: Callable[[Documents], T],
        who: str,
        *,
        are_annotated: bool = True,
    ) -> Iterator[tuple[Documents, T]]:
        """Give what a model says of documents at once or, if one of them makes it fail, of each.

        Args:
            documents: Those on which it fails alone are set aside.
            call: Asks the model.
            who: The model, as reasons name it.
            are_annotated: Whether their mentions are among `given`. Those of a document that is set
                aside are then counted as left out.
        """

        def refuse(document: Documents, reason: Reason) -> None:
            self._refuse(document, reason, are_counted=are_annotated)
            if are_annotated:
                self.left_out[reason] += len(document.mentions)

        return attempts(documents, call, who, refuse)

    def in_context(self, documents: Documents, sentences: Ranges) -> Documents:
        """Give mentions their context, and leave out those whose context is not wanted.

        Args:
            documents: Documents with flat mentions.
            sentences: Their sentences.
        """
        annotate = self._pipeline.annotate
        if not annotate.context and not annotate.leave_out_context:
            return documents

        from mslm_data.annotate.context import contexts, without  # most builds do not need it

        mentions = replace(documents.mentions, contexts=contexts(documents, sentences))
        kept, left_out = without(mentions, annotate.leave_out_context)
        self.left_out.update(left_out)
        return documents.with_mentions(kept)

    def _refuse(self, documents: Documents, reason: Reason, *, are_counted: bool = False) -> None:
        """Set documents aside that a model cannot take.

        Args:
            documents: The documents.
            reason: Says why.
            are_counted: Whether their mentions are among `given`.
        """
        mentions = np.diff(documents.mentions.offsets) * (not are_counted)
        self.set_aside += map(
            SetAside, documents.ids, documents.places, itertools.repeat(reason), mentions.tolist()
        )

    def _usable(self, records: Iterable[Record]) -> Iterator[tuple[int, Documents]]:
        """Give the documents among records that are not copies and whose id is new.

        The number before them is that of the first document they were chosen from, in the order in
        which the unit is read. It stays the same if the unit is done again with more duplicate ids,
        as the crash log needs.
        """
        path_of: dict[str, str] = {}
        for part, record in records:
            if isinstance(record, NotChosen):
                self.not_chosen[record.reason] += 1
            elif isinstance(record, SetAside):
                self.read += 1
                self.set_aside.append(record)
            else:
                pieces = split_documents(record) if self._crash_log.careful else [record]
                for piece in pieces:
                    number = self.read
                    self.read += len(piece)
                    documents, copies = self.copies.choose(piece)
                    self.set_aside += copies
                    if self._are_unique:
                        documents = self._first_of_each_id(documents, part, path_of)
                    yield number, documents

    def _first_of_each_id(
        self, documents: Documents, part: Part, path_of: dict[str, str]
    ) -> Documents:
        """Set aside the documents whose id came before.

        Args:
            documents: Documents.
            part: The piece of a file that they stand in.
            path_of: Id -> path of the file that had it last; changed.
        """
        # Nearly always every id is new, which two sets say at once. Of two views of keys the
        # shorter is gone through; of a view and a dict it would be the dict.
        ids = dict.fromkeys(documents.ids, part.path)
        is_new = ids.keys().isdisjoint(path_of.keys()) and ids.keys().isdisjoint(
            self._duplicate_ids
        )
        if is_new and len(ids) == len(documents):
            path_of.update(ids)
            return documents

        kept = []
        mentions = np.diff(documents.mentions.offsets).tolist()
        for number, doc_id in enumerate(documents.ids):
            if _is_duplicate(doc_id, part, path_of) or doc_id in self._duplicate_ids:
                place = documents.places[number]
                self.set_aside.append(SetAside(doc_id, place, DUPLICATE_ID, mentions[number]))
            else:
                kept.append(number)
        return documents.take(np.array(kept, np.int64))

    def _annotated(self, number: int, documents: Documents) -> Iterator[Documents]:
        """Give documents their mentions: found, renamed, chosen by label, flat.

        Args:
            number: The number of the first document in the crash log.
            documents: Documents.
        """
        if self._crash_log.careful:
            self._crash_log.at(number)
        if number in self._crash_log.fatal:
            died = no_text_for_models("a process that died of it each time")
            self._refuse(documents, died)
            return

        annotate = self._pipeline.annotate
        answers = self.attempts(
            documents, self._annotator.annotate, "annotator", are_annotated=False
        )
        for some, found in answers:
            left_out = count_by_reason(found.left_out)
            self.given += len(found.mentions) + left_out.total()
            for (label, by), mentions in found.found_by.items():
                ours = annotate.rename.get(label, label)
                if not annotate.labels or ours in annotate.labels:
                    self.found_by[FoundBy(ours, by)] += mentions
            self.adjusted.update(count_by_reason(some.adjusted))

            wanted, unwanted = relabel(
                found.mentions, rename=annotate.rename, labels=annotate.labels
            )
            self.labels |= dict.fromkeys(wanted.labels_found())
            if unwanted:
                there = {
                    annotate.rename.get(label, label) for label in found.mentions.labels_found()
                }
                self.unwanted |= dict.fromkeys(there.difference(annotate.labels))
            flat, overlapping = flatten(wanted)
            for reasons in (left_out, unwanted, overlapping):
                self.left_out.update(reasons)
            yield some.with_mentions(flat)


def _is_duplicate(doc_id: str, part: Part, path_of: dict[str, str]) -> bool:
    """Return whether an earlier document of the file has the same id, and record the id.

    Args:
        doc_id: The id of a document.
        part: The piece of a file that it stands in.
        path_of: Id -> path of the file that had it last; changed.

    Raises:
        BuildError: A document of another file had it.
    """
    before = path_of.get(doc_id)
    path_of[doc_id] = part.path
    if before not in (None, part.path):
        raise shared_id(doc_id, str(before), part.path)
    return before is not None


def shared_id(doc_id: str, before: str, path: str) -> BuildError:
    """Return the error for an id that documents of two files have.

    Setting them aside, as within a file, could silently lose the second file as a whole.
    """
    return BuildError(
        f"{path}: document id {doc_id} is also in {before}; rename a file if its name is part of "
        "the id, or build the files separately"
    )
