"""Builds a folder of shards, or a file of entity lines, from a pipeline and input files.

This is the order of a build, from the first look at the inputs to the manifest. Everything whose
time grows with the input is a task, which runs in any process; see `tasks`.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mslm_data.builds.copies import check_equal_texts
from mslm_data.builds.data_loss import add_up, check_all_labels, check_set_aside
from mslm_data.builds.finish import finish, load_finished
from mslm_data.builds.folder import Unfinished, is_built
from mslm_data.builds.line_forms import LineForm, Numbering
from mslm_data.builds.line_sink import (
    PIECE,
    LineCounts,
    ToLines,
    check_new,
    collect_line_identity,
    count,
    list_document_names,
)
from mslm_data.builds.plan import (
    Plan,
    collect_identity,
    find_sources,
    make_plan,
)
from mslm_data.builds.row_sink import ToRows
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import FindDrops, Join, ReadUnit
from mslm_data.builds.units import BuildUnits, Tell
from mslm_data.builds.work import BuildWork
from mslm_data.data.accounts import Counts
from mslm_data.data.document import SetAside
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.engine import WORTH_WORKERS, Preload, Run, start
from mslm_data.io.files import write_whole
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.write import ShardRecord

# A folder of shards -------------------------------------------------------------------------------


def build(
    inputs: Inputs,
    tokenizer: Tokenizer,
    out: Path,
    *,
    workers: int | None = None,
    engine: str = "local",
    part: tuple[int, int] | None = None,
    progress: Tell = lambda _: None,
) -> Manifest | None:
    """Build a folder, or resume an interrupted build.

    A finished folder with missing or damaged files is built again.

    Args:
        inputs: Input files, from `plan.find`, with the pipeline.
        tokenizer: The tokenizer.
        out: The output folder, created if missing.
        workers: Number of processes. Default: 1 for small inputs, otherwise the engine's number of
            CPUs.
        engine: Name of the engine that runs the work units. Default: `local`.
        part: `(i, n)` builds every n-th work unit from unit i, counted from 1, and leaves the
            folder unfinished. Default: all units.
        progress: Called at the start and after each work unit.

    Returns:
        The manifest; None if `part` is given and the folder is unfinished.

    Raises:
        BuildError: Another build uses the folder, the folder was built from other inputs or
            options, or the build cannot be completed.
        MslmDataError: The inputs, the pipeline or the tokenizer are wrong.
    """
    folder = Unfinished(out)
    identity = collect_identity(inputs, tokenizer)
    work = BuildWork(pipeline=inputs.pipeline, folder=out, to=ToRows(tokenizer=tokenizer))
    if workers is None and _count_bytes(inputs) < WORTH_WORKERS:
        workers = 1  # starting processes takes longer than a small build

    with start(
        work,
        workers=workers,
        preload=_preload(inputs.pipeline),
        engine=engine,
        paths=[*inputs.splits_of_paths()],
    ) as run:
        manifest = _open_finished(run, out, inputs, identity)
        if manifest is not None:
            return manifest

        folder.check_output(inputs.files)
        with folder.locked(is_part=part is not None):
            # Look again under the lock: another process may have finished the folder meanwhile.
            manifest = _open_finished(run, out, inputs, identity)
            if manifest is not None:
                return manifest

            folder.prepare(inputs.files)
            # Parts may run at the same time, so only a whole build clears half-written files: of a
            # killed build before it, and its own.
            if part is None:
                folder.clear_leftovers(inputs.files)
            try:
                units = BuildUnits(run, folder, inputs, identity, progress)
                units.build(part)
                return None if part else _finish(run, units, tokenizer)
            finally:
                if part is None:
                    with suppress(OSError):  # a full or failed disk may be the first error
                        folder.clear_leftovers(inputs.files)


def _finish(run: Run, units: BuildUnits, tokenizer: Tokenizer) -> Manifest:
    """Check what the units came to, join their pieces, and write the files beside the shards."""
    labels, doc_labels = units.check_losses()

    num_shards = {unit.split: unit.shard + 1 for unit in units.plan.units}
    shards = [
        Join(
            split=members[0].split,
            shard=members[0].shard,
            num_shards=num_shards[members[0].split],
            pieces=tuple(unit.name for unit in members),
            labels=labels,
            doc_labels=doc_labels,
            made=units.made_of_shard(members),
        )
        for members in units.plan.shards().values()
    ]
    records: dict[Join, ShardRecord] = dict(run(shards))
    splits = {
        split: [records[shard] for shard in shards if shard.split == split]
        for split in units.inputs.files
    }
    return finish(
        units,
        splits,
        labels=labels,
        doc_labels=doc_labels,
        tokenizer=tokenizer,
    )


def _open_finished(
    run: Run, out: Path, inputs: Inputs, identity: Mapping[str, Any]
) -> Manifest | None:
    """Return the manifest of a finished folder; None if it is not finished, or damaged.

    Raises:
        BuildError: The folder was built from other inputs or options, or its manifest cannot be
            read.
    """
    if not is_built(out):
        return None
    manifest = load_finished(out, identity, find_sources(run, inputs))
    if manifest is not None:
        Unfinished(out).remove()
    return manifest


# A file of lines ----------------------------------------------------------------------------------


def annotate(
    inputs: Inputs, out: Path, form: LineForm, *, progress: Tell = lambda _: None
) -> LineCounts:
    """Write a file of lines of entities, or resume an interrupted run, in this process.

    Args:
        inputs: Input files, from `plan.find`. The pipeline's annotator finds the entities.
        out: The output file, which is written when it is complete.
        form: Form of the lines.
        progress: Called at the start and after each work unit.

    Returns:
        The counts of the whole file.

    Raises:
        AnnotateError: The output file exists.
        BuildError: Another process writes the file, an unfinished run had other inputs or options,
            or too many documents are set aside.
        MslmDataError: The inputs, the pipeline or the model are wrong.
    """
    check_new(out)
    folder = Unfinished(out.with_name(f"{out.name}.parts"))
    identity = collect_line_identity(inputs, form)
    to = ToLines(names=list_document_names(inputs), form=form)
    work = BuildWork(pipeline=inputs.pipeline, folder=folder.out, to=to)

    folder.check_output(())
    with start(work, workers=1) as run, folder.locked(is_part=False):
        check_new(out)  # another process may have finished the file meanwhile
        folder.prepare(())
        folder.clear_leftovers(())
        units = BuildUnits(run, folder, inputs, identity, progress, compares=False)
        units.build()
        with units.asking():
            for split, outcomes in units.outcomes().items():
                check_set_aside(inputs.pipeline, split, outcomes)

        pieces = (folder.piece(unit.name, PIECE).read_bytes() for unit in units.plan.units)
        write_whole(out, map(Numbering(form), itertools.chain([b""], pieces)))
    shutil.rmtree(folder.out, ignore_errors=True)
    return count(units.receipts.values())


# A preview ----------------------------------------------------------------------------------------


class Preview(NamedTuple):
    """The plan, labels and counts of a build that is not run.

    Attributes:
        plan: The plan.
        labels: Label of each index.
        counts: Split -> counts of documents and mentions, before annotation.
        set_aside: Documents that would be set aside.
    """

    plan: Plan
    labels: tuple[str, ...]
    counts: dict[str, Counts]
    set_aside: list[SetAside]


def plan_build(inputs: Inputs, tokenizer: Tokenizer, out: Path) -> Preview:
    """Plan a build and read all documents, without annotating or writing anything.

    Compressed files are not unpacked.

    Args:
        inputs: Input files, from `plan.find`.
        tokenizer: The tokenizer.
        out: The output folder.

    Raises:
        BuildError: The folder was built from other inputs or options, or has other files; or the
            build would end with an error about documents set aside, labels, ids or equal texts.
        MslmDataError: The inputs or the pipeline are wrong.
    """
    identity = collect_identity(inputs, tokenizer)
    pipeline = inputs.pipeline
    with tempfile.TemporaryDirectory() as temporary:
        folder = Unfinished(Path(temporary))
        folder.prepare(())
        work = BuildWork(pipeline=pipeline, folder=folder.out, to=ToRows(tokenizer=tokenizer))
        with start(work, workers=1) as run:
            if _open_finished(run, out, inputs, identity) is None:
                Unfinished(out).check_output(inputs.files)
            plan = make_plan(run, inputs, identity, folder, unpacks=False)
            outcomes = {task.unit.name: outcome for task, outcome in run(map(ReadUnit, plan.units))}
            [(_, found)] = run([FindDrops(plan.units)])

    check_equal_texts(found, inputs)
    whole = check_all_labels(pipeline, outcomes.values())
    counts = {}
    for split in inputs.files:
        of_split = [outcomes[unit.name] for unit in plan.units if unit.split == split]
        check_set_aside(pipeline, split, of_split)
        counts[split] = add_up(of_split).counts
    labels = pipeline.annotate.labels or tuple(whole.labels)
    return Preview(plan, labels, counts, whole.set_aside)


def _count_bytes(inputs: Inputs) -> int:
    return sum(path.stat().st_size for path in inputs.splits_of_paths())


def _preload(pipeline: Pipeline) -> Preload:
    argument = msgspec.json.encode(pipeline).decode()
    return Preload("mslm_data.builds.work:load_stages", argument)
