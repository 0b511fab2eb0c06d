"""The page's sections, each a heading, a sentence on what it shows, and a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslm_data.stats.counts import LONGEST_RUN, MOST_MASKED, RATE_BINS, MaskStats
from mslm_data.stats.grid import SweepPoint
from mslm_data.stats.report.charts import (
    Cell,
    Markup,
    bar,
    figure,
    grid,
    histogram,
    key,
    number,
    table,
    text,
)
from mslm_data.stats.report.sentences import EPOCHS
from mslm_data.stats.weights import SATURATED, MaskSpecificWeights, Scheme

_FEWEST = 4
"""Minimum number of bins that a histogram shows, where it has them."""


def summary(stats: MaskStats) -> str:
    """Return the first numbers that one looks for."""
    tiles = (
        ("tokens masked", f"{stats.realised_rate:.2%}"),
        ("N_ELM", number(stats.n_elm)),
        ("N_BLM", number(stats.n_blm)),
        ("w_ELM / w_BLM, Eq. 5", f"{stats.weights.w_elm:.3f} / {stats.weights.w_blm:.3f}"),
        ("masks that lie in mentions", f"{stats.share_in_mentions:.1%}"),
        ("rows under budget", number(stats.rows_under_budget)),
        ("rows with no mask", number(stats.rows_without_mask)),
        ("mean run of masks", f"{stats.mean_run_length:.2f} tokens"),
        ("sequences", number(stats.sequences)),
        ("tokens that can be masked", number(stats.maskable_tokens)),
        ("mentions", number(stats.mentions)),
        ("entropy of masked words", f"{stats.masked_word_entropy:.2f} bits"),
    )
    drawn = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in tiles
    )
    warning = f'<p class="warn">{text(SATURATED)}.</p>' if stats.weights.saturated else ""
    return _section("In short", "", f'{warning}<dl class="tiles">{drawn}</dl>')


def weights(stats: MaskStats, schemes: Sequence[Scheme]) -> str:
    """Return the two counts, and what each scheme makes of them."""
    rows = []
    for scheme in schemes:
        elm, blm = scheme.weigh(stats.n_elm, stats.n_blm)
        total = elm + blm or 1
        drawn = bar([("ke", elm / total, f"ELM {elm:.4f}"), ("kb", blm / total, f"BLM {blm:.4f}")])
        rows.append((scheme.name, elm, blm, drawn))
    most = max(stats.n_elm, stats.n_blm) or 1
    counts = [
        (name, count, bar([(kind, count / most, f"{count:,}")]))
        for name, count, kind in (("ELM", stats.n_elm, "ke"), ("BLM", stats.n_blm, "kb"))
    ]
    body = table(("", "masked tokens", ""), counts, name="wide")
    body += "<h3>Weights in the loss</h3>" + table(
        ("scheme", "w_ELM", "w_BLM", ""), rows, name="wide"
    )
    said = (
        "paper is Eq. 2 to 5, released what the paper's code does; all but fixed sum to 1. Inverse "
        "frequency is Eq. 2 "
        "alone. The effective number (Cui et al. 2019) makes them equal where counts are far above "
        "1/(1 - beta)."
    )
    return _section("N_ELM against N_BLM", said, body + _steps(stats.weights))


def _steps(steps: MaskSpecificWeights) -> str:
    words = (
        f"The paper's steps: Eq. 2 gives {steps.w_elm_raw:.4f} (ELM) and {steps.w_blm_raw:.4f} "
        "(BLM), "
        f"Eq. 3 {steps.w_elm_clipped:.4f} and {steps.w_blm_clipped:.4f}, Eq. 5 {steps.w_elm:.4f} "
        f"and {steps.w_blm:.4f}."
    )
    return f'<p class="soft">{text(words)}</p>'


def heat(rows: str, strategy: str) -> str:
    """Return sentences shaded by how often each token is hidden."""
    said = (
        f"Each token is shaded by how many of {EPOCHS} epochs hide it with {strategy}; point at "
        "one for numbers. "
        "Mentions are underlined, with their label."
    )
    ramp = '<div class="key"><span>never <span class="ramp"></span> in every epoch</span></div>'
    return _section("How often each token is hidden", said, ramp + rows)


def side_by_side(rows: str, strategies: int) -> str:
    """Return sentences as each strategy masks them."""
    said = "The first epoch. " + (
        "Every line is the same sentence under another strategy." if strategies > 1 else ""
    )
    legend = (
        '<div class="key"><span><span class="e">hidden as a term (ELM)</span></span>'
        '<span><span class="b">hidden as another word (BLM)</span></span>'
        '<span><span class="m">mention</span></span></div>'
    )
    return _section("What is hidden", said, legend + rows)


def compared(stats: Mapping[str, MaskStats]) -> str:
    """Return one line for each strategy."""
    most = max(s.masked_tokens for s in stats.values()) or 1
    rows = []
    for name, s in stats.items():
        mentions = (s.mentions_whole, s.mentions_partly, s.mentions_untouched)
        total = sum(mentions) or 1
        said = ("masked whole", "masked in part", "untouched")
        parts = [
            (kind, n / total, f"{n:,} {how}")
            for kind, n, how in zip(("kw", "kp", "k0"), mentions, said, strict=True)
        ]
        tokens = [
            ("ke", s.n_elm / most, f"ELM {s.n_elm:,}"),
            ("kb", s.n_blm / most, f"BLM {s.n_blm:,}"),
        ]
        rows.append(
            (
                name,
                Markup(f"{s.realised_rate:.2%}"),
                s.n_elm,
                s.n_blm,
                bar(tokens),
                Markup(f"{s.share_in_mentions:.1%}"),
                bar(parts),
                s.rows_under_budget,
                s.rows_without_mask,
                Markup(f"{s.mean_run_length:.2f}"),
                Markup(f"{s.masked_word_entropy:.2f}"),
            )
        )
    head = (
        "strategy", "of tokens", "N_ELM", "N_BLM", "their bars", "in mentions", "mentions",
        "under budget", "no mask", "mean run", "bits of words",
    )  # fmt: skip
    legend = key(
        [
            ("ke", "ELM"),
            ("kb", "BLM"),
            ("kw", "mentions whole"),
            ("kp", "mentions in part"),
            ("k0", "untouched"),
        ]
    )
    return _section("Strategies in numbers", "All epochs of the split.", legend + table(head, rows))


def budgets(stats: Mapping[str, MaskStats]) -> str:
    """Return how much is hidden of each row, and in how long runs, for each strategy."""
    said = (
        "Rows that could not spend their budget, since too little was left that may be hidden, are "
        "drawn apart. "
        "The dashed line is the average; of rates, that of all tokens."
    )
    blocks = []
    for name, s in stats.items():
        heading = f"<h3>{text(name)}</h3>" if len(stats) > 1 else ""
        blocks.append(f'{heading}<div class="charts">{_per_row(s)}{_rates(s)}{_runs(s)}</div>')
    legend = key([("sa", "rows or runs"), ("so", "rows under budget")])
    return _section("Budgets and runs", said, legend + "".join(blocks))


def _per_row(stats: MaskStats) -> str:
    masked = _cut(stats.masked_per_row)
    owing = _cut(stats.owing_per_row, len(masked))
    rows = sum(masked)
    mean = stats.masked_tokens / rows if rows else None
    bins = _bins(
        0,
        len(masked),
        open_end=len(masked) < len(stats.masked_per_row) or len(masked) > MOST_MASKED,
    )
    drawn = histogram(bins, masked, owing, x="masked tokens in a row", mean=mean)
    return figure("Masked tokens in a row", "rows, by how many tokens are masked", drawn)


def _rates(stats: MaskStats) -> str:
    last = max((k for k, rows in enumerate(stats.rate_per_row) if rows), default=0) + 1
    bins = [f"{k / RATE_BINS:.0%}" for k in range(last)]
    mean = stats.realised_rate * RATE_BINS - 0.5
    drawn = histogram(
        bins, stats.rate_per_row[:last], [0] * last, x="share of a row's tokens, from", mean=mean
    )
    return figure("Rate of a row", "rows, by the share that is masked", drawn)


def _runs(stats: MaskStats) -> str:
    runs = _cut(stats.run_lengths[1:])
    mean = stats.mean_run_length - 1 if stats.mean_run_length else None
    bins = _bins(
        1, len(runs), open_end=len(runs) < len(stats.run_lengths) - 1 or len(runs) >= LONGEST_RUN
    )
    drawn = histogram(bins, runs, [0] * len(runs), x="tokens in a run", mean=mean)
    return figure("Runs", "runs of masked tokens side by side", drawn)


def sweep(points: Sequence[SweepPoint]) -> str:
    """Return the first strategy at all rates; nothing where there are no points."""
    if not points:
        return ""
    elms, blms = sorted({point.elm for point in points}), sorted({point.blm for point in points})
    at = {(point.elm, point.blm): point for point in points}
    names = ("ELM, BLM", [f"{elm:g}" for elm in elms], [f"{blm:g}" for blm in blms])
    lines = [[at[elm, blm] for blm in blms] for elm in elms]
    most = max(max(p.rate(c) for c in (p.whole, p.shorter, p.longer)) for p in points) or 1
    weighed = [
        [
            Cell(
                f"{p.weights.w_elm:.4f}",
                f"{p.whole.n_elm:,} / {p.whole.n_blm:,}",
                (p.weights.w_elm - 0.5) / 0.2311,
                p.weights.saturated,
            )
            for p in line
        ]
        for line in lines
    ]
    drawn = [
        figure(
            "w_ELM",
            "Eq. 5; below it N_ELM / N_BLM; hatched where both clips fire",
            grid(*names, weighed),
        )
    ]
    length = f"{points[0].mean_words:.2f} words"
    for title, caption, side in (
        ("Realised rate", "all rows", "whole"),
        ("Realised rate, short sentences", f"fewer than {length}", "shorter"),
        ("Realised rate, long sentences", f"more than {length}", "longer"),
    ):
        rates = [[(p.rate(getattr(p, side)), getattr(p, side)) for p in line] for line in lines]
        cells = [
            [Cell(f"{rate:.1%}", f"{c.n_elm + c.n_blm:,}", rate / most) for rate, c in line]
            for line in rates
        ]
        drawn.append(figure(title, f"{caption}; below it masked tokens", grid(*names, cells)))
    clipped = sum(point.weights.saturated for point in points)
    said = (
        f"The paper's rates. At {clipped} of {len(points)} both clips of Eq. 3 fire: "
        "the weights there are 0.5 and 0.5."
    )
    return _section("All rates", said, f'<div class="charts grids">{"".join(drawn)}</div>')


def words(masked: Sequence[tuple[str, int, int]], epochs: int) -> str:
    """Return the words that are masked most."""
    if not masked:
        return ""
    most = max(times for _, times, _ in masked)
    rows = [
        (
            word,
            times,
            Markup(f"{times / (there * epochs):.1%}"),
            bar([("sa", times / most, f"{times:,}")]),
        )
        for word, times, there in masked
    ]
    said = "Words of which a token is masked, and the share of their occurrences that is."
    return _section(
        "Words masked most",
        said,
        table(("word", "masked", "of those there", ""), rows, name="wide"),
    )


def labels(stats: MaskStats) -> str:
    """Return the labels, and short sentences beside long ones."""
    rows = [
        (label, c.mentions, c.mention_tokens, c.masked_mentions)
        for label, c in stats.labels.items()
    ]
    body = table(("label", "mentions", "their tokens", "masked whole by ELM"), rows)
    groups = [
        (
            f"{side} than {stats.mean_words:.2f} words",
            c.sequences,
            c.tokens,
            c.maskable_tokens,
            c.n_elm,
            c.n_blm,
        )
        for side, c in (("shorter", stats.shorter), ("longer", stats.longer))
    ]
    body += "<h3>Short and long sentences</h3>"
    body += table(("", "sequences", "tokens", "can be masked", "N_ELM", "N_BLM"), groups)
    return _section("Labels and lengths", "", body)


def _section(title: str, said: str, body: str) -> str:
    lead = f'<p class="note-of">{text(said)}</p>' if said else ""
    return f"<section><h2>{text(title)}</h2>{lead}{body}</section>"


def _cut(values: Sequence[int], length: int | None = None) -> list[int]:
    """Return a histogram whose last bin takes what is beyond it.

    It has `length` bins, or as many as hold 99 in 100.
    """
    if length is None:
        total, seen, length = sum(values), 0, 0
        while length < len(values) and (seen < 0.99 * total or length < _FEWEST):
            seen += values[length]
            length += 1
        length = max(length, 1)
    padded = [*values, *[0] * (length - len(values))]
    return [*padded[: length - 1], sum(padded[length - 1 :])]


def _bins(first: int, count: int, *, open_end: bool) -> list[str]:
    """Return the labels of bins; the last stands for all beyond it too where the end is open."""
    last = first + count - 1
    return [f"{k}+" if open_end and k == last else str(k) for k in range(first, last + 1)]
