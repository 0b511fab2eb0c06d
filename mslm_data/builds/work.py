"""Runs the tasks of a build, in any process."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from mslm_data.builds import decontaminate, scan
from mslm_data.builds.copies import find_drops
from mslm_data.builds.folder import Receipt, Unfinished
from mslm_data.builds.stages import load_annotator, make_schema, make_source
from mslm_data.builds.tasks import (
    BuildUnit,
    Cut,
    Digest,
    FindDrops,
    Join,
    ReadUnit,
    Task,
    Unpack,
)
from mslm_data.builds.unit import read_unit
from mslm_data.errors import MslmDataError
from mslm_data.kernels.keys import name_rows
from mslm_data.pipeline import Pipeline
from mslm_data.segment import SEGMENTERS
from mslm_data.shard.pieces import join
from mslm_data.shard.write import ShardRecord
from mslm_data.source import SOURCES


class To(Protocol):
    """Builds work units with the output of a command: rows or lines."""

    def build(self, task: BuildUnit, pipeline: Pipeline, folder: Unfinished) -> Receipt:
        """Build a work unit."""
        ...


@dataclass(frozen=True, kw_only=True)
class BuildWork:
    """Runs the tasks of a build; see `engine.Work`.

    Attributes:
        pipeline: The pipeline.
        folder: The output folder, or that of unfinished lines.
        to: What work units write.
    """

    pipeline: Pipeline
    folder: Path
    to: To

    def __call__(self, task: Task) -> Any:  # noqa: PLR0911 - one for each kind of task
        """Run a task, and return its answer."""
        unfinished = Unfinished(self.folder)
        source = make_source(self.pipeline)
        match task:
            case Unpack():
                return scan.unpack(task)
            case Cut():
                return scan.cut(task, source.for_split(task.split))
            case ReadUnit():
                return read_unit(task, self.pipeline, unfinished)
            case FindDrops():
                return find_drops(task, self.pipeline, unfinished)
            case BuildUnit():
                # With its receipt, the unit is done.
                receipt = self.to.build(task, self.pipeline, unfinished)
                unfinished.write_receipt(task.name, receipt)
                return receipt
            case Digest():
                return scan.digest(task)
            case Join():
                return self._join(task, unfinished)

    def _join(self, task: Join, unfinished: Unfinished) -> ShardRecord:
        pieces = [unfinished.piece(name) for name in task.pieces]
        # The shard may be complete: a process can die while it removes the pieces.
        record = unfinished.joined(task.name, task.made)
        if record is None:
            path = self.folder / task.split / task.file
            record = join(pieces, path, make_schema(self.pipeline, task.labels, task.doc_labels))
            unfinished.write_joined(task.name, task.made, record)
        for piece in pieces:
            piece.unlink(missing_ok=True)
        return record


def load_stages(argument: str) -> None:
    """Load models, compiled kernels and held-out folders, so that worker processes share them.

    Errors are ignored here. Workers meet them again, and report them.

    Args:
        argument: The pipeline as JSON.
    """
    pipeline = msgspec.json.decode(argument, type=Pipeline)
    with suppress(MslmDataError):
        SOURCES.load(pipeline.source.use)
        SEGMENTERS.load(pipeline.segment.use)
    _start_numba()
    with suppress(MslmDataError):
        load_annotator(pipeline.annotate)
    if pipeline.source.decontaminate:
        # A tokenizer that started threads before a fork prints a warning in each worker.
        threads = os.environ.get("TOKENIZERS_PARALLELISM")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with suppress(MslmDataError):
            decontaminate.load_folders(pipeline.source.decontaminate)
        if threads is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = threads


def _start_numba() -> None:
    """Call a kernel, for no rows: the first call imports what numba needs."""
    keys = np.empty(0, np.uint64)
    numbers = np.empty(0, np.int64)
    name_rows(keys, numbers, numbers, keys)
