"""What `mask-stats` prints: the object of `--json`, and the same as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.output import table

if TYPE_CHECKING:
    from mslm_data.mask.strategy import Strategy
    from mslm_data.stats import LengthCounts, MaskStats, Scheme, SweepPoint

_STEPS = ("w_elm_raw", "w_blm_raw", "w_elm_clipped", "w_blm_clipped", "w_elm", "w_blm")
_COUNTS = (
    "sequences", "tokens", "maskable_tokens", "mentions", "mention_tokens", "masked_mentions", "n_elm", "n_blm",
)  # fmt: skip
_HIDDEN = (
    "masked_tokens", "realised_rate", "rows_under_budget", "rows_without_mask", "share_in_mentions", "mentions_whole",
    "mentions_partly", "mentions_untouched", "mean_run_length", "run_lengths", "masked_per_row", "owing_per_row",
    "rate_per_row", "masked_words", "masked_word_types", "masked_word_entropy", "digest",
)  # fmt: skip
_GROUP = ("sequences", "tokens", "maskable_tokens", "n_elm", "n_blm")


def as_dict(
    stats: MaskStats, strategy: Strategy, weights: Sequence[Scheme], chosen: Scheme
) -> dict[str, Any]:
    """Return what `--json` prints, but for how it was asked."""
    schemes = {scheme.name: _weighed(scheme, stats) for scheme in weights}
    return {
        "elm": _rate(strategy, "elm"),
        "blm": _rate(strategy, "blm"),
        **{count: getattr(stats, count) for count in _COUNTS},
        **{step: getattr(stats.weights, step) for step in _STEPS},
        "saturated": stats.weights.saturated,
        **{count: getattr(stats, count) for count in _HIDDEN},
        "weights": schemes,
        "chosen_weights": {"scheme": chosen.name, **schemes[chosen.name]},
        "labels": {
            label: {
                "mentions": counts.mentions,
                "mention_tokens": counts.mention_tokens,
                "masked_mentions": counts.masked_mentions,
            }
            for label, counts in stats.labels.items()
        },
        "mean_words": stats.mean_words,
        "lengths": {"shorter": _group(stats.shorter), "longer": _group(stats.longer)},
    }


def point_as_dict(point: SweepPoint, chosen: Scheme) -> dict[str, Any]:
    """Return one pair of rates of `--sweep`, with the weights of the chosen scheme."""
    groups = {"shorter": point.shorter, "longer": point.longer}
    return {
        "elm": point.elm,
        "blm": point.blm,
        "n_elm": point.whole.n_elm,
        "n_blm": point.whole.n_blm,
        **_weighed(chosen, point.whole),
        "realised_rate": point.rate(point.whole),
        "saturated": point.weights.saturated,
        **{
            side: _group(counts) | {"realised_rate": point.rate(counts)}
            for side, counts in groups.items()
        },
    }


def print_tables(report: Mapping[str, Any]) -> None:
    """Print it for people."""
    rates = (
        f"elm {report['elm']:g}, blm {report['blm']:g}, " if report["elm"] or report["blm"] else ""
    )
    asked = f"{rates}seed {report['seed']}, epochs {report['epochs']}"
    click.echo(f"{report['split']}, strategy {report['strategy']}: {asked}")
    shown = [(count.replace("_", " "), report[count]) for count in _COUNTS[:-2]]
    click.echo(table(("", ""), shown).removeprefix("\n"))
    for head, rows in (
        _kinds(report),
        _schemes(report),
        _hidden(report),
        _labels(report),
        _lengths(report),
    ):
        click.echo()
        click.echo(table(head, rows))
    if "sweep" in report:
        _print_sweep(report)
    if "top_words" in report:
        words = [
            (word["word"], word["masked"], word["occurrences"]) for word in report["top_words"]
        ]
        click.echo()
        click.echo(table(("word", "masked", "occurrences"), words))


_Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


def _kinds(report: Mapping[str, Any]) -> _Table:
    per_epochs = report["maskable_tokens"] * report["epochs"]
    rows = [
        (
            kind.upper(),
            report[f"n_{kind}"],
            f"{report[f'n_{kind}'] / per_epochs if per_epochs else 0:.2%}",
            *(report[f"w_{kind}{step}"] for step in ("_raw", "_clipped", "")),
        )
        for kind in ("elm", "blm")
    ]
    return ("", "N", "of tokens", "w, Eq. 2", "Eq. 3", "Eq. 5"), rows


def _schemes(report: Mapping[str, Any]) -> _Table:
    chosen = report["chosen_weights"]["scheme"]
    rows = [
        (f"{name} *" if name == chosen else name, pair["w_elm"], pair["w_blm"])
        for name, pair in report["weights"].items()
    ]
    return ("weights", "ELM", "BLM"), rows


def _hidden(report: Mapping[str, Any]) -> _Table:
    rows = report["sequences"] * report["epochs"]
    mentions = report["mentions"] * report["epochs"]
    words = f"{report['masked_word_types']:,} different; entropy {report['masked_word_entropy']:.2f} bits"
    return ("masked", "", ""), [
        (
            "tokens",
            f"{report['masked_tokens']:,}",
            f"{report['realised_rate']:.2%} of those that can be",
        ),
        ("in mentions", f"{report['share_in_mentions']:.2%}", "of masked tokens"),
        ("rows under budget", f"{report['rows_under_budget']:,}", f"of {rows:,}"),
        ("rows with no mask", f"{report['rows_without_mask']:,}", f"of {rows:,}"),
        *(
            (f"mentions {how}", f"{report[f'mentions_{how}']:,}", f"of {mentions:,}")
            for how in _HOW
        ),
        ("mean run", f"{report['mean_run_length']:.2f}", "tokens side by side"),
        ("words", f"{report['masked_words']:,}", words),
    ]


_HOW = ("whole", "partly", "untouched")


def _labels(report: Mapping[str, Any]) -> _Table:
    return ("label", "mentions", "their tokens", "masked"), [
        (label, *counts.values()) for label, counts in report["labels"].items()
    ]


def _lengths(report: Mapping[str, Any]) -> _Table:
    return ("sequences", "number", "tokens", "maskable", "N_ELM", "N_BLM"), [
        (f"{side} than {report['mean_words']:.2f} words", *counts.values())
        for side, counts in report["lengths"].items()
    ]


def _print_sweep(report: Mapping[str, Any]) -> None:
    rows = [
        (
            f"{point['elm']:g}",
            f"{point['blm']:g}",
            point["n_elm"],
            point["n_blm"],
            point["w_elm"],
            point["w_blm"],
            *(
                f"{side['realised_rate']:.2%}"
                for side in (point, point["shorter"], point["longer"])
            ),
            "yes" if point["saturated"] else "",
        )
        for point in report["sweep"]
    ]
    head = (
        "ELM",
        "BLM",
        "N_ELM",
        "N_BLM",
        "w_ELM",
        "w_BLM",
        "masked",
        "shorter",
        "longer",
        "saturated",
    )
    click.echo()
    click.echo(table(head, rows))
    clipped = sum(point["saturated"] for point in report["sweep"])
    if clipped:
        click.echo(
            f"at {clipped} of {len(rows)} pairs of rates both clips of Eq. 3 fire: the paper's weights are 0.5 and 0.5 "
            "there and carry no information"
        )


def _weighed(scheme: Scheme, counts: MaskStats | LengthCounts) -> dict[str, float]:
    w_elm, w_blm = scheme.weigh(counts.n_elm, counts.n_blm)
    return {"w_elm": w_elm, "w_blm": w_blm}


def _group(counts: LengthCounts) -> dict[str, int]:
    return {count: getattr(counts, count) for count in _GROUP}


def _rate(strategy: Strategy, name: str) -> float:
    """Return an option that is a number; 0 where a strategy has no such option or it varies."""
    options = {} if strategy.origin is None else strategy.origin.options
    value = options.get(name, 0.0)
    return float(value) if isinstance(value, float | int) else 0.0
