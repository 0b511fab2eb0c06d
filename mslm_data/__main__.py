"""Runs `python -m mslm_data`, which is `mslm-data`."""

import sys

from mslm_data.cli import main

sys.exit(main())
