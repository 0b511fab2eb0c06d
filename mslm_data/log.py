"""Holds the package's logger, `mslm_data`: silent until a program asks, as by `basicConfig`."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("mslm_data")
LOGGER.addHandler(logging.NullHandler())
