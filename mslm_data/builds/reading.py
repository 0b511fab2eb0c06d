"""Reads and annotates the documents of a work unit, and counts what is left out."""

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
from mslm_data.builds.data_loss import Outcome
from mslm_data.builds.duplicates import Copies
from mslm_data.builds.stages import attempts, load_annotator, make_source, no_text_for_models
from mslm_data.builds.tasks import WorkUnit
from mslm_data.data.counts import Counts, in_aside
from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.documents import Documents, Ranges, count_by_reason, split_documents
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.pipeline import Pipeline
from mslm_data.source.reading.records import NAME_THE_ID

T = TypeVar("T")

Record: TypeAlias = tuple[Part, Documents | SetAside | NotChosen]
"""A batch of documents, or a record that is set aside or not chosen, with its part of a file."""

DUPLICATE_ID = Reason(
    "expected an id that no document before it has",
    advice=NAME_THE_ID
    | {"ids": "{set} source.ids=line if they are different documents of one PMID"},
)
"""Reason for a document with the id of an earlier document of the same split and file."""


def read_records(unit: WorkUnit, pipeline: Pipeline) -> Iterator[Record]:
    """Yield the records of a work unit, each with its part of a file."""
    source = make_source(pipeline).for_split(unit.split)
    for part in unit.parts:
        for record in source.batches(part):
            yield part, record


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items, but make the first one in a thread, starting now."""
    first = SimpleQueue[list[T] | BaseException]()

    def make() -> None:
        try:
            first.put([*itertools.islice(items, 1)])
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            first.put(error)

    def resume() -> Iterator[T]:
        item = first.get()
        if isinstance(item, BaseException):
            raise item
        yield from item
        yield from items

    threading.Thread(target=make, daemon=True).start()
    return resume()


class Reading:
    """Reads one work unit, and keeps the counts for its receipt.

    Attributes:
        read: Number of documents read.
        not_chosen: Reason -> number of records outside the corpus.
        given: Number of mentions from the annotator, including those it left out.
        left_out: Reason -> number of mentions left out.
        found_by: Number of mentions per label and set of agreeing annotators.
        adjusted: Reason -> number of mentions that differ from the source.
        labels: Labels of mentions before overlaps were resolved, as keys.
        unwanted: Labels of mentions left out because of their label, as keys.
        set_aside: Unusable documents.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        duplicate_ids: frozenset[str] | None,
        copies: Copies | None = None,
        crash_log: CrashLog | None = None,
    ) -> None:
        """Load the annotator.

        Args:
            pipeline: Options of the source and the annotator.
            duplicate_ids: Ids of earlier units, whose documents are set aside. None allows
                documents to share an id.
            copies: The copies among the unit's documents. Default: None, copies are kept.
            crash_log: The unit's crashes. Default: None, without an unfinished folder.
        """
        self._pipeline = pipeline
        self._are_unique = duplicate_ids is not None
        self._duplicate_ids = duplicate_ids or frozenset[str]()
        self._copies = copies
        # None unless documents are annotated one by one and logged.
        self._crash_log = crash_log if crash_log is not None and crash_log.careful else None
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

    @property
    def duplicates(self) -> Counter[str]:
        """`exact` and `near` -> number of copies that are kept, with `duplicates = "count"`."""
        return Counter() if self._copies is None else self._copies.count(self.set_aside)

    def batches(self, records: Iterable[Record]) -> Iterator[Documents]:
        """Yield the unit's documents in batches, with flat mentions of the wanted labels.

        A batch is large enough for one call of the model, and fits in memory. After a crash in the
        unit, it is a single document.

        Args:
            records: Records of the unit, from `read_records`.
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
        """Call a model as `stages.attempts` does. Set aside the documents on which it fails.

        Args:
            documents: The documents.
            call: Calls the model.
            who: Name of the model in reasons.
            are_annotated: Whether `given` includes their mentions. If so, the mentions of a
                document that is set aside are counted as left out. Default: True.
        """

        def refuse(document: Documents, reason: Reason) -> None:
            self._refuse(document, reason, are_counted=are_annotated)
            if are_annotated:
                self.left_out[in_aside(reason)] += len(document.mentions)

        return attempts(documents, call, who, refuse)

    def outcome(self) -> Outcome:
        """Return what the unit came to so far, without labels of documents."""
        counts = Counts(
            read=self.read,
            written=self.read - len(self.set_aside),
            not_chosen=dict(self.not_chosen),
            given_mentions=self.given,
            adjusted=dict(self.adjusted),
            copies=dict(self.duplicates),
        )
        for document in self.set_aside:
            counts.put_aside(document)
        for reason, mentions in self.left_out.items():
            counts.leave_out(reason, mentions)
        return Outcome(
            counts=counts,
            set_aside=self.set_aside,
            labels=[*self.labels],
            unwanted=sorted(self.unwanted),
            doc_labels=[],
        )

    def in_context(self, documents: Documents, sentences: Ranges) -> Documents:
        """Find the context of each mention, and leave out mentions by `annotate.leave_out_context`.

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
        """Set aside documents on which a model fails.

        Args:
            documents: The documents.
            reason: The reason.
            are_counted: Whether `given` includes their mentions. Default: False.
        """
        mentions = np.diff(documents.mentions.offsets).tolist()
        for doc_id, place, number in zip(documents.ids, documents.places, mentions, strict=True):
            if are_counted:
                self.set_aside.append(SetAside(doc_id, place, reason, 0))
            else:
                self._put_aside(SetAside(doc_id, place, reason, number))

    def _put_aside(self, document: SetAside) -> None:
        """Set aside a document that is not annotated."""
        use = self._pipeline.annotate.use
        if use == "none":
            document = document._replace(mentions=0)
        elif use != "gold":
            # The mentions of the source are no matter, and an annotator's are unknown.
            document = document._replace(mentions=-1)
        self.set_aside.append(document)

    def _usable(self, records: Iterable[Record]) -> Iterator[tuple[int, Documents]]:
        """Yield the documents of records, without copies and duplicate ids.

        The number in front is the position of a batch's first document in the unit. It must not
        depend on the duplicate ids, because the crash log of an earlier attempt refers to it.
        """
        path_by_id: dict[str, str] = {}
        for part, record in records:
            if isinstance(record, NotChosen):
                self.not_chosen[record.reason] += 1
            elif isinstance(record, SetAside):
                self.read += 1
                self._put_aside(record)
            else:
                pieces = [record] if self._crash_log is None else split_documents(record)
                for piece in pieces:
                    number = self.read
                    self.read += len(piece)
                    documents = piece
                    if self._copies is not None:
                        documents, copies = self._copies.choose(piece)
                        for copy in copies:
                            self._put_aside(copy)
                    if self._are_unique:
                        documents = self._first_of_each_id(documents, part, path_by_id)
                    yield number, documents

    def _first_of_each_id(
        self, documents: Documents, part: Part, path_by_id: dict[str, str]
    ) -> Documents:
        """Set aside documents with the id of an earlier document.

        Args:
            documents: The documents.
            part: Their part of a file.
            path_by_id: Id -> path of the file that had it last; updated.
        """
        # Fast path: all ids are new. `isdisjoint` of two key views iterates over the shorter one;
        # of a view and a dict, it would iterate over the dict.
        ids = dict.fromkeys(documents.ids, part.path)
        is_new = ids.keys().isdisjoint(path_by_id.keys()) and ids.keys().isdisjoint(
            self._duplicate_ids
        )
        if is_new and len(ids) == len(documents):
            path_by_id.update(ids)
            return documents

        kept = []
        mentions = np.diff(documents.mentions.offsets).tolist()
        for number, doc_id in enumerate(documents.ids):
            if _is_duplicate(doc_id, part, path_by_id) or doc_id in self._duplicate_ids:
                place = documents.places[number]
                self._put_aside(SetAside(doc_id, place, DUPLICATE_ID, mentions[number]))
            else:
                kept.append(number)
        return documents.take(np.array(kept, np.int64))

    def _annotated(self, number: int, documents: Documents) -> Iterator[Documents]:
        """Yield documents with mentions: found, renamed, chosen by label, and flat.

        Args:
            number: Position of the first document in the unit.
            documents: The documents.
        """
        # Log before annotating: if the process dies, the log names this document.
        if self._crash_log is not None:
            self._crash_log.at(number)
            if number in self._crash_log.fatal:
                died = no_text_for_models("a process that died each time")
                self._refuse(documents, died)
                return

        annotate = self._pipeline.annotate
        annotations = self.attempts(
            documents, self._annotator.annotate, "annotator", are_annotated=False
        )
        for batch, annotation in annotations:
            # Count what the annotator found and left out, before choosing labels.
            left_out = count_by_reason(annotation.left_out)
            self.given += len(annotation.mentions) + left_out.total()
            for (label, by), mentions in annotation.found_by.items():
                renamed = annotate.rename.get(label, label)
                if not annotate.labels or renamed in annotate.labels:
                    self.found_by[FoundBy(renamed, by)] += mentions
            self.adjusted.update(count_by_reason(batch.adjusted))

            # Rename labels, choose the wanted ones, and resolve overlaps among these.
            wanted, unwanted = relabel(
                annotation.mentions, rename=annotate.rename, labels=annotate.labels
            )
            self.labels |= dict.fromkeys(wanted.used_labels())
            if unwanted:
                present = {
                    annotate.rename.get(label, label) for label in annotation.mentions.used_labels()
                }
                self.unwanted |= dict.fromkeys(present.difference(annotate.labels))

            flat, overlapping = flatten(wanted)
            for reasons in (left_out, unwanted, overlapping):
                self.left_out.update(reasons)
            yield batch.with_mentions(flat)


def _is_duplicate(doc_id: str, part: Part, path_by_id: dict[str, str]) -> bool:
    """Return whether an earlier document of the file has the same id, and record the id.

    Args:
        doc_id: Id of a document.
        part: Its part of a file.
        path_by_id: Id -> path of the file that had it last; updated.

    Raises:
        BuildError: A document of another file has the id.
    """
    before = path_by_id.get(doc_id)
    path_by_id[doc_id] = part.path
    if before not in (None, part.path):
        raise shared_id(doc_id, str(before), part.path)
    return before is not None


def shared_id(doc_id: str, before: str, path: str) -> BuildError:
    """Return the error for documents of two files with the same id.

    Within a file, duplicates are set aside. Between files this could silently lose a whole file.
    """
    return BuildError(
        f"{path}: document id {doc_id} is also in {before}; rename a file if its name is part of "
        "the id, or build the files separately"
    )
