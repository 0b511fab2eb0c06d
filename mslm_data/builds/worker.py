"""Runs the tasks of a build in any process.

`UnitWorker` runs the tasks before the work units. `BuildWorker` adds tasks that write rows,
`entity_lines.LineWorker` the task that writes lines of entities.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds import decontaminate, scan
from mslm_data.builds.crash_log import CrashLog
from mslm_data.builds.duplicate_ids import compare
from mslm_data.builds.folder import is_joined, piece_path, write_joined
from mslm_data.builds.plan import Stamp, check_unchanged_files
from mslm_data.builds.reading import Record, read_ahead, read_records
from mslm_data.builds.stages import load_annotator, make_schema, make_source
from mslm_data.builds.tasks import (
    Compare,
    Cut,
    Digest,
    Join,
    Match,
    Sign,
    Task,
    Unpack,
    WorkUnit,
    answer,
)
from mslm_data.builds.work_unit import build_unit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import MslmDataError
from mslm_data.kernels import _jit
from mslm_data.pipeline import AnnotateOptions, Pipeline
from mslm_data.segment import SEGMENTERS
from mslm_data.shard.pieces import join
from mslm_data.source import SOURCES


@dataclass(frozen=True, kw_only=True)
class UnitWorker:
    """Scans input files, and reads the records of work units; see `engine.Worker`.

    Attributes:
        pipeline: The pipeline.
        folder: The unfinished folder.
        stamps: Input file -> size and times of its files when the build began.
    """

    pipeline: Pipeline
    folder: str
    stamps: Mapping[str, tuple[Stamp, ...]]
    _read_ahead: dict[WorkUnit, Iterator[Record]] = field(
        default_factory=dict, init=False, repr=False
    )
    """Work unit -> its records, read in advance while the unit before is encoded."""

    def __call__(self, task: Task) -> str:
        """Run a task, and return its answer.

        Raises:
            SourceError: An input file has changed since the build began.
        """
        check_unchanged_files(self.stamps, task.paths)
        value = self._do(task)
        check_unchanged_files(self.stamps, task.paths)
        return answer(task, value)

    def expect(self, task: Task) -> None:
        """Start reading the next work unit in a thread; see `engine.Worker`."""
        if isinstance(task, WorkUnit):
            self._read_ahead[task] = read_ahead(self._read(task))

    def suspect(self, task: Task) -> None:
        """Log each document of the task from now on; see `engine.Worker`."""
        CrashLog(Path(self.folder), task.name).suspect()

    def died(self, task: Task, how: str) -> None:
        """Record a crash of the task; see `engine.Worker`."""
        CrashLog(Path(self.folder), task.name).died(how)

    def _do(self, task: Task) -> Any:
        match task:
            case Unpack():
                scan.unpack(task, lambda: check_unchanged_files(self.stamps, task.paths))
            case Digest():
                return scan.digest(task)
            case Cut():
                return scan.cut(task, make_source(self.pipeline))
        return None

    def _read(self, unit: WorkUnit) -> Iterator[Record]:
        return read_records(unit, self.pipeline)

    def _records(self, unit: WorkUnit) -> Iterator[Record]:
        """Yield the records of a work unit, then check its inputs again.

        Results are written after this check. So a resumed build never uses results of inputs that
        were changed meanwhile and then restored.
        """
        # The reading may have begun in a thread; see `expect`.
        yield from self._read_ahead.pop(unit, None) or self._read(unit)
        check_unchanged_files(self.stamps, unit.paths)


@dataclass(frozen=True, kw_only=True)
class BuildWorker(UnitWorker):
    """Runs all tasks of a build; see `engine.Worker`.

    Attributes:
        tokenizer: The tokenizer.
    """

    tokenizer: Tokenizer

    def _do(self, task: Task) -> Any:
        match task:
            case Sign():
                self._sign(task)
            case Match():
                from mslm_data.builds.duplicates import match

                match(task, self.pipeline, Path(self.folder))
            case WorkUnit():
                records = self._records(task)
                build_unit(task, records, self.pipeline, self.tokenizer, Path(self.folder))
            case Compare():
                return compare(task, Path(self.folder))
            case Join():
                self._join(task)
            case _:
                return super()._do(task)
        return None

    def _sign(self, task: Sign) -> None:
        from mslm_data.builds.duplicates import write_signatures

        records = self._records(task.unit)
        write_signatures(task, records, self.pipeline, Path(self.folder))

    def _join(self, task: Join) -> None:
        out = Path(self.folder)
        pieces = [piece_path(out, name) for name in task.pieces]
        # The shard may be complete: a process can die while it removes the pieces.
        if not is_joined(out, task):
            record = join(
                pieces,
                out / task.split / f"data-{task.shard:05d}-of-{task.num_shards:05d}.arrow",
                make_schema(self.pipeline, task.labels, task.doc_labels),
            )
            write_joined(out, task.name, record)
        for piece in pieces:
            piece.unlink(missing_ok=True)


class _Stages(msgspec.Struct):
    """Stages to load in advance, from `Pipeline.to_preload`."""

    source: str
    annotate: AnnotateOptions
    segment: str
    decontaminate: tuple[str, ...] = ()


def load_stages(argument: str) -> None:
    """Load models, compiled kernels and held-out folders, so that worker processes share them.

    Errors are ignored here. Workers meet them again, and report them.

    Args:
        argument: From `Pipeline.to_preload`.
    """
    stages = msgspec.json.decode(argument, type=_Stages)
    with suppress(MslmDataError):
        SOURCES.load(stages.source)
        SEGMENTERS.load(stages.segment)
    _jit.load_compiled()
    with suppress(MslmDataError):
        load_annotator(stages.annotate)
    if stages.decontaminate:
        # A tokenizer that started threads before a fork prints a warning in each worker.
        threads = os.environ.get("TOKENIZERS_PARALLELISM")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with suppress(MslmDataError):
            decontaminate.load_folders(stages.decontaminate)
        if threads is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = threads
