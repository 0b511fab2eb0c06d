"""Start-up code of Python with this folder in PYTHONPATH, for a command and each of its workers."""

import os
from pathlib import Path

if os.environ.get("MSLM_TEST_NO_NETWORK"):
    from tests.security.network import forbid

    forbid(Path(os.environ["MSLM_TEST_NO_NETWORK"]))
if os.environ.get("MSLM_TEST_FAULT"):
    from tests.security.faults import inject

    inject(os.environ["MSLM_TEST_FAULT"])
