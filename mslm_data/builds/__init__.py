"""Builds a folder of shards from a pipeline, input files and a tokenizer.

| file | contents |
|---|---|
| `story`, `rounds` | the order of a build's tasks; passes them to an engine, round by round |
| `tasks`, `worker` | the tasks, and the worker that runs them in any process |
| `scan`, `plan` | input files; shards, work units, and the record of a build |
| `stages` | makes the source, annotator and segmenter of a pipeline |
| `reading`, `crash_log`, `work_unit` | one work unit, from its documents to its piece and receipt |
| `entity_lines` | writes JSON lines of entities instead of rows, for `mslm-data annotate` |
| `decontaminate` | removes training documents with text of held-out folders |
| `duplicates` | finds copies of documents |
| `duplicate_ids` | finds ids in more than one work unit |
| `data_loss` | decides when lost documents and mentions are errors |
| `folder` | the unfinished folder: locks, plan, receipts |
| `finish`, `card` | the files beside the shards, `manifest.json` last |
| `audit`, `subset` | scores weak labels; writes a subset of a built folder |
| `verify`, `push` | checks a built folder; uploads one |

Building is offline. The same call resumes an interrupted build, and the bytes are the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mslm_data.builds import scan, story
from mslm_data.builds.folder import (
    check_output,
    clear_leftovers,
    clear_unfinished,
    find_damaged_files,
    is_built,
    load_finished,
    lock_build,
    prepare,
    reopen,
    report_if_gone,
)
from mslm_data.builds.plan import (
    Plan,
    collect_identity,
    collect_labels,
    find,
    make_plan,
    take_stamps,
)
from mslm_data.builds.rounds import Rounds, Story
from mslm_data.builds.stages import Inputs
from mslm_data.builds.story import Progress
from mslm_data.builds.tasks import Digest
from mslm_data.builds.worker import BuildWorker, UnitWorker
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.engine import ENGINES, WORTH_WORKERS, Preload
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest

if TYPE_CHECKING:
    from mslm_data.builds.entity_lines import LineCounts

__all__ = ["Progress", "annotate_inputs", "build", "find", "plan_build"]

T = TypeVar("T")


def build(
    inputs: Inputs,
    tokenizer: Tokenizer,
    out: Path,
    *,
    workers: int | None = None,
    engine: str = "local",
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Manifest | None:
    """Build a folder, or resume an interrupted build.

    Args:
        inputs: Input files, from `find`, with the pipeline.
        tokenizer: The tokenizer.
        out: The output folder, created if missing.
        workers: Number of processes. Default: 1 for small inputs, otherwise the engine's number of
            CPUs.
        engine: Name of the engine that runs the work units. Default: `local`.
        part: `(i, n)` builds every n-th work unit from unit i, counted from 1, and leaves the
            folder unfinished. Default: all units.
        progress: Called at the start and after each work unit.

    Returns:
        The manifest; None if `part` is given and the folder is unfinished. A finished folder with
            missing or damaged files is built again.

    Raises:
        BuildError: Another build uses the folder, the folder was built from other inputs or
            options, or the build cannot be completed.
        MslmDataError: The inputs, the pipeline or the tokenizer are wrong.
    """
    identity = collect_identity(inputs, tokenizer)
    if not is_built(out):
        check_output(out, inputs.files)
    else:
        manifest, damaged = _load_finished(out, inputs, identity)
        if not damaged:
            return manifest

    with lock_build(out, part), report_if_gone(out):
        # Check again under the lock: another process may have finished the folder meanwhile.
        if is_built(out):
            manifest, damaged = _load_finished(out, inputs, identity)
            if not damaged:
                return manifest
            check_output(out, inputs.files)
            reopen(out, damaged)

        # Only a build of all units may clear half-written files: they may belong to another part
        # that is running.
        alone = part is None
        prepare(out, inputs.files)
        if alone:
            clear_leftovers(out, inputs.files)

        worker = BuildWorker(
            pipeline=inputs.pipeline,
            tokenizer=tokenizer,
            folder=str(out),
            stamps=take_stamps(inputs),
        )
        # Starting workers takes longer than a small build.
        if workers is None and _count_bytes(inputs) < WORTH_WORKERS:
            workers = 1

        counter = story.Counter(out, progress)
        steps = story.tell(out, inputs, tokenizer, identity, part=part, counter=counter)
        try:
            return _run(steps, worker, counter.count, engine=engine, workers=workers)
        except BaseException:
            # No worker runs any more: the engine has killed them.
            with suppress(OSError):  # a full or failed disk may be the first error
                if alone:
                    clear_leftovers(out, inputs.files)
            raise


def annotate_inputs(
    inputs: Inputs, out: Path, *, show_text: bool, progress: Callable[[Progress], None]
) -> LineCounts:
    """Write a file of JSON lines of entities, or resume an interrupted run, in this process.

    Args:
        inputs: Input files, from `find`. The pipeline's annotator finds the entities.
        out: The output file.
        show_text: Whether to write the text of each entity.
        progress: Called at the start and after each work unit.

    Returns:
        The counts of the whole file.

    Raises:
        AnnotateError: The output file exists and was not written by this command.
        BuildError: Another process writes the file, it was made from other inputs or options, or
            too many documents are set aside.
        MslmDataError: The inputs, the pipeline or the model are wrong.
    """
    from mslm_data.builds import entity_lines as lines  # no build needs it

    identity = lines.collect_identity(inputs, show_text=show_text)
    parts = lines.parts_folder(out)
    counts = lines.load_finished(out, inputs, identity)
    if counts is not None:
        shutil.rmtree(parts, ignore_errors=True)
        return counts

    check_output(parts, ())
    with lock_build(parts, None), report_if_gone(parts):
        counts = lines.load_finished(out, inputs, identity)
        if counts is not None:  # another process has finished it before this one had the lock
            shutil.rmtree(parts, ignore_errors=True)
            return counts

        prepare(parts, ())
        clear_leftovers(parts, ())
        worker = lines.LineWorker(
            pipeline=inputs.pipeline,
            folder=str(parts),
            stamps=take_stamps(inputs),
            names=lines.list_document_names(inputs, staging=parts / ".build" / "staging"),
            show_text=show_text,
        )
        counter = story.Counter(parts, progress)
        steps = lines.tell(out, parts, inputs, identity, counter=counter)
        result = _run(steps, worker, counter.count, engine="local", workers=1)
        assert result is not None  # noqa: S101 - the story has ended
        return result


def _run(
    steps: Story[T],
    worker: UnitWorker,
    done: Callable[[str], object],
    *,
    engine: str,
    workers: int | None,
) -> T | None:
    """Run a story on an engine, and return its result; None if the story ends without one."""
    rounds = Rounds(steps, done=done)
    run = ENGINES.load(engine)
    preload = _preload(worker.pipeline)
    run(worker, rounds.first(), workers=workers, done=rounds.take, preload=preload)
    return rounds.result


def plan_build(inputs: Inputs, tokenizer: Tokenizer, out: Path) -> tuple[Plan, tuple[str, ...]]:
    """Plan a build without writing anything. Compressed files are not unpacked.

    Args:
        inputs: Input files, from `find`.
        tokenizer: The tokenizer.
        out: The output folder.

    Returns:
        The plan, and the label of each index. If the pipeline names no labels, all documents are
            read to collect them.

    Raises:
        BuildError: The folder was built from other inputs or options, or has other files.
        MslmDataError: The inputs or the pipeline are wrong.
    """
    identity = collect_identity(inputs, tokenizer)
    if is_built(out):
        _load_manifest(out, inputs, identity)
    else:
        check_output(out, inputs.files)

    # Scan in this process: a plan is not worth starting workers for.
    worker = UnitWorker(pipeline=inputs.pipeline, folder="", stamps={})
    steps = scan.scan_inputs(inputs, staging=None)
    scanned = _run(steps, worker, lambda _: None, engine="local", workers=1)
    assert scanned is not None  # noqa: S101 - the story has ended
    return make_plan(inputs, scanned, identity), collect_labels(inputs)


def _load_finished(
    out: Path, inputs: Inputs, identity: Mapping[str, Any]
) -> tuple[Manifest, list[str]]:
    """Return the manifest of a finished folder, and the names of its damaged files.

    Without damage, the unfinished state of the build is removed.
    """
    manifest = _load_manifest(out, inputs, identity)
    damaged = find_damaged_files(out, manifest)
    if not damaged:
        clear_unfinished(out)
    return manifest, damaged


def _load_manifest(out: Path, inputs: Inputs, identity: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a finished folder, after checking its inputs and options."""
    files = inputs.every_file()
    digests = scan.digest(Digest(0, tuple(map(str, files))))
    return load_finished(out, inputs, identity, dict(zip(files, digests, strict=True)))


def _count_bytes(inputs: Inputs) -> int:
    return sum(path.stat().st_size for path in inputs.splits_of_paths())


def _preload(pipeline: Pipeline) -> Preload:
    return Preload("mslm_data.builds.worker:load_stages", pipeline.to_preload())
