"""The first batches of an epoch to scale: padded, bucketed and flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.errors import CallError
from mslm_data.look.corpus import Corpus
from mslm_data.look.jobs import Progress
from mslm_data.look.state import State
from mslm_data.shard.split import Split
from mslm_data.stats.batch_counts import BatchShape, BatchStats, batch_stats, first_batches

TITLE = "Batches"
TEMPLATE = "batches_view.html"

DRAWN = 3
"""Number of batches drawn for each form."""
_MAX_ROWS = 1_000_000
"""Maximum number of rows of a split that is counted whole."""
_STEPS = 2_000
"""Number of steps counted in larger splits."""
_LINE = 6
"""Height of a line, with one unit of space below."""
_GAP = 3
"""Space below a row that takes several lines."""
_WIDTH = 480
"""Width of the widest drawing."""
_PATIENCE_S = 0.3
_NUM_FORMS = 5
_LARGEST = 1 << 20


class Bar(NamedTuple):
    """A row or its padding in a drawing: left edge, top edge and width."""

    x: float
    y: int
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDrawing:
    """A batch drawn to scale.

    Attributes:
        shape: Shape of the batch.
        height: Height of the drawing.
        rows: Bars of rows.
        padding: Bars of padding.
    """

    shape: BatchShape
    height: int
    rows: list[Bar]
    padding: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A way to make batches.

    Attributes:
        name: Name on the page.
        call: Arguments for `md.Batches`, as Python.
        stats: Counts over an epoch.
        batches: The first batches.
    """

    name: str
    call: str
    stats: BatchStats
    batches: list[BatchDrawing]


class BatchSizes(NamedTuple):
    """Sizes that the user sets.

    Attributes:
        rows: Rows in a padded batch.
        tokens: Tokens in a batch by tokens. Default: the average size of a padded batch.
        multiple_of: Round widths up to a multiple of this number.
    """

    rows: int = 32
    tokens: int | None = None
    multiple_of: int = 1


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the split's batches in each form."""
    texts = {name: state.extra.get(f"batches.{name}", "") for name in BatchSizes._fields}
    result: dict[str, Any] = {"texts": texts, "sizes": BatchSizes(), "job": None, "forms": None}
    try:
        sizes = read_sizes(state)
        split = corpus.shards[state.split]
        key = (state.split, sizes, state.seed, state.epoch)
        counting = _counting(split, sizes, seed=state.seed, epoch=state.epoch)
        job = corpus.jobs.get("batches", key, counting, patience=_PATIENCE_S)
    except CallError as error:
        # The input stays on the page, to be corrected.
        return {**result, "error": str(error)}
    return {**result, "job": job, "forms": job.result, "error": ""}


def read_sizes(state: State) -> BatchSizes:
    """Read the sizes from a state.

    Raises:
        CallError: Not a whole number, or out of range.
    """
    sizes = {}
    for name in BatchSizes._fields:
        text = state.extra.get(f"batches.{name}")
        if text is None:
            continue
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        if not 1 <= number <= _LARGEST:
            raise CallError(f"batches.{name}: expected a whole number from 1 to {_LARGEST:,}")
        sizes[name] = number
    return BatchSizes(**sizes)


def form_options(
    split: Split, sizes: BatchSizes, *, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and options of each form, all of about the same size.

    Args:
        split: The split.
        sizes: Sizes that the user set.
        seed: Seed of the order of rows.
    """
    common: dict[str, Any] = {"seed": seed} if seed else {}
    if sizes.multiple_of > 1:
        common["multiple_of"] = sizes.multiple_of

    padded = {"batch_size": sizes.rows, "bucketed": False, **common}
    yield "padded", padded
    yield "padded, in buckets", {"batch_size": sizes.rows, **common}

    # The other forms take the average size of a padded batch, so that padding can be compared.
    shapes = first_batches(split, BatchOptions(**padded), count=64)
    size = sum(shape.width * len(shape.lines) for shape in shapes) // max(len(shapes), 1)
    longest = max((shape.width for shape in shapes), default=1)
    tokens = sizes.tokens or -(-max(size, longest, 1) // 64) * 64
    yield "by tokens", {"batch_tokens": tokens, "bucketed": False, **common}
    yield "by tokens, in buckets", {"batch_tokens": tokens, **common}
    yield "flat", {"batch_tokens": tokens, "flat": True, **common}


def _counting(
    split: Split, sizes: BatchSizes, *, seed: int, epoch: int
) -> Callable[[Progress], list[Form]]:
    """Return a job that counts and draws all forms."""

    def count(progress: Progress) -> list[Form]:
        max_steps = _STEPS if len(split) > _MAX_ROWS else None
        counted = []
        for number, (name, arguments) in enumerate(form_options(split, sizes, seed=seed)):
            progress(number, _NUM_FORMS)
            options = BatchOptions(**arguments)
            try:
                stats = batch_stats(split, options, max_steps=max_steps)
                shapes = first_batches(split, options, epoch=epoch, count=DRAWN)
            except ValueError as error:
                raise CallError(f"{name}: {error}") from None
            counted.append((name, arguments, stats, shapes))

        # The widest padded batch sets the scale. Flat rows are wider, and are wrapped.
        padded = [
            shape
            for _, arguments, _, shapes in counted
            if "flat" not in arguments
            for shape in shapes
        ]
        unit = _WIDTH / max((shape.width for shape in padded), default=_WIDTH)
        return [
            Form(
                name=name,
                call=", ".join(f"{option}={value!r}" for option, value in arguments.items()),
                stats=stats,
                batches=[draw(shape, unit) for shape in shapes],
            )
            for name, arguments, stats, shapes in counted
        ]

    return count


def draw(shape: BatchShape, unit: float) -> BatchDrawing:
    """Draw a batch to scale, and wrap rows wider than the drawing.

    Args:
        shape: Shape of the batch.
        unit: Width of a token.
    """
    line_tokens = max(1, round(_WIDTH / unit))
    rows: list[Bar] = []
    padding: list[Bar] = []
    y = 0
    for line in shape.lines:
        place = 0
        for length in line:
            rows += _bars(place, place + length, line_tokens, unit, y)
            place += length
        padding += _bars(place, shape.width, line_tokens, unit, y)
        num_lines = -(-shape.width // line_tokens)
        y += num_lines * _LINE + (_GAP if num_lines > 1 else 0)
    return BatchDrawing(
        shape=shape,
        height=y,
        rows=rows,
        padding=padding,
    )


def _bars(start: int, stop: int, line_tokens: int, unit: float, y: int) -> Iterator[Bar]:
    """Yield the bars of tokens `[start, stop)`, one for each line."""
    while start < stop:
        line, place = divmod(start, line_tokens)
        end = min(stop, (line + 1) * line_tokens)
        yield Bar(round(place * unit, 2), y + line * _LINE, round((end - start) * unit, 2))
        start = end
