"""Loads what workers need in memory: imported once, by the process that they are forked from.

So a large concept model, and what folders of `source.leave_out` hold, are loaded once, and their
pages are shared by all workers.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import msgspec

from mslm_data.builds import leave_out, work_unit  # noqa: F401 - with all that it imports
from mslm_data.builds.stages import load_annotator
from mslm_data.engine import PRELOAD
from mslm_data.errors import MslmDataError
from mslm_data.kernels import _jit
from mslm_data.pipeline import AnnotateOptions
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES


class _Stages(msgspec.Struct):
    """Stages of the pipeline that is built, from `Pipeline.to_preload`."""

    source: str
    annotate: AnnotateOptions
    segment: str
    leave_out: tuple[str, ...] = ()


_told = os.environ.get(PRELOAD)
if _told:
    _stages = msgspec.json.decode(_told, type=_Stages)

    # The workers meet errors again, and report them.
    with suppress(MslmDataError):
        SOURCES.load(_stages.source)
        SEGMENTERS.load(_stages.segment)
    _jit.load_compiled()
    with suppress(MslmDataError):
        load_annotator(_stages.annotate)
    if _stages.leave_out:
        # A tokenizer that has threads of its own before a fork would say so in each worker.
        threads = os.environ.get("TOKENIZERS_PARALLELISM")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with suppress(MslmDataError):
            leave_out.known(_stages.leave_out)
        if threads is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = threads

    # Collections would write into the pages of these objects, and so give each worker its own copy.
    gc.freeze()
