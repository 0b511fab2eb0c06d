"""The story of a build: scan, plan, units, ids, losses, shards, and the files beside them.

The leading process tells it, and does nothing that takes time in the size of the input: tasks do
that, on any process, and it adds up their receipts.
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
from mslm_data.builds.plan import Plan, changed, check_label_count, make_plan
from mslm_data.builds.rounds import Story
from mslm_data.builds.scan import Scan, digest_files, scan_inputs
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import Join, Match, Sign, WorkUnit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.shard.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a build is; never text.

    Attributes:
        done: Work units done, in earlier builds too.
        total: Work units; 0 as long as the input files are looked at.
        bytes_done: Bytes of input of the units done.
        bytes_total: Bytes of input.
        documents: Documents read.
        rows: Rows written.
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
    """Build a folder, from the first scan of the files to the manifest.

    Args:
        out: The folder.
        inputs: The files of each split.
        tokenizer: Makes the tokens.
        identity: From `plan.identity`.
        part: `(i, n)`: do every n-th unit, beginning with unit i (from 1), and then nothing.
        counter: Counts finished units.

    Returns:
        The folder's manifest; None where only a part was built.

    Raises:
        BuildError: The folder follows another plan, documents of two files share an id, or too much
            of the corpus is lost.
        SourceError: An input has changed since the build began.
    """
    # What the files hold, and which units that makes. Another plan is refused here.
    scan = yield from scan_inputs(inputs, staging=out / ".build" / "staging")
    plan = make_plan(inputs, scan, identity)
    keep_plan(out, plan, alone=part is None)

    # The units that are not done. Pieces of a shard are removed when it is joined.
    compared = load_duplicate_ids(out, plan.units)
    units = plan.units if compared is None else compared
    wanted = units if part is None else units[part[0] - 1 :: part[1]]
    joined = _joined_units(out, plan)
    missing = [unit for unit in wanted if unit.name not in joined and not is_done(out, unit)]
    counter.start(wanted, missing, plan.sizes)

    # Copies are found before any unit is done: a unit writes the documents that are kept.
    looks_for_copies = plan.pipeline.duplicates != "keep" and missing
    if looks_for_copies and not is_matched(out, plan.units):
        yield [Sign(unit) for unit in plan.units if not is_signed(out, unit)]
        yield [Match(tuple((unit.split, unit.name) for unit in plan.units))]

    # Build the units. Other parts do the rest.
    yield missing
    if part is not None:
        return None

    # Units with ids that occur in earlier units are built again without these documents.
    if compared is None:
        answers = yield plan_comparisons(out, units)
        units = save_duplicate_ids(out, units, answers.values())
        yield [unit for unit in units if unit.duplicate_ids]

    yield from check_unchanged(out, inputs, scan)
    labels, doc_labels = _accepted_labels(out, inputs, plan)
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
    """Digest the inputs again, when nothing reads them any more.

    Stamps do not show every change: a network file system may keep times to the second.

    Raises:
        SourceError: An input has changed since it was scanned; what was made of it is discarded.
    """
    fingerprints = yield from digest_files(inputs)
    for path, fingerprint in fingerprints.items():
        if fingerprint != scan.fingerprints[path]:
            discard_build(out)
            raise changed(str(path))


def _joined_units(out: Path, plan: Plan) -> set[str]:
    """Return the names of units whose shards are written, and whose receipts are there."""
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
    """Return the labels of mentions and of documents, if what the units lost is accepted.

    All receipts are in memory here, and not while shards are joined.

    Raises:
        BuildError: Labels are texts, or too much is lost.
    """
    receipts = load_receipts(out, plan)
    every = [*chain.from_iterable(receipts.values())]
    labels = _labels(plan, every)
    doc_labels = _doc_labels(plan, every)
    try:
        check_labels(
            inputs.pipeline,
            labels=labels,
            mentions=sum(receipt.given_mentions for receipt in every),
            doc_labels=doc_labels or (),
            documents=sum(receipt.read - len(receipt.set_aside) for receipt in every),
        )
    except BuildError:
        discard_build(out)  # receipts have labels, and must not have text
        raise

    try:
        check_losses(inputs, receipts)
    except BuildError:
        mark_refused(out)
        raise
    mark_accepted(out)
    return labels, doc_labels


def _labels(plan: Plan, receipts: Sequence[Receipt]) -> tuple[str, ...]:
    """Return the label of each index: the pipeline's, or those of the source, sorted."""
    pipeline = plan.pipeline
    if pipeline.annotate.labels:
        return pipeline.annotate.labels

    labels = {label for receipt in receipts for label in receipt.labels}
    check_label_count(pipeline, [*labels])
    return tuple(sorted(labels))


def _doc_labels(plan: Plan, receipts: Sequence[Receipt]) -> tuple[str, ...] | None:
    """Return the labels of documents, sorted; None where the source has none."""
    if not plan.pipeline.has_doc_labels:
        return None
    labels = {label for receipt in receipts for label in receipt.doc_labels}
    check_label_count(plan.pipeline, [*labels])
    return tuple(sorted(labels))


class Counter:
    """Turns names of finished units into progress."""

    def __init__(self, out: Path, progress: Callable[[Progress], None]) -> None:
        self._out = out
        self._progress = progress
        self._sizes: dict[str, tuple[WorkUnit, int]] = {}
        self._done: set[str] = set()
        self._bytes = 0
        self._documents = 0
        self._rows = 0

    def start(
        self, units: Sequence[WorkUnit], missing: Sequence[WorkUnit], sizes: Mapping[str, int]
    ) -> None:
        """Count the units that earlier builds have done.

        Args:
            units: Units of this build.
            missing: Units that are to be done.
            sizes: Name of a unit -> about how many bytes of input it has.
        """
        self._sizes = {unit.name: (unit, sizes[unit.name]) for unit in units}
        to_do = {unit.name for unit in missing}
        for name in self._sizes:
            if name not in to_do:
                self._add(name)
        self._tell()

    def count(self, name: str) -> None:
        """Count a unit, unless it was done again or is not a unit."""
        if name in self._sizes and name not in self._done:
            self._add(name)
            self._tell()

    def _add(self, name: str) -> None:
        unit, size = self._sizes[name]
        self._done.add(name)
        self._bytes += size
        receipt = read_receipt(self._out, unit)
        if receipt:
            self._documents += receipt.read
            self._rows += receipt.piece.rows

    def _tell(self) -> None:
        self._progress(
            Progress(
                done=len(self._done),
                total=len(self._sizes),
                bytes_done=self._bytes,
                bytes_total=sum(size for _, size in self._sizes.values()),
                documents=self._documents,
                rows=self._rows,
            )
        )
