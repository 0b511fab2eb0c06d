"""Builds a folder of shards from a pipeline, inputs and a tokenizer, offline.

| file | what it holds |
|---|---|
| `story`, `rounds` | what a build does, in order; how engines are given it, round by round |
| `tasks`, `worker` | the tasks, and the worker that does them in any process |
| `scan`, `plan` | the input files; shards and work units; a record of all that decides bytes |
| `stages` | the source, annotator and segmenter that a pipeline names |
| `reading`, `crash_log`, `work_unit` | one unit, from its documents to its piece and receipt |
| `entity_lines` | the other writer: lines of entities in place of rows, for `mslm-data annotate` |
| `decontaminate` | removes training documents that share text with other folders |
| `duplicates` | documents that are copies of others |
| `duplicate_ids` | finds ids that occur in more than one unit |
| `folder` | the unfinished folder: its locks, its plan, its receipts |
| `finish` | the files beside the shards, `manifest.json` last |
| `texts`, `audit` | the same stages for other ends: training a vocabulary, weighing weak labels |

A build that was interrupted is resumed by the same call, and ends with the same bytes.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mslm_data.builds import scan, story
from mslm_data.builds.folder import (
    begin_again,
    check_output,
    claimed,
    clear_leftovers,
    clear_unfinished,
    damaged_files,
    finished_already,
    is_built,
    named_if_gone,
    prepare,
)
from mslm_data.builds.plan import Plan, collect_identity, find, labels_of, make_plan, take_stamps
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

__all__ = ["Progress", "annotate_found", "build", "build_found", "find", "planned"]

T = TypeVar("T")


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
        The folder's manifest; None if `part` left it unfinished. A finished folder is built again
        if its files are missing or damaged.

    Raises:
        BuildError: Another build has the folder, it was built from something else, or the build
            cannot be completed.
        MslmDataError: The inputs, the pipeline or the tokenizer are wrong.
    """
    return build_found(
        find(pipeline, inputs),
        tokenizer,
        out,
        workers=workers,
        engine=engine,
        part=part,
        progress=progress,
    )


def build_found(
    found: Inputs,
    tokenizer: Tokenizer,
    out: Path,
    *,
    workers: int | None,
    engine: str,
    part: tuple[int, int] | None,
    progress: Callable[[Progress], None],
) -> Manifest | None:
    """Build a folder as `build` does, of files that `find` has found.

    Raises:
        BuildError: As from `build`.
        MslmDataError: As from `build`.
    """
    identity = collect_identity(found, tokenizer)
    if not is_built(out):
        check_output(out, found.files)
    else:
        manifest, damaged = _finished(out, found, identity)
        if not damaged:
            return manifest

    with claimed(out, part), named_if_gone(out):
        if is_built(out):  # by another process, before this one had the lock; or it is damaged
            manifest, damaged = _finished(out, found, identity)
            if not damaged:
                return manifest
            check_output(out, found.files)
            begin_again(out, damaged)

        # What a part finds half written may be that of another part at work.
        alone = part is None
        prepare(out, found.files)
        if alone:
            clear_leftovers(out, found.files)

        worker = BuildWorker(
            pipeline=found.pipeline,
            tokenizer=tokenizer,
            folder=str(out),
            stamps=take_stamps(found),
        )
        if workers is None and _count_bytes(found) < WORTH_WORKERS:
            workers = 1

        counter = story.Counter(out, progress)
        steps = story.tell(out, found, tokenizer, identity, part=part, counter=counter)
        try:
            return _run(steps, worker, counter, engine=engine, workers=workers)
        except BaseException:
            # The engine has killed the workers, whatever they were at.
            with suppress(OSError):  # the disk may be what has failed
                if alone:
                    clear_leftovers(out, found.files)
            raise


def annotate_found(
    found: Inputs, out: Path, *, show_text: bool, progress: Callable[[Progress], None]
) -> LineCounts:
    """Write a file of lines of entities, or resume one that was interrupted, in this process.

    Args:
        found: From `find`; the pipeline's annotator finds the entities.
        out: The file.
        show_text: Whether entities have their characters too.
        progress: Called at the start and as units finish.

    Raises:
        AnnotateError: The file is there, and is not of an earlier run.
        BuildError: Another process writes the file, it was made of something else, or too many
            documents are set aside.
        MslmDataError: The inputs, the pipeline or the model are wrong.
    """
    from mslm_data.builds import entity_lines as lines  # no build needs it

    identity = lines.collect_identity(found, show_text=show_text)
    parts = lines.parts_of(out)
    counts = lines.finished(out, found, identity)
    if counts is not None:
        shutil.rmtree(parts, ignore_errors=True)
        return counts

    check_output(parts, ())
    with claimed(parts, None), named_if_gone(parts):
        counts = lines.finished(out, found, identity)
        if counts is not None:  # by another process, before this one had the lock
            shutil.rmtree(parts, ignore_errors=True)
            return counts

        prepare(parts, ())
        clear_leftovers(parts, ())
        worker = lines.LineWorker(
            pipeline=found.pipeline,
            folder=str(parts),
            stamps=take_stamps(found),
            names=lines.names_of(found, staging=parts / ".build" / "staging"),
            show_text=show_text,
        )
        counter = story.Counter(parts, progress)
        steps = lines.tell(out, parts, found, identity, counter=counter)
        made = _run(steps, worker, counter, engine="local", workers=1)
        assert made is not None  # noqa: S101 - it has come to its end
        return made


def _run(
    steps: Story[T], worker: UnitWorker, counter: story.Counter, *, engine: str, workers: int | None
) -> T | None:
    """Have an engine do what a story asks for, and return what it has made."""
    rounds = Rounds(steps, done=counter.count)
    run = ENGINES.load(engine)
    preload = _preload(worker.pipeline)
    run(worker, rounds.first(), workers=workers, done=rounds.take, preload=preload)
    return rounds.made


def planned(found: Inputs, tokenizer: Tokenizer, out: Path) -> tuple[Plan, tuple[str, ...]]:
    """Plan a build, and write nothing; compressed files stay as they are.

    Args:
        found: From `find`.
        tokenizer: As of `build`.
        out: The folder.

    Returns:
        The plan, and the label of each index. Where the pipeline has no labels, all documents are
        read for them.

    Raises:
        BuildError: The folder holds something else.
        MslmDataError: The inputs or the pipeline are wrong.
    """
    identity = collect_identity(found, tokenizer)
    if is_built(out):
        _load_manifest(out, found, identity)
    else:
        check_output(out, found.files)

    worker = BuildWorker(pipeline=found.pipeline, tokenizer=tokenizer, folder="", stamps={})
    rounds = Rounds(scan.scan_inputs(found, staging=None))
    tasks = deque(rounds.first())
    while tasks:
        tasks += rounds.take(worker(tasks.popleft()))
    assert rounds.made is not None  # noqa: S101 - it has come to its end
    return make_plan(found, rounds.made, identity), labels_of(found)


def _finished(out: Path, found: Inputs, identity: Mapping[str, Any]) -> tuple[Manifest, list[str]]:
    """Return the manifest of a finished folder of these inputs, and its files that are damaged.

    What the build has left is cleared if no file is.
    """
    manifest = _load_manifest(out, found, identity)
    damaged = damaged_files(out, manifest)
    if not damaged:
        clear_unfinished(out)
    return manifest, damaged


def _load_manifest(out: Path, found: Inputs, identity: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a folder that is finished, if it is made of these inputs."""
    files = found.every_file()
    digests = scan.digest(Digest(0, tuple(map(str, files))))
    return finished_already(out, found, identity, dict(zip(files, digests, strict=True)))


def _count_bytes(found: Inputs) -> int:
    """Return the bytes of all inputs."""
    return sum(path.stat().st_size for path in found.splits_of_paths())


def _preload(pipeline: Pipeline) -> Preload:
    """Return the function that loads what workers need, and which stages these are."""
    return Preload("mslm_data.builds.worker:load_stages", pipeline.to_preload())
