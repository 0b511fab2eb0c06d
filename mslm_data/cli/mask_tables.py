"""Makes the output of `mask-stats`: the JSON object, and tables for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mslm_data.cli.output import echo, table

if TYPE_CHECKING:
    from mslm_data.stats import MaskStats, SweepPoint

_Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""The heading and the rows of a table."""

_COUNTS = ("tokens", "maskable_tokens", "mentions", "mention_tokens", "masked_mentions")
"""Counts to show below the number of rows."""


def as_dict(stats: MaskStats, scheme: str) -> dict[str, Any]:
    """Return the counts for `--json`, without the options of the command.

    Args:
        stats: The counts.
        scheme: The weighting scheme to mark.
    """
    from mslm_data.stats.weights import SCHEMES

    counts = dataclasses.asdict(stats)
    lengths = {side: counts.pop(side) for side in ("shorter", "longer")}
    weights = {name: _weighed(name, stats) for name in SCHEMES}
    return {
        **counts,
        **dataclasses.asdict(stats.weights),
        "weights": weights,
        "chosen_weights": {"scheme": scheme, **weights[scheme]},
        "lengths": lengths,
    }


def point_as_dict(point: SweepPoint, scheme: str, epochs: int) -> dict[str, Any]:
    """Return the counts at one pair of rates of `--sweep`, with the weights of a scheme."""
    stats = point.stats
    sides = {
        side: {**dataclasses.asdict(counts), "realised_rate": counts.masked_share(epochs)}
        for side, counts in (("shorter", stats.shorter), ("longer", stats.longer))
    }

    return {
        "elm": point.elm,
        "blm": point.blm,
        "n_elm": stats.n_elm,
        "n_blm": stats.n_blm,
        **_weighed(scheme, stats),
        "realised_rate": stats.realised_rate,
        "realised_elm": stats.realised_elm,
        "effective_blm": stats.effective_blm,
        "saturated": stats.weights.saturated,
        **sides,
    }


def print_tables(report: Mapping[str, Any]) -> None:
    """Print the JSON object as tables."""
    from mslm_data.stats.effective_rates import ROUNDED_UP, EffectiveRate

    rates = [rate for rate in report["rates"] if rate["asked"] is not None]
    listed = "".join(f"{rate['name']} {rate['asked']:g}, " for rate in rates)
    options = f"{listed}seed {report['seed']}, epochs {report['epochs']}"
    echo(f"{report['split']}, strategy {report['strategy']}: {options}")

    counts = [("rows", report["sequences"])]
    counts += [(count.replace("_", " "), report[count]) for count in _COUNTS]
    echo(table(("", ""), counts).removeprefix("\n"))

    if report["rates"]:
        echo()
        echo(table(*_rates(report)))
        if any(EffectiveRate(**rate).is_rounded_up for rate in rates):
            echo(ROUNDED_UP)

    tables = [
        _kinds(report),
        _schemes(report),
        _hidden(report),
        _labels(report),
        _lengths(report),
    ]
    if "sweep" in report:
        tables.append(_sweep(report))
    if "top_words" in report:
        words = [tuple(word.values()) for word in report["top_words"]]
        tables.append((("word", "masked", "occurrences"), words))

    for head, rows in tables:
        echo()
        echo(table(head, rows))

    if "sweep" in report:
        _print_clipped(report["sweep"])


def _rates(report: Mapping[str, Any]) -> _Table:
    """Return the table of rates with the masked shares."""
    return ("", "rate", "masked", ""), [rate_cells(rate) for rate in report["rates"]]


def rate_cells(rate: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return the cells of a rate: name, rate, masked share, and the unit of the share."""
    name = rate["name"] if rate["name"] == "rate" else rate["name"].upper()
    asked = "varies" if rate["asked"] is None else f"{rate['asked']:.2%}"
    return name, asked, f"{rate['masked']:.2%}", f"of the {rate['of']}"


def _kinds(report: Mapping[str, Any]) -> _Table:
    """Return the table of ELM and BLM counts with the weights of Abaho et al. 2024 per equation."""
    in_all = report["maskable_tokens"] * report["epochs"]
    rows = []
    for kind in ("elm", "blm"):
        count = report[f"n_{kind}"]
        share = count / in_all if in_all else 0.0
        weights = [report[f"w_{kind}{step}"] for step in ("_raw", "_clipped", "")]
        rows.append((kind.upper(), count, f"{share:.2%}", *weights))

    return ("", "N", "of tokens", "w, Eq. 2", "Eq. 3", "Eq. 5"), rows


def _schemes(report: Mapping[str, Any]) -> _Table:
    """Return the table of weights per scheme, with a star at the chosen one."""
    chosen = report["chosen_weights"]["scheme"]
    rows = [
        (f"{name} *" if name == chosen else name, pair["w_elm"], pair["w_blm"])
        for name, pair in report["weights"].items()
    ]
    return ("weights", "ELM", "BLM"), rows


def _hidden(report: Mapping[str, Any]) -> _Table:
    """Return the table of masks, over both kinds."""
    in_rows = f"of {report['sequences'] * report['epochs']:,}"
    in_mentions = f"of {report['mentions'] * report['epochs']:,}"
    entropy = f"entropy {report['masked_word_entropy']:.2f} bits"

    rows = [
        (
            "tokens",
            f"{report['masked_tokens']:,}",
            f"{report['realised_rate']:.2%} of those that can be",
        ),
        ("in mentions", f"{report['share_in_mentions']:.2%}", "of masked tokens"),
        ("rows under budget", f"{report['rows_under_budget']:,}", in_rows),
        ("rows with no mask", f"{report['rows_without_mask']:,}", in_rows),
        ("mentions whole", f"{report['mentions_whole']:,}", in_mentions),
        ("mentions partly", f"{report['mentions_partly']:,}", in_mentions),
        ("mentions untouched", f"{report['mentions_untouched']:,}", in_mentions),
        ("mean run", f"{report['mean_run_length']:.2f}", "tokens side by side"),
        (
            "words",
            f"{report['masked_words']:,}",
            f"{report['masked_word_types']:,} different; {entropy}",
        ),
    ]
    return ("masked", "", ""), rows


def _labels(report: Mapping[str, Any]) -> _Table:
    rows = [(label, *counts.values()) for label, counts in report["labels"].items()]
    return ("label", "mentions", "their tokens", "masked"), rows


def _lengths(report: Mapping[str, Any]) -> _Table:
    """Return the table of rows shorter and longer than average (Abaho et al. 2024, Table 5)."""
    rows = [
        (f"{side} than {report['mean_words']:.2f} words", *counts.values())
        for side, counts in report["lengths"].items()
    ]
    return ("rows", "number", "tokens", "maskable", "N_ELM", "N_BLM"), rows


def _sweep(report: Mapping[str, Any]) -> _Table:
    """Return the table of pairs of rates."""
    rows = []
    for point in report["sweep"]:
        masked = [side["realised_rate"] for side in (point, point["shorter"], point["longer"])]
        rows.append(
            (
                f"{point['elm']:g}",
                f"{point['blm']:g}",
                f"{point['realised_elm']:.2%}",
                f"{point['effective_blm']:.2%}",
                point["n_elm"],
                point["n_blm"],
                point["w_elm"],
                point["w_blm"],
                *(f"{rate:.2%}" for rate in masked),
                "yes" if point["saturated"] else "",
            )
        )

    head = (
        "ELM",
        "BLM",
        "mentions",
        "tokens",
        "N_ELM",
        "N_BLM",
        "w_ELM",
        "w_BLM",
        "masked",
        "shorter",
        "longer",
        "saturated",
    )
    return head, rows


def _print_clipped(points: Sequence[Mapping[str, Any]]) -> None:
    """Print the number of pairs of rates whose paper weights are both clipped, if any."""
    clipped = sum(point["saturated"] for point in points)
    if clipped:
        echo(
            f"at {clipped} of {len(points)} pairs of rates both clips of Eq. 3 fire: the paper's "
            "weights are 0.5 and 0.5 there and carry no information"
        )


def _weighed(scheme: str, stats: MaskStats) -> dict[str, float]:
    from mslm_data.stats.weights import SCHEMES

    w_elm, w_blm = SCHEMES[scheme](stats.n_elm, stats.n_blm)
    return {"w_elm": w_elm, "w_blm": w_blm}
