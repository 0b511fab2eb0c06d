"""Builds a folder of shards from a pipeline, inputs and a tokenizer, offline.

| file | what it holds |
|---|---|
| `plan` | work units, a pure function of inputs and pipeline; a record of all that decides bytes |
| `stages` | the source, annotator and segmenter that a pipeline names |
| `reading`, `trail`, `work_unit` | one unit, from its documents to its shard and receipt |
| `folder` | the unfinished folder: its locks, its plan, its receipts |
| `finish` | the files beside the shards, `manifest.json` last |
| `texts`, `audit` | the same stages for other ends: training a vocabulary, weighing weak labels |

A build that was interrupted is resumed by the same call, and ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from mslm_data.builds.finish import finish, repeated_ids
from mslm_data.builds.folder import (
    claimed,
    finished_already,
    is_built,
    keep_plan,
    prepare,
    read_receipt,
    receipt_name,
    refuse_foreign,
)
from mslm_data.builds.plan import make_plan
from mslm_data.builds.work_unit import UnitBuilder
from mslm_data.data.document import WorkUnit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.engine import ENGINES, Preload
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest

_WORTH_WORKERS = 32 << 20
"""Bytes of input below which starting processes costs more than it saves."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a build is; never text.

    Attributes:
        done: Work units done, in earlier builds too.
        total: Work units.
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


def build(
    pipeline: Pipeline,
    inputs: Sequence[Path],
    tokenizer: Tokenizer,
    out: Path,
    *,
    workers: int | None = None,
    engine: str = "local",
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Manifest | None:
    """Build a folder, or resume a build that was interrupted.

    Args:
        pipeline: How the corpus is read, annotated, segmented, encoded and sharded.
        inputs: Files or folders of this machine.
        tokenizer: Makes the tokens.
        out: The folder, which is made if need be.
        workers: Number of processes; None: one for small inputs, else as many as the engine has
            CPUs.
        engine: The name of the engine that runs the work units.
        part: `(i, n)`: do every n-th unit, beginning with unit i (from 1), and do not finish the
            folder.
        progress: Called at the start and as units finish.

    Returns:
        The folder's manifest; None if `part` left it unfinished.

    Raises:
        BuildError: Another build has the folder, it was built from something else, or the build
            cannot be completed.
        MslmDataError: The inputs, the pipeline or the tokenizer are wrong.
    """
    plan = make_plan(pipeline, inputs, tokenizer)
    if is_built(out):
        return finished_already(out, plan)
    refuse_foreign(out)

    with claimed(out, part):
        if is_built(out):  # by another process, before this one had the lock
            return finished_already(out, plan)

        prepare(out, plan, alone=part is None)
        if plan.large:
            staging = out / ".build" / "staging"
            plan = make_plan(plan.pipeline, inputs, tokenizer, staging=staging)
        keep_plan(out, plan)

        units = plan.units if part is None else plan.units[part[0] - 1 :: part[1]]
        missing = [unit for unit in units if read_receipt(out, unit, every_byte=True) is None]
        builder = UnitBuilder(
            pipeline=plan.pipeline,
            labels=plan.labels,
            tokenizer=tokenizer,
            folder=str(out),
            totals=plan.totals(),
            stamps=plan.stamps,
        )
        sizes = dict(zip(plan.units, plan.sizes, strict=True))
        if workers is None and sum(sizes[unit] for unit in missing) < _WORTH_WORKERS:
            workers = 1
        report = _Reporter(out, {unit: sizes[unit] for unit in units}, missing, progress)

        run = ENGINES.load(engine)
        run(builder, missing, workers=workers, done=report, preload=_preload(plan.pipeline))

        if part is not None:
            return None
        for unit, ids in repeated_ids(out, plan).items():
            replace(builder, repeated=ids)(unit)
        return finish(out, plan, tokenizer)


def _preload(pipeline: Pipeline) -> Preload:
    """Return the module that loads what workers need, and which annotator this is."""
    annotate = {"use": pipeline.annotate.use, "options": dict(pipeline.annotate.options)}
    return Preload("mslm_data.builds.preloaded", msgspec.json.encode(annotate).decode())


class _Reporter:
    """Turns the receipts of finished units into progress."""

    def __init__(
        self,
        out: Path,
        sizes: Mapping[WorkUnit, int],
        missing: Sequence[WorkUnit],
        progress: Callable[[Progress], None],
    ) -> None:
        """Count the units that earlier builds have done.

        Args:
            out: The folder.
            sizes: Unit -> its bytes of input.
            missing: Units that are to be done.
            progress: Called now, and as units finish.
        """
        self._out = out
        self._sizes = sizes
        self._progress = progress
        self._units = {receipt_name(unit): unit for unit in sizes}
        self._done = 0
        self._bytes = 0
        self._documents = 0
        self._rows = 0

        to_do = set(missing)
        for unit in sizes:
            if unit not in to_do:
                self._count(unit)
        self._tell()

    def __call__(self, receipt: str) -> Sequence[WorkUnit]:
        self._count(self._units[receipt])
        self._tell()
        return ()

    def _count(self, unit: WorkUnit) -> None:
        self._done += 1
        self._bytes += self._sizes[unit]
        receipt = read_receipt(self._out, unit)
        if receipt:
            self._documents += receipt.read
            self._rows += receipt.shard.rows

    def _tell(self) -> None:
        self._progress(
            Progress(
                done=self._done,
                total=len(self._units),
                bytes_done=self._bytes,
                bytes_total=sum(self._sizes.values()),
                documents=self._documents,
                rows=self._rows,
            )
        )
