"""Loads what workers need in memory: imported once, by the process that they are forked from.

So a large concept model is loaded once, and its pages are shared by all workers.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import msgspec

from mslm_data.builds import work_unit  # noqa: F401 - with all that it imports
from mslm_data.builds.stages import load_annotator
from mslm_data.engine import PRELOAD
from mslm_data.errors import MslmDataError
from mslm_data.kernels import _jit
from mslm_data.pipeline import AnnotateOptions

_told = os.environ.get(PRELOAD)
if _told:
    _jit.load_compiled()
    with suppress(MslmDataError):  # the workers meet the error again, and report it
        load_annotator(msgspec.json.decode(_told, type=AnnotateOptions))

    # Collections would write into the pages of these objects, and so give each worker its own copy.
    gc.freeze()
