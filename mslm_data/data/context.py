"""The flags that say in which context a mention stands, as bits of one number."""

from __future__ import annotations

from collections.abc import Iterable

from mslm_data.data.reason import Reason

FLAGS = ("negated", "uncertain", "hypothetical", "historical", "family")
"""Flag `i` is the bit `1 << i`.

A mention is negated if it is not there, uncertain if it may be there, hypothetical if it may come
or is a condition, historical if it was there before, and of the family if somebody else than the
patient has it.
"""

REASONS = {flag: Reason(f"context is {flag}", is_rule=True) for flag in FLAGS}
"""Flag -> the reason for which mentions that have it are left out."""


def encode_flags(flags: Iterable[str]) -> int:
    """Return the number that has the bits of some flags."""
    return sum(1 << FLAGS.index(flag) for flag in set(flags))


def decode_flags(bits: int) -> list[str]:
    """Return the flags of a number, in the order of their bits."""
    return [flag for number, flag in enumerate(FLAGS) if bits >> number & 1]
