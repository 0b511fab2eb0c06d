"""The first batches of an epoch, drawn to scale: padded, in buckets, packed, and in a flat row."""

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
"""Number of batches that are drawn of each form."""
_MOST_ROWS = 1_000_000
"""Of larger splits, only the first `_STEPS` steps of an epoch are counted."""
_STEPS = 2_000
_LINE = 6
"""Height of a line of a drawing, of which the padding below it takes one."""
_GAP = 3
"""Height between lines that go on in the next."""
_WIDTH = 480
"""Width of the widest batch that is drawn."""
_PATIENCE_S = 0.3
_LARGEST = 1 << 20


class Bar(NamedTuple):
    """A row or padding in a drawing: its left edge, top edge and width."""

    x: float
    y: int
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDrawing:
    """A batch to scale.

    Attributes:
        shape: The batch.
        height: Height of the drawing.
        rows: Where rows lie.
        padding: Where padding lies.
    """

    shape: BatchShape
    height: int
    rows: list[Bar]
    padding: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A way to make batches.

    Attributes:
        name: In words.
        call: The options as `md.Batches` takes them.
        stats: Counts of an epoch.
        batches: The first batches.
    """

    name: str
    call: str
    stats: BatchStats
    batches: list[BatchDrawing]


class BatchSizes(NamedTuple):
    """What the reader chooses.

    Attributes:
        rows: Rows of a batch that counts rows.
        tokens: Tokens of a batch that counts tokens; None for as many as the padded batch takes.
        width: Width of a packed row; None for the longest row, but at least 512.
        multiple_of: A batch's width is rounded up to a multiple of this.
    """

    rows: int = 32
    tokens: int | None = None
    width: int | None = None
    multiple_of: int = 1


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the forms of batches of the split, with the sizes that the state names."""
    given = {name: state.extra.get(f"batches.{name}", "") for name in BatchSizes._fields}
    shown: dict[str, Any] = {"given": given, "sizes": BatchSizes(), "job": None, "forms": None}
    try:
        sizes = read_sizes(state)
        split = corpus.shards[state.split]
        key = (state.split, sizes, state.seed, state.epoch)
        counting = _counting(split, sizes, seed=state.seed, epoch=state.epoch)
        job = corpus.jobs.get("batches", key, counting, patience=_PATIENCE_S)
    except CallError as error:
        # What was typed stays on the page, to be changed.
        return {**shown, "error": str(error)}
    return {**shown, "job": job, "forms": job.result, "error": ""}


def read_sizes(state: State) -> BatchSizes:
    """Return the sizes that a state names.

    Raises:
        CallError: Not a whole number, or one out of range.
    """
    given = {}
    for name in BatchSizes._fields:
        text = state.extra.get(f"batches.{name}")
        if text is None:
            continue
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        if not 1 <= number <= _LARGEST:
            raise CallError(f"batches.{name}: expected a whole number from 1 to {_LARGEST:,}")
        given[name] = number
    return BatchSizes(**given)


def options_of(
    split: Split, sizes: BatchSizes, *, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the name and the options of each form, so that all have about the same room.

    Args:
        split: Whose rows.
        sizes: What the reader chose.
        seed: Seeds the order of the rows.
    """
    common: dict[str, Any] = {"seed": seed} if seed else {}
    if sizes.multiple_of > 1:
        common["multiple_of"] = sizes.multiple_of

    padded = {"batch_size": sizes.rows, **common}
    yield "padded", padded
    yield "padded, in buckets", {**padded, "bucketed": True}

    # The others take as much room as a padded batch, so that their padding can be compared.
    shapes = first_batches(split, BatchOptions(**padded), count=64)
    room = sum(shape.width * len(shape.lines) for shape in shapes) // max(len(shapes), 1)
    longest = max((shape.width for shape in shapes), default=1)
    tokens = sizes.tokens or -(-max(room, longest, 1) // 64) * 64
    width = sizes.width or max(512, longest)
    yield "by tokens", {"batch_tokens": tokens, **common}
    yield "by tokens, in buckets", {"batch_tokens": tokens, "bucketed": True, **common}
    packed = max(1, round(tokens / width))
    yield "packed", {"batch_size": packed, "row_tokens": width, **common}
    yield "flat", {"batch_tokens": tokens, "flat": True, **common}


def _counting(
    split: Split, sizes: BatchSizes, *, seed: int, epoch: int
) -> Callable[[Progress], list[Form]]:
    """Return a function that counts and draws all forms."""

    def count(progress: Progress) -> list[Form]:
        most = _STEPS if len(split) > _MOST_ROWS else None
        counted = []
        for number, (name, given) in enumerate(options_of(split, sizes, seed=seed)):
            progress(number, 6)
            options = BatchOptions(**given)
            try:
                stats = batch_stats(split, options, max_steps=most)
                shapes = first_batches(split, options, epoch=epoch, count=DRAWN)
            except ValueError as error:
                raise CallError(f"{name}: {error}") from None
            counted.append((name, given, stats, shapes))

        # Padded batches set the scale. Packed and flat rows are wider, and go on in the next line.
        padded = [
            shape
            for _, _, stats, shapes in counted
            if stats.packed_rows is None
            for shape in shapes
        ]
        unit = _WIDTH / max((shape.width for shape in padded), default=_WIDTH)
        return [
            Form(
                name=name,
                call=", ".join(f"{option}={value!r}" for option, value in given.items()),
                stats=stats,
                batches=[draw(shape, unit) for shape in shapes],
            )
            for name, given, stats, shapes in counted
        ]

    return count


def draw(shape: BatchShape, unit: float) -> BatchDrawing:
    """Draw a batch to scale; a line that is wider than the drawing goes on below.

    Args:
        shape: The batch.
        unit: Width of a token.
    """
    wide = max(1, round(_WIDTH / unit))
    rows: list[Bar] = []
    padding: list[Bar] = []
    y = 0
    for line in shape.lines:
        place = 0
        for length in line:
            rows += _bars(place, place + length, wide, unit, y)
            place += length
        padding += _bars(place, shape.width, wide, unit, y)
        in_lines = -(-shape.width // wide)
        y += in_lines * _LINE + (_GAP if in_lines > 1 else 0)
    return BatchDrawing(
        shape=shape,
        height=y,
        rows=rows,
        padding=padding,
    )


def _bars(start: int, stop: int, wide: int, unit: float, y: int) -> Iterator[Bar]:
    """Give the parts of tokens `[start, stop)` of a line, one for each line that they lie in."""
    while start < stop:
        line, place = divmod(start, wide)
        end = min(stop, (line + 1) * wide)
        yield Bar(round(place * unit, 2), y + line * _LINE, round((end - start) * unit, 2))
        start = end
