"""Prints the agreement of a folder's annotators, for `build` and `inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mslm_data.cli.output import echo, table

if TYPE_CHECKING:
    from mslm_data.shard.manifest import Manifest

_HEADS = ("label", "first", "second", "of first", "of second", "both", "F1")


def agreement_record(manifest: Manifest) -> dict[str, Any]:
    """Return the JSON key `agreement` with a record per pair of annotators; {} if there is one."""
    from mslm_data.shard.agreement import pairs

    if manifest.found_by is None:
        return {}
    return {"agreement": [pair._asdict() | {"f1": pair.f1} for pair in pairs(manifest.found_by)]}


def print_agreement(pairs: Sequence[Mapping[str, Any]]) -> None:
    """Print the agreement as a table; nothing if there are no pairs."""
    if pairs:
        echo("agreement of the annotators, by equal mentions:")
        echo(table(_HEADS, [[*pair.values()] for pair in pairs]))
