"""The order of a build: scan, plan, build units, compare ids, check data loss, join, finish.

The leading process runs the story. Everything whose time grows with the input is a task, so that it
can run in any process; the story only adds up receipts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mslm_data.builds.data_loss import check_labels, check_losses
from mslm_data.builds.duplicate_ids import (
    load_duplicate_ids,
    plan_comparisons,
    save_duplicate_ids,
)
from mslm_data.builds.duplicates import is_matched, is_signed
from mslm_data.builds.finish import finish, load_receipts
from mslm_data.builds.folder import (
    Receipt,
    discard_build,
    is_done,
    is_joined,
    keep_plan,
    mark_accepted,
    mark_refused,
    read_receipt,
)
from mslm_data.builds.plan import Plan, changed_error, make_plan
from mslm_data.builds.rounds import Story
from mslm_data.builds.scan import Scan, digest_files, scan_inputs
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import Join, Match, Sign, WorkUnit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.shard.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a build, as counts only.

    Attributes:
        done: Number of finished work units, including earlier builds.
        total: Number of work units; 0 while input files are scanned.
        bytes_done: Input bytes of the finished units.
        bytes_total: Input bytes of all units.
        documents: Number of documents read.
        rows: Number of rows written.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    documents: int
    rows: int


def tell(
    out: Path,
    inputs: Inputs,
    tokenizer: Tokenizer,
    identity: Mapping[str, Any],
    *,
    part: tuple[int, int] | None,
    counter: Counter,
) -> Story[Manifest | None]:
    """Build a folder, from the first scan of the input files to the manifest.

    Args:
        out: The folder.
        inputs: The files of each split.
        tokenizer: The tokenizer.
        identity: From `plan.collect_identity`.
        part: `(i, n)` builds every n-th unit from unit i, counted from 1, and then stops. None
            builds all units and finishes the folder.
        counter: Counts finished units.

    Returns:
        The manifest; None if `part` is given.

    Raises:
        BuildError: The folder has another plan, documents of two files have the same id, or too
            much data is lost.
        SourceError: An input has changed since the build began.
    """
    # Scan the files and plan the units. A folder with another plan is an error.
    scan = yield from scan_inputs(inputs, staging=out / ".build" / "staging")
    plan = make_plan(inputs, scan, identity)
    keep_plan(out, plan, alone=part is None)

    # Find the units to build. Joining a shard removes its pieces, so its units count as done; but
    # comparing ids needs all pieces.
    compared = load_duplicate_ids(out, plan.units)
    units = plan.units if compared is None else compared
    wanted = units if part is None else units[part[0] - 1 :: part[1]]
    joined = set() if compared is None else _joined_units(out, plan)
    missing = [unit for unit in wanted if unit.name not in joined and not is_done(out, unit)]
    counter.start(wanted, missing, plan.sizes)

    # Find copies before building units, because units write only the documents to keep. Comparing
    # ids may lead to building units again.
    looks_for_copies = plan.pipeline.duplicates != "keep" and (missing or compared is None)
    if looks_for_copies and not is_matched(out, plan.units):
        yield [Sign(unit) for unit in plan.units if not is_signed(out, unit)]
        yield [Match(tuple((unit.split, unit.name) for unit in plan.units))]

    # Build the units. With `part`, other processes build the remaining ones.
    yield missing
    if part is not None:
        return None

    # A unit cannot see the ids of other units, so they are compared now. Units with an id of an
    # earlier unit are built again without that document.
    if compared is None:
        answers = yield plan_comparisons(out, units)
        units = save_duplicate_ids(out, units, answers.values(), plan.pipeline)
        yield [unit for unit in units if unit.duplicate_ids]

    # All inputs are read: check them once more, and whether the data loss is acceptable.
    yield from check_unchanged(out, inputs, scan)
    labels, doc_labels = _accepted_labels(out, inputs, plan)

    # Join the pieces of each shard. Label indices are known only now.
    totals = plan.totals()
    yield [
        Join(
            shard.split,
            shard.number,
            totals[shard.split],
            tuple(unit.name for unit in shard.units),
            labels,
            doc_labels,
        )
        for shard in plan.shards
        if not is_joined(out, shard)
    ]
    return finish(out, plan, labels, doc_labels, tokenizer)


def check_unchanged(out: Path, inputs: Inputs, scan: Scan) -> Story[None]:
    """Digest the inputs again after the last reading, and compare.

    File times alone do not show every change: network file systems may round them to seconds.

    Raises:
        SourceError: An input has changed since it was scanned. All output made from it is removed.
    """
    fingerprints = yield from digest_files(inputs)
    for path, fingerprint in fingerprints.items():
        if fingerprint != scan.fingerprints[path]:
            discard_build(out)
            raise changed_error(str(path))


def _joined_units(out: Path, plan: Plan) -> set[str]:
    """Return the names of units with a receipt whose shard is complete."""
    return {
        unit.name
        for shard in plan.shards
        if is_joined(out, shard)
        for unit in shard.units
        if read_receipt(out, unit)
    }


def _accepted_labels(
    out: Path, inputs: Inputs, plan: Plan
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Check labels and data loss. Return the labels of mentions and of documents.

    The receipts of all units are in memory here, but not while shards are joined.

    Raises:
        BuildError: Labels seem to be texts or are too many, or too much data is lost.
    """
    receipts = load_receipts(out, plan)
    all_receipts = [*chain.from_iterable(receipts.values())]
    labels = _labels(plan, all_receipts)
    doc_labels = _doc_labels(plan, all_receipts)
    try:
        check_labels(
            inputs.pipeline,
            labels=labels,
            mentions=sum(receipt.counts.given_mentions for receipt in all_receipts),
            doc_labels=doc_labels or (),
            documents=sum(receipt.counts.written for receipt in all_receipts),
        )
    except BuildError:
        discard_build(out)  # receipts contain labels, and must not contain text
        raise

    try:
        check_losses(inputs, receipts)
    except BuildError:
        mark_refused(out)
        raise
    mark_accepted(out)
    return labels, doc_labels


def _labels(plan: Plan, receipts: Sequence[Receipt]) -> tuple[str, ...]:
    """Return the labels of mentions by index: the pipeline's, otherwise the source's, sorted."""
    pipeline = plan.pipeline
    if pipeline.annotate.labels:
        return pipeline.annotate.labels

    labels = {label for receipt in receipts for label in receipt.labels}
    return tuple(sorted(labels))


def _doc_labels(plan: Plan, receipts: Sequence[Receipt]) -> tuple[str, ...] | None:
    """Return the labels of documents, sorted; None if the source has none."""
    if not plan.pipeline.has_doc_labels:
        return None
    labels = {label for receipt in receipts for label in receipt.doc_labels}
    return tuple(sorted(labels))


class Counter:
    """Counts finished units, and reports progress."""

    def __init__(self, out: Path, progress: Callable[[Progress], None]) -> None:
        self._out = out
        self._progress = progress
        self._sizes: dict[str, tuple[WorkUnit, int]] = {}
        self._done: set[str] = set()
        self._bytes = 0
        self._bytes_total = 0
        self._documents = 0
        self._rows = 0

    def start(
        self, units: Sequence[WorkUnit], missing: Sequence[WorkUnit], sizes: Mapping[str, int]
    ) -> None:
        """Count the units finished by earlier builds.

        Args:
            units: All units of this build.
            missing: Units to build.
            sizes: Unit name -> approximate number of input bytes.
        """
        self._sizes = {unit.name: (unit, sizes[unit.name]) for unit in units}
        self._bytes_total = sum(size for _, size in self._sizes.values())
        to_do = {unit.name for unit in missing}
        for name in self._sizes:
            if name not in to_do:
                self._add(name)
        self._tell()

    def count(self, name: str) -> None:
        """Count a unit once; ignore the names of other tasks."""
        if name in self._sizes and name not in self._done:
            self._add(name)
            self._tell()

    def _add(self, name: str) -> None:
        unit, size = self._sizes[name]
        self._done.add(name)
        self._bytes += size
        receipt = read_receipt(self._out, unit)
        if receipt:
            self._documents += receipt.counts.read
            self._rows += receipt.piece.rows

    def _tell(self) -> None:
        self._progress(
            Progress(
                done=len(self._done),
                total=len(self._sizes),
                bytes_done=self._bytes,
                bytes_total=self._bytes_total,
                documents=self._documents,
                rows=self._rows,
            )
        )
