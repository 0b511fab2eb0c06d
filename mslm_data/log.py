"""Holds the package's logger, named `mslm_data`; silent until a program asks for it, as by `logging.basicConfig`."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("mslm_data")
LOGGER.addHandler(logging.NullHandler())
