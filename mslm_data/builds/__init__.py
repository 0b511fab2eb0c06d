"""The offline composition: a pipeline, inputs and a tokenizer become a built folder.

plan -> work units -> engine -> shards and receipts -> the folder's own files, `manifest.json` last. A build that was
ended in between goes on where it stopped, and ends with the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.claim import claimed
from mslm_data.builds.finish import finish
from mslm_data.builds.plan import Plan, make_plan
from mslm_data.builds.repeats import repeated_ids
from mslm_data.builds.unit import Work, read_receipt, receipt_name, receipts_folder
from mslm_data.data.document import WorkUnit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.engine import ENGINES, Preload
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, clear_temporaries, make_folder, write_whole
from mslm_data.pipeline import Pipeline
from mslm_data.shard import manifest as manifests
from mslm_data.shard.manifest import Manifest, read_manifest

_WORTH_A_POOL = 32 << 20
"""Bytes of input under which starting processes costs more than it saves."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a build says of itself while it runs: never text."""

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    documents: int
    sequences: int


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
    """Build a folder, or go on with one whose build was ended.

    Args:
        pipeline: How.
        inputs: Files or folders here.
        tokenizer: What tokenises.
        out: The folder; made if need be.
        workers: Processes; None: one for small inputs, else as many as the engine has CPUs.
        engine: Which engine runs the units.
        part: `(i, n)`: do every n-th unit, beginning with unit i (from 1), and do not finish the folder.
        progress: Called as units finish.

    Returns:
        The folder's manifest; None if `part` left it unfinished.

    Raises:
        BuildError: Another build has the folder, or it was built from something else.
        MslmDataError: The inputs, the pipeline or the tokenizer are wrong.
    """
    plan = make_plan(pipeline, inputs, tokenizer)
    if _is_built(out):
        return _built_already(out, plan)
    _refuse_foreign(out)
    with claimed(out, part):
        if _is_built(out):  # by another process, since
            return _built_already(out, plan)
        _prepare(out, plan, alone=part is None)
        if plan.large:
            plan = make_plan(plan.pipeline, inputs, tokenizer, staging=out / ".build" / "staging")
        _keep_plan(out, plan)
        units = plan.units if part is None else plan.units[part[0] - 1 :: part[1]]
        work = Work(
            pipeline=plan.pipeline,
            labels=plan.labels,
            tokenizer=tokenizer,
            folder=str(out),
            totals=plan.totals(),
            stamps=plan.stamps,
        )
        missing = [unit for unit in units if read_receipt(out, unit, every_byte=True) is None]
        sizes = dict(zip(plan.units, plan.sizes, strict=True))
        report = _Reporter(out, {unit: sizes[unit] for unit in units}, missing, progress)
        if workers is None and sum(sizes[unit] for unit in missing) < _WORTH_A_POOL:
            workers = 1
        ENGINES.load(engine)(
            work, missing, workers=workers, done=report, preload=_preload(plan.pipeline)
        )
        if part is not None:
            return None
        for unit, ids in repeated_ids(out, plan).items():
            replace(work, repeated=ids)(unit)
        return finish(out, plan, tokenizer)


def _preload(pipeline: Pipeline) -> Preload:
    """Say what workers need in memory: the annotator's model."""
    annotate = {"use": pipeline.annotate.use, "options": dict(pipeline.annotate.options)}
    return Preload("mslm_data.builds.preloaded", msgspec.json.encode(annotate).decode())


class _Reporter:
    """Turns finished receipts into progress."""

    def __init__(
        self,
        out: Path,
        sizes: Mapping[WorkUnit, int],
        missing: Sequence[WorkUnit],
        progress: Callable[[Progress], None],
    ) -> None:
        self._out, self._sizes, self._progress = out, sizes, progress
        self._units = {receipt_name(unit): unit for unit in sizes}
        self._done = self._bytes = self._documents = self._sequences = 0
        left = set(missing)
        for unit in sizes:
            if unit not in left:
                self._count(unit)
        self._say()

    def __call__(self, receipt: str) -> None:
        self._count(self._units[receipt])
        self._say()

    def _count(self, unit: WorkUnit) -> None:
        self._done += 1
        self._bytes += self._sizes[unit]
        receipt = read_receipt(self._out, unit)
        if receipt:
            self._documents += receipt.read
            self._sequences += receipt.shard.rows

    def _say(self) -> None:
        self._progress(
            Progress(
                done=self._done,
                total=len(self._units),
                bytes_done=self._bytes,
                bytes_total=sum(self._sizes.values()),
                documents=self._documents,
                sequences=self._sequences,
            )
        )


def _is_built(out: Path) -> bool:
    return (out / manifests.NAME).is_file()


def _prepare(out: Path, plan: Plan, *, alone: bool) -> None:
    """Make the folders that work units write into, and clear what killed processes left in them."""
    folders = [receipts_folder(out), *(out / split for split in plan.sources)]
    for folder in folders:
        make_folder(folder)
    if alone:
        for folder in (out, out / ".build", *folders):
            clear_temporaries(folder)


def _refuse_foreign(out: Path) -> None:
    """See that a folder is new, empty, or an unfinished build of ours."""
    if out.exists() and not (
        out.is_dir() and ((out / ".build").is_dir() or not any(out.iterdir()))
    ):
        raise BuildError(
            f"{out}: expected an empty folder or an unfinished build, got other files; choose another --out"
        )


def _keep_plan(out: Path, plan: Plan) -> None:
    """Write the plan beside the receipts, or see that it is the one that they follow."""
    path = out / ".build" / "plan.json"
    if not path.is_file():
        write_whole(path, [canonical_json(plan.record)])
        return
    before = msgspec.json.decode(path.read_bytes())
    now = msgspec.json.decode(canonical_json(plan.record))
    _refuse_difference(out, before, now, "an unfinished build of something else")


def _built_already(out: Path, plan: Plan) -> Manifest:
    """Return the manifest of a folder that holds just this build.

    Raises:
        BuildError: It holds another.
    """
    manifest = read_manifest(out)
    if manifest.plan != plan.digest:
        before = {
            "name": manifest.name,
            "about": manifest.about,
            "pipeline": manifest.pipeline,
            "annotator": manifest.annotator,
            "segmenter": manifest.segmenter,
            "tokenizer": manifest.tokenizer["sha256"],
            "versions": manifest.versions,
            "labels": list(manifest.labels),
            "sources": {name: list(split.sources) for name, split in manifest.splits.items()},
        }
        now = msgspec.json.decode(canonical_json({name: plan.record[name] for name in before}))
        _refuse_difference(out, before, now, "what was built from something else")
    shutil.rmtree(out / ".build", ignore_errors=True)
    return manifest


def _refuse_difference(
    out: Path, before: Mapping[str, Any], now: Mapping[str, Any], what: str
) -> None:
    """Raise unless two records are equal, naming what differs."""
    different = list(_differences(before, now, ""))
    if different:
        raise BuildError(
            f"{out}: holds {what}; different: {', '.join(different)}; choose another --out or remove it"
        )


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    """Give the paths at which two records differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            yield from _differences(
                before.get(name), now.get(name), f"{path}.{name}" if path else name
            )
    elif before != now:
        yield path
