"""What worker processes have in memory before they begin: imported once, by the process that they are forked from.

So a large concept model is loaded once, and its pages are shared by all workers.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import msgspec

from mslm_data.builds import unit  # noqa: F401 - with all that it imports
from mslm_data.builds.reading import started
from mslm_data.engine import PRELOAD
from mslm_data.errors import MslmDataError
from mslm_data.pipeline import Annotate

_told = os.environ.get(PRELOAD)
if _told:
    with suppress(MslmDataError):  # the workers meet it again, and say so
        started(msgspec.json.decode(_told, type=Annotate))
    gc.freeze()
