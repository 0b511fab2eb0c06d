"""Draws the page's sections: each has a heading, a sentence on what it shows, and a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslm_data.draw.parts import Markup, bar, key, table, text, tiles
from mslm_data.draw.sentences import EPOCHS, HIDDEN, OFTEN
from mslm_data.stats.batch_counts import BatchStats
from mslm_data.stats.counts import (
    ALL_MASKED,
    LONGEST_RUN,
    MOST_MASKED,
    RATE_BINS,
    LengthCounts,
    MaskStats,
)
from mslm_data.stats.grid import SweepPoint
from mslm_data.stats.of_mix import PartStats
from mslm_data.stats.realised import RealisedRate
from mslm_data.stats.report.charts import Cell, figure, grid, histogram
from mslm_data.stats.weights import SATURATED, MaskSpecificWeights, Scheme

_FEWEST = 4
"""Minimum number of bins that a histogram shows, if it has them."""

_LARGEST_GAIN = 0.2311
"""The most by which `w_elm` of Eq. 5 exceeds 0.5: the softmax of 1 and 0, less 0.5."""


def summary(stats: MaskStats) -> str:
    """Return the numbers that readers look for first, and below them smaller ones."""
    warned = [
        f'<p class="note">{text(warning)}; {advice}.</p>'
        for warning, advice, applies in (
            (SATURATED, "lower the rate of ELM or raise that of BLM", stats.weights.saturated),
            (ALL_MASKED, "lower the rates", stats.all_masked),
        )
        if applies
    ]
    first, others = stats.facts()
    body = f"{''.join(warned)}{tiles(first)}{tiles(others, small=True)}"
    return _section("In short", "", body)


def weights(stats: MaskStats, schemes: Sequence[Scheme]) -> str:
    """Return the numbers of masked tokens, and the weights that each scheme makes of them."""
    most = max(stats.n_elm, stats.n_blm) or 1
    counts = [
        (name, count, bar([(kind, count / most, f"{count:,}")]))
        for name, count, kind in (("ELM", stats.n_elm, "ke"), ("BLM", stats.n_blm, "kb"))
    ]

    rows = []
    for scheme in schemes:
        elm, blm = scheme.weigh(stats.n_elm, stats.n_blm)
        total = elm + blm or 1
        parts = [("ke", elm / total, f"ELM {elm:.4f}"), ("kb", blm / total, f"BLM {blm:.4f}")]
        rows.append((scheme.name, elm, blm, bar(parts)))

    said = (
        "paper is Eq. 2 to 5. released is the formula of the paper's code, which counts the "
        "training and validation splits together, where this page counts one split. Inverse "
        "frequency is Eq. 2 alone. The effective number (Cui et al. 2019) makes the weights equal "
        "where counts are far above 1/(1 - beta). All but fixed sum to 1."
    )
    body = (
        table(("", "masked tokens", ""), counts, name="wide")
        + "<h3>Weights in the loss</h3>"
        + table(("scheme", "w_ELM", "w_BLM", ""), rows, name="wide")
        + _equations(stats.weights)
    )
    return _section("N_ELM against N_BLM", said, body)


def _equations(weights: MaskSpecificWeights) -> str:
    words = (
        f"The paper's steps: Eq. 2 gives {weights.w_elm_raw:.4f} (ELM) and {weights.w_blm_raw:.4f} "
        f"(BLM), Eq. 3 {weights.w_elm_clipped:.4f} and {weights.w_blm_clipped:.4f}, "
        f"Eq. 5 {weights.w_elm:.4f} and {weights.w_blm:.4f}."
    )
    return f'<p class="soft">{text(words)}</p>'


def heat(rows: str, strategy: str) -> str:
    """Return sentences shaded by how often each token is hidden.

    Args:
        rows: The sentences as HTML.
        strategy: The name of the strategy that hides them.
    """
    said = (
        f"Each token is shaded by how many of {EPOCHS} epochs hide it with {strategy}; point at "
        "one for numbers. Mentions are underlined, with their label."
    )
    return _section("How often each token is hidden", said, OFTEN + rows)


def side_by_side(rows: str, strategies: int) -> str:
    """Return sentences as each strategy masks them.

    Args:
        rows: The sentences as HTML.
        strategies: How many strategies there are.
    """
    said = "The first epoch."
    if strategies > 1:
        said += " Every line is the same sentence under another strategy."

    return _section("What is hidden", said, HIDDEN + rows)


def rates(of_strategies: Mapping[str, Sequence[RealisedRate]]) -> str:
    """Return each rate that was asked for beside the share that is masked; "" if there is none."""
    rows = [
        (
            name,
            rate.name if rate.name == "rate" else rate.name.upper(),
            Markup("varies" if rate.asked is None else f"{rate.asked:.2%}"),
            Markup(f"{rate.masked:.2%}"),
            f"of the {rate.of}",
            bar([("sa", rate.masked, f"{rate.masked:.2%}")]),
        )
        for name, of in of_strategies.items()
        for rate in of
    ]
    if not rows:
        return ""

    said = "Each row's budget is rounded up, so rows with few mentions or tokens hide more."
    head = ("strategy", "", "rate", "masked", "", "")
    return _section("Rates asked for and realised", said, table(head, rows, name="wide"))


def compared(stats: Mapping[str, MaskStats]) -> str:
    """Return a table with one line for each strategy."""
    most = max(of.masked_tokens for of in stats.values()) or 1
    rows = [_compared_row(name, of, most) for name, of in stats.items()]

    head = (
        "strategy",
        "of tokens",
        "N_ELM",
        "N_BLM",
        "their bars",
        "in mentions",
        "mentions",
        "under budget",
        "no mask",
        "mean run",
        "bits of words",
    )
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


def _compared_row(name: str, stats: MaskStats, most: int) -> tuple[object, ...]:
    """Return the cells of one strategy; its bar is full at `most` masked tokens."""
    tokens = [
        ("ke", stats.n_elm / most, f"ELM {stats.n_elm:,}"),
        ("kb", stats.n_blm / most, f"BLM {stats.n_blm:,}"),
    ]

    counts = (stats.mentions_whole, stats.mentions_partly, stats.mentions_untouched)
    total = sum(counts) or 1
    kinds = ("kw", "kp", "k0")
    words = ("masked whole", "masked in part", "untouched")
    mentions = [
        (kind, count / total, f"{count:,} {how}")
        for kind, count, how in zip(kinds, counts, words, strict=True)
    ]

    return (
        name,
        Markup(f"{stats.realised_rate:.2%}"),
        stats.n_elm,
        stats.n_blm,
        bar(tokens),
        Markup(f"{stats.share_in_mentions:.1%}"),
        bar(mentions),
        stats.rows_under_budget,
        stats.rows_without_mask,
        Markup(f"{stats.mean_run_length:.2f}"),
        Markup(f"{stats.masked_word_entropy:.2f}"),
    )


def budgets(stats: Mapping[str, MaskStats]) -> str:
    """Return how much of each row is hidden, and in how long runs, for each strategy."""
    said = (
        "Rows that could not spend their budget, since too little was left that may be hidden, are "
        "drawn apart. The dashed line is the average; of rates, that of all tokens. All strategies "
        "are drawn on one scale."
    )

    # Strategies share a scale, so that their bars can be compared.
    drawings = (_per_row, _rates, _runs)
    most = [max(draw(of, 0)[1] for of in stats.values()) for draw in drawings]

    blocks = []
    for name, of in stats.items():
        heading = f"<h3>{text(name)}</h3>" if len(stats) > 1 else ""
        drawn = "".join(draw(of, top)[0] for draw, top in zip(drawings, most, strict=True))
        blocks.append(f'{heading}<div class="charts">{drawn}</div>')

    legend = key([("sa", "rows or runs"), ("so", "rows under budget")])
    return _section("Budgets and runs", said, legend + "".join(blocks))


def _per_row(stats: MaskStats, top: int) -> tuple[str, int]:
    """Return the histogram of masked tokens in a row, at least `top` high, and its highest bar."""
    masked = _cut(stats.masked_per_row)
    owing = _cut(stats.owing_per_row, len(masked))
    rows = sum(masked)
    mean = stats.masked_tokens / rows if rows else None

    open_end = len(masked) < len(stats.masked_per_row) or len(masked) > MOST_MASKED
    bins = _bins(0, len(masked), open_end=open_end)

    drawn = histogram(bins, masked, owing, x="masked tokens in a row", mean=mean, top=top)
    title = "Masked tokens in a row"
    return figure(title, "rows, by how many tokens are masked", drawn), max(masked, default=0)


def _rates(stats: MaskStats, top: int) -> tuple[str, int]:
    """Return the histogram of the masked share of a row; see `_per_row`."""
    last = max((k for k, rows in enumerate(stats.rate_per_row) if rows), default=0) + 1
    bins = [f"{k / RATE_BINS:.0%}" for k in range(last)]

    # Places are counted from the middle of the first bin, and rates from its left edge.
    mean = stats.realised_rate * RATE_BINS - 0.5

    rows = stats.rate_per_row[:last]
    title = "share of a row's tokens, from"
    drawn = histogram(bins, rows, [0] * last, x=title, mean=mean, top=top)
    return figure("Rate of a row", "rows, by the share that is masked", drawn), max(rows, default=0)


def _runs(stats: MaskStats, top: int) -> tuple[str, int]:
    """Return the histogram of the length of runs, the first of length 1; see `_per_row`."""
    lengths = stats.run_lengths[1:]
    runs = _cut(lengths)
    mean = stats.mean_run_length - 1 if stats.mean_run_length else None

    open_end = len(runs) < len(stats.run_lengths) - 1 or len(runs) >= LONGEST_RUN
    bins = _bins(1, len(runs), open_end=open_end)

    drawn = histogram(bins, runs, [0] * len(runs), x="tokens in a run", mean=mean, top=top)
    return figure("Runs", "runs of masked tokens side by side", drawn), max(runs, default=0)


def sweep(points: Sequence[SweepPoint]) -> str:
    """Return the first strategy at all rates; "" if there are no points."""
    if not points:
        return ""

    elms = sorted({point.elm for point in points})
    blms = sorted({point.blm for point in points})
    at = {(point.elm, point.blm): point for point in points}
    lines = [[at[elm, blm] for blm in blms] for elm in elms]
    names = ("ELM ↓  BLM →", [f"{elm:g}" for elm in elms], [f"{blm:g}" for blm in blms])

    weighed = [[_weight_cell(point) for point in line] for line in lines]
    caption = "Eq. 5; below it N_ELM / N_BLM; hatched where both clips fire"
    drawn = [figure("w_ELM", caption, grid(*names, weighed))]

    hidden = [
        [Cell(f"{p.realised_elm:.1%}", f"{p.effective_blm:.1%}", p.realised_elm) for p in line]
        for line in lines
    ]
    caption = "share of the mentions; below it the share of the tokens that BLM masks"
    drawn.append(figure("Realised ELM", caption, grid(*names, hidden)))

    # The three grids of rates share one scale of shades.
    most = max(p.rate(counts) for p in points for counts in (p.whole, p.shorter, p.longer)) or 1
    length = f"{points[0].mean_words:.2f} words"
    for title, caption, side in (
        ("Realised rate", "all rows", "whole"),
        ("Realised rate, short rows", f"fewer than {length}", "shorter"),
        ("Realised rate, long rows", f"more than {length}", "longer"),
    ):
        cells = [
            [_rate_cell(point, getattr(point, side), most) for point in line] for line in lines
        ]
        drawn.append(figure(title, f"{caption}; below it masked tokens", grid(*names, cells)))

    clipped = sum(point.weights.saturated for point in points)
    said = (
        f"The paper's rates. At {clipped} of {len(points)} both clips of Eq. 3 fire: "
        "the weights there are 0.5 and 0.5."
    )
    return _section("All rates", said, f'<div class="charts grids">{"".join(drawn)}</div>')


def _weight_cell(point: SweepPoint) -> Cell:
    return Cell(
        f"{point.weights.w_elm:.4f}",
        f"{point.whole.n_elm:,} / {point.whole.n_blm:,}",
        (point.weights.w_elm - 0.5) / _LARGEST_GAIN,
        point.weights.saturated,
    )


def _rate_cell(point: SweepPoint, counts: LengthCounts, most: float) -> Cell:
    rate = point.rate(counts)
    return Cell(f"{rate:.1%}", f"{counts.n_elm + counts.n_blm:,}", rate / most)


def words(masked: Sequence[tuple[str, int, int]], epochs: int) -> str:
    """Return the words that are masked most; "" if none is.

    Args:
        masked: Each word's text, how often it is masked, and how often it occurs in an epoch.
        epochs: Number of epochs that masks are counted over.
    """
    marks = [word for word, _, _ in masked if not any(map(str.isalnum, word))]
    masked = [of_word for of_word in masked if of_word[0] not in marks]
    if not masked:
        return ""

    most = max(times for _, times, _ in masked)
    rows = []
    for word, times, occurrences in masked:
        share = Markup(f"{times / (occurrences * epochs):.1%}")
        rows.append((word, times, share, bar([("sa", times / most, f"{times:,}")])))

    said = "Words of which a token is masked, and the share of their occurrences that is."
    if marks:
        said += f" Those without a letter or digit are left out: {'  '.join(marks)}"
    head = ("word", "masked", "of those there", "")
    return _section("Words masked most", said, table(head, rows, name="wide"))


def labels(stats: MaskStats) -> str:
    """Return the labels, and rows that are shorter than average beside longer ones."""
    groups = [
        (
            f"{side} than {stats.mean_words:.2f} words",
            counts.sequences,
            counts.tokens,
            counts.maskable_tokens,
            counts.n_elm,
            counts.n_blm,
        )
        for side, counts in (("shorter", stats.shorter), ("longer", stats.longer))
    ]

    body = (
        stats.by_label()
        + "<h3>Short and long rows</h3>"
        + table(("", "rows", "tokens", "can be masked", "N_ELM", "N_BLM"), groups)
    )
    return _section("Labels and lengths", "", body)


def mix(parts: Sequence[PartStats]) -> str:
    """Return what an epoch of a mix has of each split; "" if the rows are those of one split."""
    if not parts:
        return ""

    rows = [
        (
            part.name,
            Markup(f"{part.share:.1%}"),
            stats.sequences,
            Markup(f"{part.times:.2f}"),
            stats.tokens,
            stats.mentions,
            stats.n_elm,
            stats.n_blm,
            Markup(f"{stats.realised_elm:.2%}"),
            Markup(f"{stats.effective_blm:.2%}"),
        )
        for part, stats in parts
    ]
    head = ("", "share", "rows", "times", "tokens", "mentions", "N_ELM", "N_BLM")
    rates = ("mentions by ELM", "tokens by BLM")
    said = "What an epoch has of each folder, and how often it takes each of its rows."
    return _section("The mix", said, table((*head, *rates), rows, name="wide"))


def batches(counted: BatchStats | None) -> str:
    """Return what a step of training has; "" if no batches were counted."""
    if counted is None:
        return ""

    rows: list[tuple[str, object]] = [
        ("steps an epoch", Markup(f"{counted.steps_per_epoch:,.1f}")),
        ("tokens a step", Markup(f"{counted.tokens_per_step:,.1f}")),
        ("tokens of the smallest step", counted.fewest_tokens),
        ("tokens of the largest step", counted.most_tokens),
        ("rows a step", Markup(f"{counted.rows_per_step:,.1f}")),
        ("padding", Markup(f"{counted.padding:.2%}")),
    ]
    if counted.rows_per_packed_row is not None:
        rows.insert(-1, ("rows a packed row", Markup(f"{counted.rows_per_packed_row:,.1f}")))

    like = ", of like length" if counted.bucketed else ""
    said = f"Batches of {counted.shape}{like}, of one rank. Padding does not count as tokens."
    return _section("Batches", said, table(("", ""), rows))


def _section(title: str, said: str, body: str) -> str:
    lead = f'<p class="note-of">{text(said)}</p>' if said else ""
    return f"<section><h2>{text(title)}</h2>{lead}{body}</section>"


def _cut(values: Sequence[int], length: int | None = None) -> list[int]:
    """Return a histogram whose last bin counts everything beyond it too.

    Args:
        values: The count of each bin.
        length: Number of bins; None for as many as hold 99 in 100, `_FEWEST` at least.
    """
    if length is None:
        total = sum(values)
        seen = 0
        length = 0
        while length < len(values) and (seen < 0.99 * total or length < _FEWEST):
            seen += values[length]
            length += 1
        length = max(length, 1)

    padded = [*values, *[0] * (length - len(values))]
    return [*padded[: length - 1], sum(padded[length - 1 :])]


def _bins(first: int, count: int, *, open_end: bool) -> list[str]:
    """Return the labels of bins; with an open end the last counts everything beyond it too."""
    last = first + count - 1
    return [f"{k}+" if open_end and k == last else str(k) for k in range(first, last + 1)]
