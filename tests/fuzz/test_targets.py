"""The table of targets is complete. `test_fuzz.py` tries the targets."""

from __future__ import annotations

from mslm_data.source import SOURCES
from tests.fuzz.targets import TARGETS


def test_targets__include_every_source() -> None:
    for source in SOURCES.names():
        assert any(f"{name}-".startswith(f"{source}-") for name in TARGETS), source
