"""Context flags of mentions, such as negation, as bits of an int8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from mslm_data.data.reason import Reason

Flag = Literal["negated", "uncertain", "hypothetical", "historical", "family"]
FLAGS: tuple[Flag, ...] = get_args(Flag)
"""Flag `i` is bit `1 << i`::

    bit  flag          example, for the mention `diabetes`
    1    negated       denies diabetes
    2    uncertain     possible diabetes
    4    hypothetical  return if diabetes develops
    8    historical    history of diabetes
    16   family        mother with diabetes

A mention with the value 17 (`1 + 16`) is negated, and about the family.
"""

REASONS: dict[str, Reason] = {flag: Reason(f"context is {flag}", is_rule=True) for flag in FLAGS}
"""Flag -> reason for dropping a mention with this flag, see `annotate.leave_out_context`."""


def encode_flags(flags: Iterable[str]) -> int:
    """Convert flags to an integer: `["negated", "family"]` -> 17."""
    return sum(1 << FLAGS.index(flag) for flag in set(flags))


def decode_flags(bits: int) -> list[str]:
    """Convert an integer to flags, in bit order: 17 -> `["negated", "family"]`."""
    return [flag for number, flag in enumerate(FLAGS) if bits >> number & 1]
