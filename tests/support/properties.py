"""Hypothesis profiles: few, fixed examples in `make test`, many random ones in `make test-long`."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

SLOW = HealthCheck.too_slow
"""Suppressed health check, as the duration of examples depends on other load."""


def register_profiles() -> None:
    """Register the profiles `daily` and `long`, and load `daily`.

    `daily` uses the same examples in each run, so a new failure is due to a change.
    `--hypothesis-profile long` uses new ones.
    """
    common: dict[str, Any] = {"deadline": None, "suppress_health_check": [SLOW]}
    settings.register_profile("daily", **common, max_examples=20, derandomize=True)
    settings.register_profile("long", **common, max_examples=200)
    settings.load_profile("daily")


def fewer(share: float, **options: Any) -> settings:
    """Return settings with a share of the profile's examples, at least five.

    For slow properties, and those tested for each of many strategies or readers.
    """
    return settings(max_examples=max(5, round(settings.default.max_examples * share)), **options)


def with_fixtures(share: float = 1) -> settings:
    """Return `fewer(share)` for properties whose examples share a function-scoped fixture."""
    return fewer(share, suppress_health_check=[SLOW, HealthCheck.function_scoped_fixture])
