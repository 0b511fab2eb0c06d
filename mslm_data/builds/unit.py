"""Builds a work unit: reads its documents, annotates them, and gives them to a sink.

A sink makes rows (`row_sink`) or lines of entities (`line_sink`). What does not reach it is counted
in an `Account`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.annotate import FoundBy
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import UNWANTED, relabel
from mslm_data.builds.copies import COPIES, KINDS, UnitHashes, count_texts
from mslm_data.builds.data_loss import Outcome
from mslm_data.builds.folder import Receipt, Unfinished
from mslm_data.builds.scan import changed_error, check_unchanged
from mslm_data.builds.stages import attempts, load_annotator, make_source, no_text_for_models
from mslm_data.builds.tasks import BuildUnit, ReadUnit, Unit
from mslm_data.data.accounts import Counts, in_aside
from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.documents import (
    Documents,
    Ints,
    Mentions,
    Ranges,
    count_by_reason,
    in_batches,
    split_documents,
)
from mslm_data.data.reason import Reason
from mslm_data.engine import note
from mslm_data.errors import SourceError
from mslm_data.pipeline import AnnotateOptions, Pipeline
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.write import ShardRecord
from mslm_data.source.reading.files import stem

Record: TypeAlias = Document | Documents | SetAside | NotChosen

DIED = no_text_for_models("a process that died")
"""Reason for a document at which a process has died."""


OUTSIDE = Reason("expected a mention within the text of its document, got another range")
"""Reason for a mention that a source or an annotator of somebody else gives."""


class Sink(Protocol):
    """Takes the annotated documents of a work unit."""

    def add(self, documents: Documents, account: Account) -> None:
        """Write documents with flat mentions. What is lost is counted in the account."""
        ...

    def close(self, account: Account) -> ShardRecord:
        """Finish the piece, and return its record."""
        ...


def build_unit(
    task: BuildUnit, reader: Reader, pipeline: Pipeline, sink: Sink, folder: Unfinished
) -> Receipt:
    """Build a work unit: give its documents to a sink, and return its receipt.

    Args:
        task: The work unit, and which of its documents are dropped.
        reader: Reads it.
        pipeline: The pipeline.
        sink: Takes the documents.
        folder: The unfinished folder.

    Raises:
        ChangedError: The unit has other documents than when it was read before.
    """
    unit = task.unit
    account = reader.account
    hashes = None if task.is_read else UnitHashes(unit, pipeline)
    kinds = np.frombuffer(task.kinds, np.uint8)
    number = 0
    for batch in reader.batches():
        if hashes is not None:
            hashes.add(batch)
        for documents in split_documents(batch) if task.is_careful else (batch,):
            if task.is_careful:
                note((number, documents.ids[0], documents.places[0]))
            # A careful unit has one document at a time, so a fatal one is alone.
            if number in task.fatal:
                kept = account.drop(documents, np.zeros(1, np.int64), DIED)
            else:
                kept = _choose(documents, kinds[number:], account, pipeline)
            number += len(documents)

            for annotated in annotate(kept, account, pipeline):
                sink.add(annotated, account)
    note(None)  # no document is to blame for a death after this line

    if len(kinds) not in (0, number):
        raise changed_error(unit.parts[0].path)
    piece = sink.close(account)
    if hashes is not None:
        hashes.save(folder, reader.per_part)
    return account.receipt(unit, piece, made=task.made)


def read_unit(task: ReadUnit, pipeline: Pipeline, folder: Unfinished) -> Outcome:
    """Read a work unit without annotating it, and write the hashes of its documents.

    Args:
        task: The work unit.
        pipeline: The pipeline.
        folder: The unfinished folder.

    Returns:
        What it comes to if every document and mention is kept.
    """
    reader = Reader(task.unit, pipeline)
    account = reader.account
    hashes = UnitHashes(task.unit, pipeline)
    for documents in reader.batches():
        hashes.add(documents)
        wanted, _ = relabel(
            documents.mentions, rename=pipeline.annotate.rename, labels=pipeline.annotate.labels
        )
        account.labels |= dict.fromkeys(wanted.used_labels())
        account.doc_labels |= dict.fromkeys(filter(None, documents.doc_labels or ()))
        account.counts.given_mentions += len(documents.mentions)
        account.counts.mentions += len(documents.mentions)
    hashes.save(folder, reader.per_part)
    return account.outcome(task.unit)


class Account:
    """The counts, losses and labels of a work unit while it is built.

    Attributes:
        counts: Counts of documents and mentions.
        set_aside: Unusable documents.
        labels: Labels of mentions that reach the sink, as keys.
        unwanted: Labels of mentions left out because of their label, as keys.
        doc_labels: Labels of documents that reach the sink, as keys.
        found_by: Number of mentions per label and set of agreeing annotators.
    """

    def __init__(self, *, is_gold: bool) -> None:
        """Begin with nothing.

        Args:
            is_gold: Whether the mentions of the source are used. Others do not count.
        """
        self.counts = Counts()
        self.set_aside: list[SetAside] = []
        self.labels: dict[str, None] = {}
        self.unwanted: dict[str, None] = {}
        self.doc_labels: dict[str, None] = {}
        self.found_by = Counter[FoundBy]()
        self._is_gold = is_gold

    def put_aside(self, document: SetAside) -> None:
        """Count a document that cannot be used, and whose mentions are not counted yet."""
        self.set_aside.append(document)
        self.counts.put_aside(document if self._is_gold else document._replace(mentions=0))

    def drop(
        self, documents: Documents, numbers: Ints, reason: Reason, *, are_annotated: bool = False
    ) -> Documents:
        """Set documents aside, and return the others.

        Args:
            documents: D documents.
            numbers: int64, sorted indices of those set aside.
            reason: Why.
            are_annotated: Whether their mentions are counted as given already. Default: False.
        """
        mentions = np.diff(documents.mentions.offsets).tolist()
        for number in numbers.tolist():
            aside = SetAside(documents.ids[number], documents.places[number], reason)
            if are_annotated:
                self.set_aside.append(aside)
                self.counts.put_aside(aside._replace(mentions=0))
                self.counts.leave_out(in_aside(reason), mentions[number])
            else:
                self.put_aside(aside._replace(mentions=mentions[number]))
        return documents.take(np.setdiff1d(np.arange(len(documents)), numbers))

    def outcome(self, unit: Unit) -> Outcome:
        """Return what the unit has come to."""
        counts = self.counts + Counts()  # in order
        counts.written = counts.read - len(self.set_aside)
        counts.check()
        return Outcome(
            counts=counts,
            set_aside=_in_order(self.set_aside, unit),
            labels=[*self.labels],
            unwanted=sorted(self.unwanted),
            doc_labels=[*self.doc_labels],
        )

    def receipt(self, unit: Unit, piece: ShardRecord, *, made: str) -> Receipt:
        """Return the receipt of a unit after its piece is written."""
        self.counts.sequences = piece.rows
        self.counts.tokens = piece.tokens
        self.counts.mentions = piece.mentions
        return Receipt(
            **msgspec.structs.asdict(self.outcome(unit)),
            made=made,
            found_by=[
                FoundByRecord(label=label, by=by, mentions=number)
                for (label, by), number in sorted(self.found_by.items())
            ],
            piece=piece,
        )


class Reader:
    """Reads the documents of a work unit, and counts records that are no documents.

    Attributes:
        account: The account of the unit.
        per_part: Number of documents and of texts of each part, so far.
    """

    def __init__(
        self,
        unit: Unit,
        pipeline: Pipeline,
        read: Callable[[Part], Iterable[Record]] | None = None,
    ) -> None:
        """Begin without documents.

        Args:
            unit: The work unit.
            pipeline: The pipeline.
            read: Reads a part. Default: as the source does, in arrays.
        """
        self._unit = unit
        self._source = make_source(pipeline).for_split(unit.split)
        self._read = read or self._source.batches
        self.account = Account(is_gold=pipeline.annotate.use == "gold")
        self.per_part = [(0, 0)] * len(unit.parts)

    def batches(self) -> Iterator[Documents]:
        """Yield the documents of all parts in batches, across the ends of files.

        Raises:
            ChangedError: The files have changed since the build was planned.
        """
        try:
            yield from self._documents()
        except SourceError:
            check_unchanged(self._unit, self._source)  # a change may be the reason
            raise
        check_unchanged(self._unit, self._source)

    def _documents(self) -> Iterator[Documents]:
        for record in in_batches(self._records()):
            if isinstance(record, NotChosen):
                self.account.counts.not_choose(record.reason)
            elif isinstance(record, SetAside):
                self.account.counts.read += 1
                self.account.put_aside(record)
            else:
                self.account.counts.read += len(record)
                yield record

    def _records(self) -> Iterator[Record]:
        parts = zip(self._unit.parts, self._unit.prefixes, strict=True)
        for number, (part, prefix) in enumerate(parts):
            for record in self._read(part):
                documents, texts = self.per_part[number]
                if isinstance(record, Document):
                    self.per_part[number] = (
                        documents + 1,
                        texts + (len(record.sentences or ()) or 1),
                    )
                elif isinstance(record, Documents):
                    self.per_part[number] = documents + len(record), texts + count_texts(record)
                yield with_prefix(record, prefix, Path(part.path)) if prefix else record


def with_prefix(record: Record, prefix: str, path: Path) -> Record:
    """Add a prefix to places, and to ids that are made from the name of the file."""
    if isinstance(record, NotChosen):
        return record

    own = stem(path)
    if isinstance(record, Documents):
        ids = [_prefix_id(doc_id, prefix, own) for doc_id in record.ids]
        return replace(record, ids=ids, places=[f"{prefix}{place}" for place in record.places])

    doc_id = _prefix_id(record.id, prefix, own)
    place = f"{prefix}{record.place}"
    if isinstance(record, SetAside):
        return record._replace(id=doc_id, place=place)
    return replace(record, id=doc_id, place=place)


def _prefix_id(doc_id: str, prefix: str, own: str) -> str:
    """Add a prefix to an id that is the name of its file, or that name and a number."""
    is_of_file = doc_id == own or doc_id.startswith(f"{own}:")
    return f"{prefix}{doc_id}" if is_of_file else doc_id


def _choose(
    documents: Documents, kinds: npt.NDArray[np.uint8], account: Account, pipeline: Pipeline
) -> Documents:
    """Drop documents by their kinds; count copies that are kept.

    Args:
        documents: D documents.
        kinds: uint8 `[D]` or longer, their kinds, see `copies`; empty if all are kept.
        account: The account of the unit.
        pipeline: The pipeline, with `source.duplicates`.
    """
    if not len(kinds):
        return documents

    kinds = kinds[: len(documents)]
    for kind, name in COPIES.items():
        number = int((kinds == kind).sum())
        if number:
            account.counts.copies[name] = account.counts.copies.get(name, 0) + number

    kept = np.ones(len(kinds), np.bool_)
    for kind, reason in enumerate(KINDS):
        numbers = np.flatnonzero(kinds == kind)
        if reason is None or (kind in COPIES and pipeline.source.duplicates != "drop"):
            continue
        if len(numbers):
            account.drop(documents, numbers, reason)
            kept[numbers] = False
    return documents.take(np.flatnonzero(kept))


def annotate(documents: Documents, account: Account, pipeline: Pipeline) -> Iterator[Documents]:
    """Yield documents with mentions: found, renamed, chosen by label, and flat."""
    options = pipeline.annotate
    annotator = load_annotator(options)

    def refuse(document: Documents, reason: Reason) -> None:
        account.drop(document, np.zeros(1, np.int64), reason)

    for batch, annotation in attempts(documents, annotator.annotate, "annotator", refuse):
        # Count what the annotator found and left out, before choosing labels.
        left_out = count_by_reason(annotation.left_out)
        account.counts.given_mentions += len(annotation.mentions) + left_out.total()
        for (label, by), mentions in annotation.found_by.items():
            renamed = options.rename.get(label, label)
            if not options.labels or renamed in options.labels:
                account.found_by[FoundBy(renamed, by)] += mentions
        for text, mentions in count_by_reason(batch.adjusted).items():
            account.counts.adjust(text, mentions)

        inside = annotation.mentions.choose(np.flatnonzero(batch.are_inside(annotation.mentions)))
        left_out[OUTSIDE] += len(annotation.mentions) - len(inside)
        chosen, others = choose_mentions(inside, options)
        if UNWANTED in others:
            present = {options.rename.get(label, label) for label in inside.used_labels()}
            account.unwanted |= dict.fromkeys(present.difference(options.labels))

        for reason, mentions in (left_out + others).items():
            account.counts.leave_out(reason, mentions)
        yield batch.with_mentions(chosen)


def choose_mentions(
    mentions: Mentions, options: AnnotateOptions
) -> tuple[Mentions, Counter[Reason]]:
    """Rename labels, choose the wanted ones, and resolve overlaps among these.

    Returns:
        The mentions of a build, and reason -> number of mentions left out.
    """
    wanted, unwanted = relabel(mentions, rename=options.rename, labels=options.labels)
    flat, overlapping = flatten(wanted)
    return flat, unwanted + overlapping


def in_context(
    documents: Documents, sentences: Ranges, account: Account, pipeline: Pipeline
) -> Documents:
    """Find the contexts of mentions, and leave out those of `annotate.leave_out_context`."""
    options = pipeline.annotate
    if not options.wants_context:
        return documents

    from mslm_data.annotate.context import contexts, without  # most builds do not need it

    mentions = replace(documents.mentions, contexts=contexts(documents, sentences))
    kept, left_out = without(mentions, options.leave_out_context)
    for reason, number in left_out.items():
        account.counts.leave_out(reason, number)
    return documents.with_mentions(kept)


def _in_order(set_aside: Sequence[SetAside], unit: Unit) -> list[SetAside]:
    """Sort documents set aside by their place in the input.

    Each stage sets documents aside in its own order, batch by batch. Without sorting, the order
    would depend on the size of units.
    """
    if len(set_aside) < 2:
        return [*set_aside]

    numbers: dict[str, int] = {}
    for number, (part, prefix) in enumerate(zip(unit.parts, unit.prefixes, strict=True)):
        numbers.setdefault(f"{prefix}{Path(part.path).name}", number)

    def place(aside: SetAside) -> tuple[int, int]:
        name, _, line = aside.place.rpartition(":")
        return numbers.get(name, 0), int(line) if line.isdecimal() else 0

    return sorted(set_aside, key=place)
