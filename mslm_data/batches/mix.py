"""Read several splits as one, in given shares (`md.mix`).

The rows of a mix are those of its splits, one after the other: row 0 of the second split has the
number of rows of the first. An epoch takes a fixed number of rows of each split, in rounds; see
`blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.batches.blocks import block_rows, find_parts
from mslm_data.data import bio
from mslm_data.data.examples import Examples, gather_examples
from mslm_data.data.ragged import make_offsets
from mslm_data.draw import macros, notebook_html
from mslm_data.kernels.mixing import name_repeats, renumber_labels
from mslm_data.shard.html import draw_rows
from mslm_data.shard.read import Shard
from mslm_data.shard.row_numbers import check_rows, resolve_stop
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

        self._firsts = make_offsets(np.array([len(part.source) for part in splits], np.int64))
        """int64 `[S + 1]`, first row number of each split."""
        self._label_maps = [_LabelMap.for_split(part.source, self) for part in splits]
        self._columns = _optional_columns(splits)
        self._epoch_rows: (
            tuple[tuple[int, int], tuple[RowNumbers, npt.NDArray[np.uint32] | None]] | None
        ) = None
        """Seed and epoch of the last `epoch_rows`, and its result."""

    def __len__(self) -> int:
        return sum(part.rows for part in self.splits)

    @property
    def stored(self) -> int:
        """Number of rows of all splits."""
        return int(self._firsts[-1])

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
        """None: states have the digests of the splits."""
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

    def epoch_rows(
        self, *, seed: int, epoch: int
    ) -> tuple[RowNumbers, npt.NDArray[np.uint32] | None]:
        """Return the rows of a shuffled epoch, split by split, as `block_rows` does.

        Args:
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """
        if self._epoch_rows is None or self._epoch_rows[0] != (seed, epoch):
            rows = block_rows(
                find_parts(self), BatchOptions(seed=seed), epoch=epoch, start=0, stop=len(self)
            )
            self._epoch_rows = (seed, epoch), rows
        return self._epoch_rows[1]

    def examples(
        self, start: int = 0, stop: int | None = None, *, seed: int = 0, epoch: int = 0
    ) -> Examples:
        """Return rows `[start, stop)` of an epoch, split by split; see `Rows.examples`."""
        stop = resolve_stop(start, stop, len(self))
        numbers, rounds = self.epoch_rows(seed=seed, epoch=epoch)
        examples = self.take(numbers[start:stop])
        return examples if rounds is None else with_rounds(examples, rounds[start:stop])

    def shards(self, rows: Sequence[int] | RowNumbers) -> list[Shard]:
        """Return the shards of some rows; see `Rows.shards`."""
        return [
            shard
            for number, _, local in self._by_split(rows)
            for shard in self.splits[number].source.shards(local)
        ]

    def picks(self, rows: Sequence[int] | RowNumbers) -> Picks:
        """Group rows by shard; see `Rows.picks`.

        Raises:
            IndexError: A row number is out of range.
            TypeError: `rows` are not integers.
        """
        return [
            (shard, places[inner], shard_rows)
            for number, places, local in self._by_split(rows)
            for shard, inner, shard_rows in self.splits[number].source.picks(local)
        ]

    def take(self, rows: Sequence[int] | RowNumbers) -> Examples:
        """Copy rows in any order, with the label numbers of the mix.

        Args:
            rows: `[R]` in `[0, stored)`.

        Raises:
            IndexError: A row number is out of range.
            ShardError: A shard is missing or damaged.
            TypeError: `rows` are not integers.
        """
        columns = [(shard.columns(), places, local) for shard, places, local in self.picks(rows)]
        examples = gather_examples(columns, len(rows), self.token_ids, columns=self._columns)

        for number, places, _ in self._by_split(rows):
            self._label_maps[number].apply(examples, places)
        return examples

    def _by_split(
        self, rows: Sequence[int] | RowNumbers
    ) -> list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Group rows by split: number of the split, places in `rows`, and rows of the split."""
        numbers = check_rows(rows, self.stored)
        split_numbers = np.searchsorted(self._firsts, numbers, side="right") - 1
        groups = []
        for number in np.flatnonzero(np.bincount(split_numbers)).tolist():
            places = np.flatnonzero(split_numbers == number)
            groups.append((number, places, numbers[places] - self._firsts[number]))
        return groups


def with_rounds(examples: Examples, rounds: npt.NDArray[np.uint32]) -> Examples:
    """Change the keys of rows that an epoch has used before, so that their masks differ.

    Args:
        examples: The rows.
        rounds: uint32 `[R]`, how often the epoch has used each row before.
    """
    if not rounds.any():
        return examples

    keys = examples.keys.copy()
    name_repeats(rounds, keys)
    return replace(examples, keys=keys)


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
    """Check that no two parts share rows of one split, which would get the same masks.

    Raises:
        ValueError: A split is repeated, or given with a subset of it, or two subsets overlap.
    """
    for first, part in combinations(splits, 2):
        is_same = part.digest == first.digest
        is_whole = is_same and part.source.numbers is first.source.numbers is None
        if not is_same and origin(part.source) != origin(first.source):
            continue
        if not is_whole and not share_rows(part.source, first.source):
            continue

        advice = "name it once, with the sum of both weights" if is_whole else "pass one of them"
        raise ValueError(f"mix: {part.name} is of the same split as {first.name}; {advice}")


def origin(split: Split) -> tuple[str, str]:
    """Return the plan of the build that wrote a split, and its name.

    Folders of `mslm-data subset` have the plan of the folder that was built.
    """
    manifest = split.manifest
    return (manifest.draws[0]["plan"] if manifest.draws else manifest.plan), split.name


def share_rows(one: Split, other: Split) -> bool:
    """Return whether two splits have rows of the same keys.

    Remote splits are taken to have some, because all of their shards would be downloaded.
    """
    if not isinstance(one.place, Path) or not isinstance(other.place, Path):
        return True
    ours, theirs = (
        np.concatenate([batch.column("key").to_numpy() for batch in split.batches(["key"])])
        for split in (one, other)
    )
    return bool(np.isin(ours, theirs).any())
