"""Builds a work unit: reads, annotates, segments and encodes, then writes a piece and a receipt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.data_loss import check_labels
from mslm_data.builds.decontaminate import remove_contaminated
from mslm_data.builds.duplicates import Copies
from mslm_data.builds.folder import Receipt, piece_path, write_receipt
from mslm_data.builds.reading import Reading, Record
from mslm_data.builds.stages import load_word_table, make_annotator, make_schema, make_segmenter
from mslm_data.builds.tasks import WorkUnit
from mslm_data.data.counts import Counts
from mslm_data.data.document import SetAside
from mslm_data.data.documents import Documents
from mslm_data.data.examples import Examples, concatenate
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.pipeline import Pipeline
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.pieces import write_piece
from mslm_data.shard.write import ShardRecord
from mslm_data.source.reading.records import NO_TOKEN


def build_unit(
    unit: WorkUnit,
    records: Iterable[Record],
    pipeline: Pipeline,
    tokenizer: Tokenizer,
    out: Path,
) -> None:
    """Build a work unit: write its piece, then its receipt.

    Args:
        unit: The work unit.
        records: Records of its parts.
        pipeline: The pipeline.
        tokenizer: The tokenizer.
        out: The unfinished folder.
    """
    with CrashLog(out, unit.name) as crash_log:
        copies = Copies(pipeline, out, unit.name) if pipeline.duplicates != "keep" else None
        reading = Reading(
            pipeline, duplicate_ids=unit.duplicate_ids, copies=copies, crash_log=crash_log
        )
        labels = {label: number for number, label in enumerate(pipeline.annotate.labels)}
        doc_labels: dict[str, int] | None = {} if pipeline.has_doc_labels else None
        examples, counts = _examples(
            unit.split, records, reading, labels, doc_labels, pipeline, tokenizer
        )

    doc_label_names = None if doc_labels is None else [*doc_labels]
    schema = make_schema(pipeline, [*labels], doc_label_names)
    piece = write_piece(piece_path(out, unit.name), examples, schema)
    receipt = make_receipt(unit, reading, counts, doc_label_names or [], piece)
    write_receipt(out, unit, receipt)


def _examples(
    split: str,
    records: Iterable[Record],
    reading: Reading,
    labels: dict[str, int],
    doc_labels: dict[str, int] | None,
    pipeline: Pipeline,
    tokenizer: Tokenizer,
) -> tuple[Examples, Counts]:
    """Encode the documents of a unit as rows, and count mentions and rows.

    Args:
        split: The unit's split.
        records: Records of the unit.
        reading: Reads the documents.
        labels: Label of mentions -> index. Labels that the pipeline does not name are added.
        doc_labels: Label of documents -> index; updated. None if the source has none.
        pipeline: The pipeline.
        tokenizer: The tokenizer.
    """
    segmenter = make_segmenter(pipeline)
    encoder = Encoder(
        load_word_table(tokenizer),
        labels,
        pipeline.encode,
        corpus=pipeline.name,
        weak=make_annotator(pipeline).weak,
        context=pipeline.annotate.context,
        doc_labels=doc_labels,
    )

    parts = []
    counts = Counts()
    for batch in reading.batches(records):
        # Indices follow the first occurrence in this unit; joining maps them to the shard's.
        for label in batch.mentions.used_labels():
            labels.setdefault(label, len(labels))
        # A unit is too small to tell whether labels repeat, but long ones, and more than the column
        # holds, are an error before a piece or the receipt has them.
        check_labels(pipeline, labels=reading.labels)

        for segmented, ranges in reading.attempts(batch, segmenter.sentences, "segmenter"):
            documents, sentences, contaminated, lost_mentions = remove_contaminated(
                pipeline, split, reading.in_context(segmented, ranges), ranges
            )
            reading.set_aside += contaminated
            reading.left_out += lost_mentions

            of_documents = {*(doc_labels or ()), *filter(None, documents.doc_labels or ())}
            check_labels(pipeline, doc_labels=of_documents)
            examples, batch_counts = encoder.encode(documents, sentences)
            counts += batch_counts
            reading.set_aside += _without_rows(documents, examples)
            parts.append(examples)
    if not parts:
        # Encode an empty batch, so that the piece has all columns.
        empty = Documents.from_documents([])
        documents = reading.in_context(empty, empty.sentences)
        parts.append(encoder.encode(documents, empty.sentences)[0])
    return concatenate(parts), counts


def make_receipt(
    unit: WorkUnit,
    reading: Reading,
    counts: Counts,
    doc_labels: Sequence[str],
    piece: ShardRecord,
) -> Receipt:
    """Return the receipt of a unit after its piece is written."""
    outcome = reading.outcome()
    counts = outcome.counts + counts
    counts.check()

    found_by = [
        FoundByRecord(label=label, by=by, mentions=number)
        for (label, by), number in sorted(reading.found_by.items())
    ]
    return Receipt(
        counts=counts,
        set_aside=_in_order(outcome.set_aside, unit),
        labels=outcome.labels,
        unwanted=outcome.unwanted,
        doc_labels=[*doc_labels],
        duplicate_ids=sorted(unit.duplicate_ids),
        found_by=found_by,
        piece=piece,
    )


def _without_rows(documents: Documents, examples: Examples) -> Iterator[SetAside]:
    """Yield the documents without any row."""
    with_rows = set(examples.doc_ids or ())
    if len(with_rows) == len(documents):
        return
    for number, doc_id in enumerate(documents.ids):
        if doc_id not in with_rows:
            yield SetAside(doc_id, documents.places[number], NO_TOKEN, mentions=0)


def _in_order(set_aside: Sequence[SetAside], unit: WorkUnit) -> list[SetAside]:
    """Sort documents set aside by their place in the input.

    Each stage sets documents aside in its own order, batch by batch. Without sorting, the order
    would depend on the size of units.
    """
    names = [Path(path).name for path in unit.paths]

    def place(aside: SetAside) -> tuple[int, int]:
        name, _, line = aside.place.rpartition(":")
        file = names.index(name) if name in names else 0
        return file, int(line) if line.isdecimal() else 0

    return sorted(set_aside, key=place)
