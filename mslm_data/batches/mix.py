"""Read several splits as one, in given shares (`md.mix`).

An epoch takes a fixed number of rows of each split. A split is read in rounds: each round has all
rows once, in its own order. An epoch may hold several rounds of a small split. A large split
continues its round in the next epoch, so no row is skipped.

The row at any position of an epoch is computed, without the rows before it:

* position -> split: the kernel `deal_places`, which lets all shares grow evenly;
* split, and number of its rows before -> round, and position in the round: a division;
* position in the round -> row: the `RowOrder` of the split, with the round as its epoch.

The row numbers of a mix encode split, round and row:

    number = first number of the split + round of this epoch * rows of the split + row

So rows are gathered and measured by number, as those of a split are. Numbers begin at the length of
the mix: smaller ones are positions within an epoch (see `Mix.epoch_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.batches.row_order import (
    MAX_EPOCHS,
    RowOrder,
    ShardUses,
    row_order,
    shuffle_rounds,
)
from mslm_data.data import bio
from mslm_data.data.examples import Examples, gather_examples
from mslm_data.data.ragged import make_offsets
from mslm_data.draw import macros, notebook_html
from mslm_data.kernels.mixing import deal_places, name_repeats, renumber_labels
from mslm_data.shard.html import draw_rows
from mslm_data.shard.row_numbers import check_rows
from mslm_data.shard.split import Picks, Rows, Split, SplitShare


class Mix(Rows):
    """Several splits read as one, to use like a split; made by `md.mix`.

    Its length is the number of rows of an epoch.

    Attributes:
        labels: Names of the label numbers in `span_labels`: the labels of the first split, then the
            new ones of the second, and so on.
        tags: Names of the tag numbers in `bio`.
        doc_labels: Names of the label numbers in `doc_labels`; empty without document labels.
        token_ids: Special token ids of the common tokenizer.
        protected: Whether some rows are patients' text.
        place: None, since the rows are in several folders.
    """

    def __init__(self, splits: Sequence[SplitShare]) -> None:
        """Merge the labels of the splits. No row is read.

        Raises:
            ValueError: The splits have different tokenizers, a split is repeated, or there are too
                many labels.
        """
        _check_same_tokenizer(splits)
        _check_distinct(splits)

        manifests = [part.source.manifest for part in splits]
        self._splits = tuple(splits)
        self.labels = _unite_names([manifest.labels for manifest in manifests], "labels")
        self.tags = tuple(bio.tag_names(self.labels))
        self.doc_labels = _unite_names(
            [manifest.doc_labels or () for manifest in manifests], "doc_labels"
        )
        self.token_ids = splits[0].source.token_ids
        self.protected = any(manifest.protected for manifest in manifests)
        self.place = None

        self._starts = make_offsets(np.array([part.rows for part in splits], np.int64))
        """int64 `[S + 1]`, first position of each split in an epoch that is not shuffled."""
        counts = [_max_rounds(part) * len(part.source) for part in splits]
        self._firsts = len(self) + make_offsets(np.array(counts, np.int64))
        """int64 `[S + 1]`, first row number of each split."""
        self._label_maps = [_LabelMap.for_split(part.source, self) for part in splits]
        self._columns = _optional_columns(splits)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def splits(self) -> tuple[SplitShare, ...]:
        """The splits and their shares, in the order of `md.mix`."""
        return self._splits

    @property
    def tokens(self) -> int:
        """Approximate number of tokens of an epoch: rows times mean length, for each split."""
        return sum(part.tokens for part in self.splits)

    @property
    def digest(self) -> None:
        """None: the order of a mix has the digests of its splits."""
        return None

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.name} {part.share:.1%}" for part in self.splits)

        return f"Mix({parts}; {len(self):,} rows, about {self.tokens:,} tokens an epoch)"

    def _repr_html_(self) -> str:
        """Return a table of the splits and some example rows, for notebooks."""
        rows = [
            (
                part.name,
                f"{part.share:.1%}",
                len(part.source),
                part.rows,
                part.tokens,
                f"{part.times:.2f}",
            )
            for part in self.splits
        ]
        head = ("split", "share", "rows of it", "rows an epoch", "tokens an epoch", "times")
        table = macros("parts.html").table(head, rows, right=("share", "times"))
        return notebook_html(table, draw_rows(self))

    def row_order(self, options: BatchOptions) -> MixedOrder:
        """Return the order of the rows of the mix.

        Args:
            options: Options of each split's order, see `row_order`.
        """
        return MixedOrder(
            splits=self.splits,
            orders=tuple(row_order(part.source, options) for part in self.splits),
            firsts=tuple(self._firsts[:-1].tolist()),
        )

    def epoch_rows(self, rows: RowNumbers, *, seed: int, epoch: int) -> RowNumbers:
        """Convert row numbers within an epoch, from 0, to row numbers for `take`.

        Samplers of other packages draw numbers in `[0, len(self))`. They stand for the rows of the
        epoch split by split, each split in its shuffled order.

        Args:
            rows: int64 `[R]`, each in `[0, len(self))`. Larger numbers are for `take` already, and
                are kept.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """
        numbers = np.array(rows, np.int64)
        for split, part in enumerate(self.splits):
            start = int(self._starts[split])
            places = np.flatnonzero((numbers >= start) & (numbers < start + part.rows))
            if len(places):
                # Earlier epochs took `epoch * part.rows` rows of the split, over all rounds.
                size = len(part.source)
                first_round, done = divmod(epoch * part.rows, size)
                rounds, within = np.divmod(numbers[places] - start + done, size)
                local = shuffle_rounds(
                    within, rounds, size=size, seed=seed, first_round=first_round
                )
                numbers[places] = int(self._firsts[split]) + rounds * size + local
        return numbers

    def picks(self, rows: Sequence[int] | RowNumbers) -> Picks:
        """Group rows by shard; see `Rows.picks`.

        Raises:
            IndexError: A row number is out of range.
            TypeError: `rows` are not integers.
        """
        return [pick for part in self._locate(rows) for pick in part.picks]

    def take(self, rows: Sequence[int] | RowNumbers) -> Examples:
        """Copy rows in any order, with the label numbers of the mix.

        In later rounds of an epoch, a row gets another key, and so another mask.

        Args:
            rows: `[R]`, from `epoch_rows` or `MixedOrder.rows`.

        Raises:
            IndexError: A row number is out of range.
            ShardError: A shard is missing or damaged.
            TypeError: `rows` are not integers.
        """
        parts = self._locate(rows)
        columns = [
            (shard.columns(), places, local)
            for part in parts
            for shard, places, local in part.picks
        ]
        examples = gather_examples(columns, len(rows), self.token_ids, columns=self._columns)

        for part in parts:
            part.label_map.apply(examples, part.places)

        # A repeated row would have the same mask again: change its key.
        if any(part.rounds.any() for part in parts):
            rounds = np.zeros(len(rows), np.int64)
            for part in parts:
                rounds[part.places] = part.rounds
            keys = examples.keys.copy()
            name_repeats(rounds, keys)
            examples = replace(examples, keys=keys)
        return examples

    def _locate(self, rows: Sequence[int] | RowNumbers) -> list[_SplitRows]:
        """Group rows by split and shard."""
        # Positions within an epoch are numbers below `len(self)`; `epoch_rows` converts them.
        rows = check_rows(rows, int(self._firsts[-1]), start=len(self))
        if not len(rows):
            return []

        split_numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        parts = []
        for number in np.flatnonzero(np.bincount(split_numbers)).tolist():
            places = np.flatnonzero(split_numbers == number)
            source = self.splits[number].source

            # Decode the row number: round of the epoch, and row of the split.
            local = rows[places] - self._firsts[number]
            rounds = local // len(source)
            local -= rounds * len(source)

            # `source.picks` gives places within `local`; convert them to places within `rows`.
            picks: Picks = [
                (shard, places[inner], shard_rows)
                for shard, inner, shard_rows in source.picks(local)
            ]
            parts.append(_SplitRows(self._label_maps[number], places, rounds, picks))
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedOrder:
    """The order of the rows of a mix: the orders of its splits, interleaved.

    Attributes:
        splits: The splits and their shares.
        orders: The order of each split. A round of the split takes the place of an epoch.
        firsts: First row number of each split.
    """

    splits: tuple[SplitShare, ...] = field(repr=False)
    orders: tuple[RowOrder, ...]
    firsts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of rows of an epoch."""
        return sum(part.rows for part in self.splits)

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the row numbers at positions `[start, stop)` of an epoch.

        At every position, the number of rows of a split so far is its share of the position to
        within one row for two or three splits, and two rows for up to ten.
        """
        # Deal large splits first: the rounding error of a split is passed on to those after it.
        by_size = sorted(range(len(self.splits)), key=lambda split: -self.splits[split].rows)
        sizes = np.array([self.splits[split].rows for split in by_size], np.int64)
        before, remainders = _count_before(start, sizes.tolist())
        dealt = np.empty(stop - start, np.int64)
        deal_places(sizes, np.array(remainders, np.int64), dealt)

        out = np.empty(stop - start, np.int64)
        for rank, split in enumerate(by_size):
            places = np.flatnonzero(dealt == rank)
            out[places] = self._next_rows(split, before[rank], len(places), seed, epoch)
        return out

    def _next_rows(self, split: int, before: int, count: int, seed: int, epoch: int) -> RowNumbers:
        """Return `count` row numbers of a split, after the first `before` of the epoch."""
        part = self.splits[split]
        size = len(part.source)
        first_round = epoch * part.rows // size
        done = epoch * part.rows + before  # rows of the split before these, over all epochs

        # Fill the array round by round.
        numbers = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            round_number, place = divmod(done + filled, size)
            step = min(count - filled, size - place)
            rows = self.orders[split].rows(
                place, place + step, seed=seed, epoch=round_number % MAX_EPOCHS
            )
            numbers[filled : filled + step] = rows + (round_number - first_round) * size
            filled += step
        return numbers + self.firsts[split]

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return when an epoch reads each shard: an item per split.

        A shard is listed once for each round of the epoch. The item is None if rows come from any
        shard at any position.
        """
        return [self._split_shard_uses(split, seed, epoch) for split in range(len(self.splits))]

    def _split_shard_uses(self, split: int, seed: int, epoch: int) -> ShardUses | None:
        part = self.splits[split]
        size = len(part.source)
        first = epoch * part.rows
        rounds = range(first // size, -(-(first + part.rows) // size))

        # Ranges counted in rows of this split in this epoch, round after round.
        uses_per_round = []
        for number in rounds:
            (uses,) = self.orders[split].shard_uses(seed=seed, epoch=number % MAX_EPOCHS)
            if uses is None:
                return None
            begin = number * size - first
            uses_per_round.append(ShardUses(uses.shards, uses.starts + begin, uses.stops + begin))
        shards, starts, stops = (
            np.concatenate(column) for column in zip(*uses_per_round, strict=True)
        )
        in_epoch = (stops > 0) & (starts < part.rows)

        # Convert to positions of the mix. The number of rows of a split before a position is its
        # share, with an error of at most half a row for each split dealt before it. Widen the
        # ranges by that. In Python integers, since the products may exceed 64 bits.
        slack = len(self.splits)
        size = self.size
        firsts = [(place - slack) * size // part.rows for place in starts[in_epoch].tolist()]
        pasts = [-((place + slack) * -size // part.rows) for place in stops[in_epoch].tolist()]
        return ShardUses(
            shards[in_epoch],
            np.clip(np.array(firsts, np.int64), 0, size),
            np.clip(np.array(pasts, np.int64), 0, size),
        )

    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this order."""
        return {
            "rows": self.size,
            "mix": [
                [*part.described, order.describe()]
                for part, order in zip(self.splits, self.orders, strict=True)
            ],
        }


def _count_before(place: int, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the number of rows of each split before a position, and remainders for `deal_places`.

    Split s takes `round(places_left * rows[s] / rows_left)` of the places that earlier splits left:

        count[s] = floor((2 * places_left * rows[s] + rows_left) / (2 * rows_left))
    """
    # In Python integers, since the products may exceed 64 bits.
    counts = []
    remainders = []
    places_left = place
    rows_left = sum(rows)
    for split_rows in rows:
        count, remainder = divmod(2 * places_left * split_rows + rows_left, 2 * rows_left)
        counts.append(count)
        remainders.append(remainder)
        places_left -= count
        rows_left -= split_rows
    return counts, remainders


def _max_rounds(part: SplitShare) -> int:
    """Return the maximum number of rounds of a split that one epoch touches."""
    # Worst case: the epoch begins with the last row of a round.
    size = len(part.source)
    return (size - 1 + part.rows - 1) // size + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LabelMap:
    """The label numbers of a split in the mix. None for a column whose numbers stay the same.

    Attributes:
        labels: int16 `[L]`, new number of each label.
        doc_labels: int16 `[D + 1]`, new number of each document label. The last item is -1, so a
            lookup with -1, a document without a label, gives -1.
    """

    labels: npt.NDArray[np.int16] | None
    doc_labels: npt.NDArray[np.int16] | None

    @classmethod
    def for_split(cls, split: Split, mix: Mix) -> _LabelMap:
        """Map the labels of a split to those of the mix by name."""
        names = split.manifest.labels
        labels = None
        if names != mix.labels[: len(names)]:
            labels = np.array([mix.labels.index(name) for name in names], np.int16)

        names = split.manifest.doc_labels or ()
        doc_labels = None
        if names != mix.doc_labels[: len(names)]:
            numbers = [mix.doc_labels.index(name) for name in names]
            doc_labels = np.array([*numbers, -1], np.int16)
        return cls(labels=labels, doc_labels=doc_labels)

    def apply(self, examples: Examples, places: npt.NDArray[np.int64]) -> None:
        """Renumber the labels of the rows at `places`, in place."""
        if self.labels is not None:
            renumber_labels(
                places,
                self.labels,
                examples.span_labels.offsets,
                examples.span_starts.values,
                examples.span_ends.values,
                examples.span_labels.values,
                examples.bio.offsets,
                examples.bio.values,
            )
        if self.doc_labels is not None and examples.doc_labels is not None:
            examples.doc_labels[places] = self.doc_labels[examples.doc_labels[places]]


@dataclass(frozen=True, slots=True, eq=False)
class _SplitRows:
    """The rows of one split within a request for rows of the mix.

    Attributes:
        label_map: Label numbers of the split in the mix.
        places: int64 `[R]`, places of its rows in the request.
        rounds: int64 `[R]`, round of each row within the epoch.
        picks: Its rows by shard, with their places in the request.
    """

    label_map: _LabelMap
    places: npt.NDArray[np.int64]
    rounds: npt.NDArray[np.int64]
    picks: Picks


def _optional_columns(splits: Sequence[SplitShare]) -> frozenset[str]:
    """Return the optional columns that the rows of a mix have."""
    columns = [part.source.manifest.optional_columns for part in splits]

    # Rows of splits without sentences or document labels have one sentence, and no label. Character
    # offsets have no placeholder, so all splits must have them.
    shared = frozenset.intersection(*columns)
    return shared | (frozenset.union(*columns) & {"sentence_starts", "doc_labels"})


def _unite_names(names: Sequence[tuple[str, ...]], column: str) -> tuple[str, ...]:
    """Return the distinct names of all splits, in order of first appearance.

    Raises:
        ValueError: More names than a label column can number.
    """
    distinct = tuple(dict.fromkeys(name for split_names in names for name in split_names))
    if len(distinct) > bio.MAX_LABELS:
        raise ValueError(
            f"mix: expected at most {bio.MAX_LABELS} different {column}, got {len(distinct)}; "
            "rename some when building (annotate.rename)"
        )
    return distinct


def _check_same_tokenizer(splits: Sequence[SplitShare]) -> None:
    """Check that all splits were built with the same tokenizer.

    Raises:
        ValueError: Two splits have different tokenizers.
    """
    first = splits[0]
    known = first.source.manifest.tokenizer.sha256
    for part in splits[1:]:
        tokenizer = part.source.manifest.tokenizer.sha256
        if tokenizer != known or part.source.token_ids != first.source.token_ids:
            raise ValueError(
                f"mix: {first.name} has tokenizer {known[:12]}, {part.name} has "
                f"{tokenizer[:12]}; build one of them again with the --tokenizer of the other"
            )


def _check_distinct(splits: Sequence[SplitShare]) -> None:
    """Check that no split is repeated. Repeated rows would get the same masks.

    Raises:
        ValueError: A split is repeated, or given with a subset of it.
    """
    seen: dict[object, SplitShare] = {}
    for part in splits:
        # Folders of `mslm-data subset` have other shards than the folder that was built.
        manifest = part.source.manifest
        plan = manifest.draws[0]["plan"] if manifest.draws else manifest.plan
        for identity in (part.digest, (plan, part.source.name)):
            first = seen.setdefault(identity, part)
            if first is part:
                continue
            is_whole = (
                part.digest == first.digest and part.source.numbers is first.source.numbers is None
            )
            advice = (
                "name it once, with the sum of both weights" if is_whole else "pass one of them"
            )
            raise ValueError(f"mix: {part.name} is of the same split as {first.name}; {advice}")
