"""Cases of parametrised tests that only the long suite runs."""

from __future__ import annotations

from typing import Any

import pytest


def long(*cases: Any) -> list[Any]:
    """Return the cases, each marked as `long`; a tuple holds one value for each parameter."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for case in cases
    ]
