"""How many examples a property is tried on: few in `make test`, many in `make test-long`."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

SLOW = HealthCheck.too_slow
"""Not checked: how long an example takes says how busy the machine is."""


def register_profiles() -> None:
    """Register both profiles, and load that of `make test`.

    `daily` tries the same examples each time, so a failure belongs to the change at hand.
    `--hypothesis-profile long` tries others each time.
    """
    common: dict[str, Any] = {"deadline": None, "suppress_health_check": [SLOW]}
    settings.register_profile("daily", **common, max_examples=20, derandomize=True)
    settings.register_profile("long", **common, max_examples=200)
    settings.load_profile("daily")


def fewer(share: float, **options: Any) -> settings:
    """Return settings for a share of the profile's examples, and for five at least.

    For properties that are costly, or tried for each of many strategies or readers.
    """
    return settings(max_examples=max(5, round(settings.default.max_examples * share)), **options)


def with_fixtures(share: float = 1) -> settings:
    """Return the same for properties whose examples share what a fixture made, such as a folder."""
    return fewer(share, suppress_health_check=[SLOW, HealthCheck.function_scoped_fixture])
