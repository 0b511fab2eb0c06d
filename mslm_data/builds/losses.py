"""Count the documents and mentions that a build lost, by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from mslm_data.shard.manifest import SplitRecord

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Documents and mentions that a build read, kept and lost in a split, by reason.

    Attributes:
        read: Number of documents read.
        written: Number of documents with at least one row.
        given_mentions: Number of mentions from the source or annotator.
        mentions: Number of mentions in rows.
        not_chosen: Reason -> number of records that the pipeline did not choose.
        set_aside: Reason -> number of documents without rows. Numbers in reasons are replaced by
            "…".
        left_out: Reason -> number of mentions in no row.
        changed: Reason -> number of mentions that differ from the source's.
        copies: `exact` and `near` -> number of documents that are copies of others, if counted.
    """

    read: int
    written: int
    given_mentions: int
    mentions: int
    not_chosen: Mapping[str, int]
    set_aside: Mapping[str, int]
    left_out: Mapping[str, int]
    changed: Mapping[str, int]
    copies: Mapping[str, int] = field(default_factory=dict)


class _SetAside(msgspec.Struct):
    """The counted fields of a line in `set_aside.jsonl`."""

    split: str
    reason: str


def count_losses(
    records: Mapping[str, SplitRecord], set_aside: Iterable[bytes]
) -> dict[str, Losses]:
    """Count the documents and mentions that a build lost in each split.

    Args:
        records: Name of a split -> its record in the manifest.
        set_aside: Lines of `set_aside.jsonl`.

    Raises:
        msgspec.DecodeError: A line is not valid.
    """
    decode = msgspec.json.Decoder(_SetAside).decode
    reasons: dict[str, Counter[str]] = {name: Counter() for name in records}
    for line in set_aside:
        # Numbers in reasons are replaced, so that reasons such as "line 3: …" count as one.
        aside = decode(line)
        if aside.split in reasons:
            reasons[aside.split][_NUMBER.sub("…", aside.reason)] += 1

    return {
        name: Losses(
            read=record.read,
            written=record.written,
            given_mentions=record.given_mentions,
            mentions=record.mentions,
            not_chosen=dict(record.not_chosen),
            set_aside=dict(reasons[name].most_common()),
            left_out=dict(record.left_out),
            changed={**record.adjusted, **_changed(record)},
            copies=record.copies,
        )
        for name, record in records.items()
    }


def _changed(record: SplitRecord) -> dict[str, int]:
    """Return the number of mentions changed by encoding, by reason, without zeros."""
    changed = {
        "longer than a row, and cut": record.cut_mentions,
        "widened to whole tokens": record.widened_mentions,
    }
    return {reason: count for reason, count in changed.items() if count}
