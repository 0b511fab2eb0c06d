"""The rows of several splits as one, in given shares: what `md.mix` makes.

An epoch takes a fixed number of rows of each split. A split gives its rows in rounds: each round
has all its rows once, in an order of its own. A small split is in many rounds in an epoch; a large
one resumes its round in the next epoch where this one stopped, so that no row is passed over.

All this is computed from numbers alone, so any place of any epoch is found without walking there:

* place -> split: the kernel `deal_places` lets all shares grow evenly;
* split and the number of its places before -> round and place in the round: a division;
* place in the round -> row: the split's own `RowOrder`, with the round for its epoch.

A row is named by one number, in which its split and its round of the epoch stand too. So rows are
gathered and measured by their numbers alone, as those of a single split are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import make_offsets
from mslm_data.draw import macros, shown
from mslm_data.kernels.mixing import deal_places, name_repeats, renumber_labels
from mslm_data.shard.html import draw_rows
from mslm_data.shard.row_protocol import CHUNK, Rows, SplitShare, check_chunk
from mslm_data.shard.split import Picks, Split, gather_lengths, gather_rows


class Mix(Rows):
    """The rows of several splits as one; goes wherever a split goes.

    `md.mix` makes one. The length of a mix is the number of rows of an epoch.

    Attributes:
        labels: The label of each index of `span_labels`: those of the first split, then those that
            the second adds, and so on.
        tags: The tag of each index of `bio`.
        doc_labels: The label of each index of `doc_labels`; empty where documents have none.
        token_ids: The ids of the one tokenizer.
        protected: Whether some of the rows are patients' text.
        place: None, as the rows are of several folders.
    """

    def __init__(self, splits: Sequence[SplitShare]) -> None:
        """Unite the labels; no row is read.

        Raises:
            ValueError: Splits of different tokenizers, one that stands twice, or too many labels.
        """
        _check_same_tokenizer(splits)
        _check_distinct(splits)

        manifests = [part.split.manifest for part in splits]
        self._splits = tuple(splits)
        self.labels = _united([manifest.labels for manifest in manifests], "labels")
        self.tags = tuple(bio.tag_names(self.labels))
        self.doc_labels = _united(
            [manifest.doc_labels or () for manifest in manifests], "doc_labels"
        )
        self.token_ids = splits[0].split.token_ids
        self.protected = any(manifest.protected for manifest in manifests)
        self.place = None

        self._starts = make_offsets(np.array([part.rows for part in splits], np.int64))
        """int64 `[S + 1]`: where each split begins among the numbers of an epoch's rows."""
        rooms = [_most_rounds(part) * len(part.split) for part in splits]
        self._firsts = len(self) + make_offsets(np.array(rooms, np.int64))
        """int64 `[S + 1]`: where each split begins among the numbers of rows."""
        self._numbers = [_Numbers.for_split(part.split, self) for part in splits]
        self._columns = _optional_columns(splits)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def splits(self) -> tuple[SplitShare, ...]:
        """The mixed splits with their shares, in the order in which they were given."""
        return self._splits

    @property
    def tokens(self) -> int:
        """About how many tokens an epoch has: each split's rows, times their mean length."""
        return sum(part.tokens for part in self.splits)

    @property
    def digest(self) -> None:
        """None: the order of a mix names the digests of its splits."""
        return None

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.name} {part.share:.1%}" for part in self.splits)

        return f"Mix({parts}; {len(self):,} rows, about {self.tokens:,} tokens an epoch)"

    def _repr_html_(self) -> str:
        """Return what an epoch takes of each split, and some rows of it, as notebooks show them."""
        rows = [
            (
                part.name,
                f"{part.share:.1%}",
                len(part.split),
                part.rows,
                part.tokens,
                f"{part.times:.2f}",
            )
            for part in self.splits
        ]
        head = ("split", "share", "rows of it", "rows an epoch", "tokens an epoch", "times")
        table = macros("parts.html").table(head, rows, right=("share", "times"))
        return shown(table, draw_rows(self))

    def row_order(self, options: BatchOptions) -> MixedOrder:
        """Return the order of an epoch's rows.

        Args:
            options: The order of each split's rows; see `row_order`.
        """
        return MixedOrder(
            splits=self.splits,
            orders=tuple(row_order(part.split, options) for part in self.splits),
            firsts=tuple(self._firsts[:-1].tolist()),
        )

    def epoch_rows(self, rows: RowNumbers, *, seed: int, epoch: int) -> RowNumbers:
        """Return the numbers of rows that others number within an epoch, from 0.

        Samplers of other packages draw such numbers. Those of a split's rows follow each other, in
        the order in which the split gives them when it is shuffled.

        Args:
            rows: Numbers in `[0, len(self))`; larger ones are numbers of rows already.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """
        numbers = np.array(rows, np.int64)
        for split, part in enumerate(self.splits):
            start = int(self._starts[split])
            places = np.flatnonzero((numbers >= start) & (numbers < start + part.rows))
            if len(places):
                size = len(part.split)
                first_round, done = divmod(epoch * part.rows, size)
                rounds, within = np.divmod(numbers[places] - start + done, size)
                given = shuffle_rounds(
                    within, rounds, size=size, seed=seed, first_round=first_round
                )
                numbers[places] = int(self._firsts[split]) + rounds * size + given
        return numbers

    def examples(
        self, start: int = 0, stop: int | None = None, *, seed: int = 0, epoch: int = 0
    ) -> Examples:
        """Return rows `[start, stop)` of an epoch, split by split, not mixed.

        All of them are the rows that a shuffled epoch of the same seed has.

        Raises:
            IndexError: Rows that are not there.
            ShardError: A shard is missing or damaged.
        """
        stop = len(self) if stop is None else stop
        return self.take(self.epoch_rows(np.arange(start, stop), seed=seed, epoch=epoch))

    def chunks(self, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0) -> Iterator[Examples]:
        """Yield the rows of an epoch, at most this many at a time; see `examples`.

        Raises:
            ShardError: A shard is missing or damaged, or has changed meanwhile.
        """
        yield from self._chunks(0, len(self), rows, seed, epoch)

    def chunks_from(
        self, split: int, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0
    ) -> Iterator[Examples]:
        """Yield the rows that an epoch takes of one split alone; see `chunks`.

        Args:
            split: Its number in `splits`.
            rows: Rows of a chunk at most.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.

        Raises:
            ShardError: A shard is missing or damaged, or has changed meanwhile.
        """
        start, stop = self._starts[split : split + 2].tolist()
        yield from self._chunks(start, stop, rows, seed, epoch)

    def _chunks(
        self, start: int, stop: int, rows: int, seed: int, epoch: int
    ) -> Iterator[Examples]:
        """Yield rows `[start, stop)` of an epoch, as `examples` numbers them."""
        check_chunk(rows)
        self.check()
        self.bring()
        for first in range(start, stop, rows):
            yield self.examples(first, min(first + rows, stop), seed=seed, epoch=epoch)
        self.check()

    def take(self, rows: RowNumbers) -> Examples:
        """Copy any rows together, in any order, with the labels of the mix.

        Rows of a round that is not the first of its epoch have keys, and so masks, of their own.

        Args:
            rows: int64 `[R]`, as a row order or `epoch_rows` gives them.

        Raises:
            IndexError: A row that is not there.
            ShardError: A shard is missing or damaged.
        """
        found = self._found(rows)
        picks = [pick for part in found for pick in part.picks]
        examples = gather_rows(picks, len(rows), self.token_ids, columns=self._columns)

        for part in found:
            part.numbers.apply(examples, part.places)
        if any(part.rounds.any() for part in found):
            rounds = np.zeros(len(rows), np.int64)
            for part in found:
                rounds[part.places] = part.rounds
            keys = examples.keys.copy()
            name_repeats(rounds, keys)
            examples = replace(examples, keys=keys)
        return examples

    def lengths(self, rows: RowNumbers) -> npt.NDArray[np.int64]:
        """Return the number of tokens of any rows, in any order, `[R]`; see `take`."""
        return gather_lengths(
            [pick for part in self._found(rows) for pick in part.picks], len(rows)
        )

    def check(self) -> None:
        """Open shards anew, with all checks, whose files have changed since they were opened.

        Raises:
            ShardError: A file is missing by now, or holds other bytes than the manifest says.
        """
        for part in self.splits:
            part.split.check()

    def bring(self) -> None:
        """Fetch all shards of remote folders that are not here yet.

        Raises:
            FetchError: A shard is missing, out of reach, or not what the manifest says.
            ShardError: A folder there is another by now.
            ValueError: Those of one take more than its `cache_bytes`.
        """
        for part in self.splits:
            own = part.split
            if own.cache_bytes is not None and own.record.bytes > own.cache_bytes:
                raise ValueError(
                    f"cache_bytes: expected at least the {own.record.bytes} bytes of {part.name}, "
                    f"as a mix reads all of its shards, got {own.cache_bytes}; pass more"
                )
            own.bring()

    def _found(self, rows: RowNumbers) -> list[_Found]:
        """Sort rows by their splits and shards."""
        if not len(rows):
            return []
        if rows.min() < len(self) or rows.max() >= self._firsts[-1]:
            raise IndexError(
                f"rows: expected numbers that an order of the mix gives, from {len(self)} on and "
                f"below {self._firsts[-1]}, got {rows.min()} to {rows.max()}; `epoch_rows` makes "
                "them of numbers from 0"
            )

        split_numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        found = []
        for split in np.flatnonzero(np.bincount(split_numbers)).tolist():
            places = np.flatnonzero(split_numbers == split)
            part = self.splits[split].split
            local = rows[places] - self._firsts[split]
            rounds = local // len(part)
            local -= rounds * len(part)
            picks: Picks = [(shard, places[at], of) for shard, at, of in part.picks(local)]
            found.append(_Found(self._numbers[split], places, rounds, picks))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedOrder:
    """The order of a mix's rows: the splits' own orders, dealt together.

    Attributes:
        splits: The mix's.
        orders: The order of each split's rows, asked with the number of a round for its epoch.
        firsts: Where each split begins among the numbers of rows.
    """

    splits: tuple[SplitShare, ...] = field(repr=False)
    orders: tuple[RowOrder, ...]
    firsts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of places."""
        return sum(part.rows for part in self.splits)

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of an epoch.

        Of the first p places of an epoch, each split has its part of all rows, rounded to within a
        row for two or three splits, and two for as many as ten.
        """
        # Splits of many rows are dealt first: the rounding of one is felt by those after it.
        dealt = sorted(range(len(self.splits)), key=lambda split: -self.splits[split].rows)
        sizes = np.array([self.splits[split].rows for split in dealt], np.int64)
        before, remainders = _dealt_before(start, sizes.tolist())
        turns = np.empty(stop - start, np.int64)
        deal_places(sizes, np.array(remainders, np.int64), turns)

        out = np.empty(stop - start, np.int64)
        for turn, split in enumerate(dealt):
            places = np.flatnonzero(turns == turn)
            out[places] = self._given(split, before[turn], len(places), seed, epoch)
        return out

    def _given(self, split: int, before: int, count: int, seed: int, epoch: int) -> RowNumbers:
        """Return the next rows that a split gives in an epoch, after those before."""
        part = self.splits[split]
        size = len(part.split)
        first_round = epoch * part.rows // size
        done = epoch * part.rows + before

        given = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            number, place = divmod(done + filled, size)
            more = min(count - filled, size - place)
            rows = self.orders[split].rows(
                place, place + more, seed=seed, epoch=number % MAX_EPOCHS
            )
            given[filled : filled + more] = rows + (number - first_round) * size
            filled += more
        return given + self.firsts[split]

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return between which places of the mix the rows of each split's shards come.

        A shard stands there once for each round of the epoch. None for a split whose rows come from
        any of its shards at any place.
        """
        return [self._list_uses(split, seed, epoch) for split in range(len(self.splits))]

    def _list_uses(self, split: int, seed: int, epoch: int) -> ShardUses | None:
        """Return the uses of one split's shards."""
        part = self.splits[split]
        size = len(part.split)
        first = epoch * part.rows
        rounds = range(first // size, -(-(first + part.rows) // size))

        # In rows that the split gives in this epoch: rounds follow each other.
        of_rounds = []
        for number in rounds:
            (uses,) = self.orders[split].shard_uses(seed=seed, epoch=number % MAX_EPOCHS)
            if uses is None:
                return None
            begin = number * size - first
            of_rounds.append(ShardUses(uses.shards, uses.starts + begin, uses.stops + begin))
        shards, starts, stops = (np.concatenate(column) for column in zip(*of_rounds, strict=True))
        here = (stops > 0) & (starts < part.rows)

        # In places of the mix. Of the first p places a split has its part, rounded: by each split
        # dealt before it, what is left for it differs from its part by half a row at most.
        # In Python's integers, as products of two numbers of rows can be large.
        slack = len(self.splits)
        whole = self.size
        firsts = [(place - slack) * whole // part.rows for place in starts[here].tolist()]
        pasts = [-((place + slack) * -whole // part.rows) for place in stops[here].tolist()]
        return ShardUses(
            shards[here],
            np.clip(np.array(firsts, np.int64), 0, whole),
            np.clip(np.array(pasts, np.int64), 0, whole),
        )

    def describe(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {
            "rows": self.size,
            "mix": [
                [*part.described, order.describe()]
                for part, order in zip(self.splits, self.orders, strict=True)
            ],
        }


def _dealt_before(place: int, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how many places before one each split has, and the remainders for `deal_places`.

    In Python's integers, as products of two numbers of rows can be large.
    """
    before = []
    remainders = []
    left = place
    rest = sum(rows)
    for own in rows:
        count, remainder = divmod(2 * left * own + rest, 2 * rest)
        before.append(count)
        remainders.append(remainder)
        left -= count
        rest -= own
    return before, remainders


def _most_rounds(part: SplitShare) -> int:
    """Return in how many rounds of a split an epoch can be: most where it begins with one's end."""
    size = len(part.split)
    return (size - 1 + part.rows - 1) // size + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Numbers:
    """The numbers that a split's labels have in the mix; None where they are the same.

    Attributes:
        labels: int16 `[L]`, of each label of the split.
        doc_labels: int16 `[D + 1]`, of each label of a document; the last is -1, as -1 is looked up
            there.
    """

    labels: npt.NDArray[np.int16] | None
    doc_labels: npt.NDArray[np.int16] | None

    @classmethod
    def for_split(cls, split: Split, mix: Mix) -> _Numbers:
        """Compare the labels of a split with those of the mix."""
        own = split.manifest.labels
        labels = None
        if own != mix.labels[: len(own)]:
            labels = np.array([mix.labels.index(label) for label in own], np.int16)

        of_documents = split.manifest.doc_labels or ()
        doc_labels = None
        if of_documents != mix.doc_labels[: len(of_documents)]:
            numbers = [mix.doc_labels.index(label) for label in of_documents]
            doc_labels = np.array([*numbers, -1], np.int16)
        return cls(labels=labels, doc_labels=doc_labels)

    def apply(self, examples: Examples, places: npt.NDArray[np.int64]) -> None:
        """Change the numbers of the rows at `places`."""
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
class _Found:
    """The rows of one split among some of the mix.

    Attributes:
        numbers: Of the split's labels.
        places: int64 `[R]`, where its rows stand among them.
        rounds: int64 `[R]`, the round of the epoch that each is of.
        picks: These rows by shards, with their places among all.
    """

    numbers: _Numbers
    places: npt.NDArray[np.int64]
    rounds: npt.NDArray[np.int64]
    picks: Picks


def _optional_columns(splits: Sequence[SplitShare]) -> frozenset[str]:
    """Return the columns that rows have besides those that all shards have.

    Tokens' characters come along where all splits have them; sentences of joined rows, and labels
    of documents, where one has.
    """
    columns = set()
    manifests = [part.split.manifest for part in splits]
    if all(manifest.pipeline["encode"]["keep_text"] for manifest in manifests):
        columns |= {"token_starts", "token_ends"}
    if any(manifest.joined for manifest in manifests):
        columns.add("sentence_starts")
    if any(manifest.doc_labels is not None for manifest in manifests):
        columns.add("doc_label")
    return frozenset(columns)


def _united(names: Sequence[tuple[str, ...]], what: str) -> tuple[str, ...]:
    """Return all names, each once, in the order in which they come first.

    Raises:
        ValueError: More than a shard can number.
    """
    united = tuple(dict.fromkeys(name for of_split in names for name in of_split))
    if len(united) > bio.MAX_LABELS:
        raise ValueError(
            f"mix: expected at most {bio.MAX_LABELS} different {what}, got {len(united)}; rename "
            "some when building (annotate.rename)"
        )
    return united


def _check_same_tokenizer(splits: Sequence[SplitShare]) -> None:
    """Check that all splits were built with the same tokenizer.

    Raises:
        ValueError: Two splits have different tokenizers.
    """
    first = splits[0]
    known = first.split.manifest.tokenizer["sha256"]
    for part in splits[1:]:
        tokenizer = part.split.manifest.tokenizer["sha256"]
        if tokenizer != known or part.split.token_ids != first.split.token_ids:
            raise ValueError(
                f"mix: {first.name} has tokenizer {known[:12]}, {part.name} has "
                f"{tokenizer[:12]}; build one of them again with the --tokenizer of the other"
            )


def _check_distinct(splits: Sequence[SplitShare]) -> None:
    """Check that no split is repeated: its rows would come twice with the same masks.

    Raises:
        ValueError: A split is repeated.
    """
    names: dict[str, str] = {}
    for part in splits:
        digest = part.described[2]
        if digest in names:
            raise ValueError(
                f"mix: {part.name} has the rows of {names[digest]}; name it once, with the sum of "
                "both weights"
            )
        names[digest] = part.name
