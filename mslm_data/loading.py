"""The online composition: a built folder's rows, masked on the way, as padded batches.

shards = load("shards/ncbi")
for batch in shards["train"].batches(strategy("joint"), batch_size=32, seed=0, epoch=0): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.collate import Batch, collate, collate_sequences
from mslm_data.batches.order import batches_of_window, rows_at
from mslm_data.data.examples import Examples
from mslm_data.errors import ShardError
from mslm_data.io.remote import local
from mslm_data.lexicon.artefacts import find_artefact
from mslm_data.mask import Strategy, make
from mslm_data.mask.draws import check_count
from mslm_data.mask.file import with_files
from mslm_data.registry import did_you_mean
from mslm_data.shard.manifest import Manifest, read_manifest
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.split import Split

BATCHES_AT_ONCE = 64
"""Batches of a window, among which rows of like length are put together; the most that one call masks."""
TOKENS_AT_ONCE = 1 << 17
"""Tokens that one call masks: fewer spend their time in Python, more do not fit a core's cache."""


def load(folder: str | Path) -> Shards:
    """Open a built folder; nothing but its manifest is read yet.

    Args:
        folder: Here, or at a URL that fsspec knows. Of that each shard is fetched when a row of it is first asked for,
            checked against the manifest and kept in the cache folder (see `mslm_data.io.cache`).

    Raises:
        ShardError: No built folder, an unfinished one, or one of a newer format.
        SourceError: Nothing at the URL, or out of reach.
    """
    return Shards(local(str(folder)) or RemoteFolder(str(folder)))


class Shards(Mapping[str, "Split"]):
    """A built folder: split name -> `Split`.

    Attributes:
        folder: Where it is.
        manifest: What made it, and what is in it.
    """

    def __init__(self, folder: Path | RemoteFolder) -> None:
        """Read the manifest of `folder`; see `load`."""
        self.folder = folder
        self.manifest: Manifest = (
            folder.manifest() if isinstance(folder, RemoteFolder) else read_manifest(folder)
        )
        self._splits = {name: Split(folder, name, self.manifest) for name in self.manifest.splits}

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._splits)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each index of `span_labels`."""
        return self.manifest.labels

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of each index of `bio`."""
        return self.manifest.tags

    @property
    def tokenizer(self) -> Path:
        """The file of the tokenizer, here; of a remote folder it is fetched and checked first.

        Raises:
            SourceError: It is out of reach, or another than the manifest names.
        """
        if isinstance(self.folder, RemoteFolder):
            return self.folder.file("tokenizer.json", sha256=self.manifest.tokenizer["sha256"])
        return self.folder / "tokenizer.json"

    def strategy(self, name: str, **options: Any) -> Strategy:
        """Make a strategy, as `mslm_data.strategy` does, for these shards.

        Lexicons and score columns are looked for in the folder's `vocab/` first, where `mslm-data vocab` puts them, so
        that `shards.strategy("pmi")` needs no path.

        Raises:
            PipelineError: No such name or option, or an option it refuses.
            VocabularyError: A lexicon or score column is missing, or of another tokenizer.
        """
        made: Strategy = with_files(make(name, options), self._file)
        return made

    def _file(self, name: str) -> str:
        """Return where a lexicon or score column is, which must be of this tokenizer."""
        tokenizer = self.manifest.tokenizer["sha256"]
        return str(find_artefact(self.folder, name, tokenizer=tokenizer))

    def __getitem__(self, split: str) -> Split:
        if split not in self._splits:
            raise ShardError(f"{self.folder}: no split '{split}'{did_you_mean(split, self.splits)}")
        return self._splits[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)


class Batches:
    """The batches of one epoch: a pure function of the rows, the strategy and the options below.

    Where a rate follows the step, the step is the number of batches before, those of earlier epochs included.

    Iterating begins at the first batch, once after `load_state_dict` where that says.

    Attributes:
        epoch: Set it to go on to the next.
    """

    def __init__(
        self,
        split: Split,
        strategy: Strategy,
        *,
        batch_size: int = 32,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        bucketed: bool = False,
        drop_last: bool = False,
        multiple_of: int = 1,
    ) -> None:
        """Say which.

        Args:
            split: Of a loaded folder.
            strategy: What masks.
            batch_size: Rows.
            seed: Of order and masks.
            epoch: Of order and masks.
            shuffle: Whether rows come in an order of (seed, epoch), or as stored.
            bucketed: Whether rows of like length share a batch, among those of `BATCHES_AT_ONCE` batches.
            drop_last: Whether to leave out a last batch that is not full.
            multiple_of: What a batch's width is a multiple of.

        Raises:
            ValueError: A size below 1, or a seed or epoch out of range.
        """
        for name, value in (("batch_size", batch_size), ("multiple_of", multiple_of)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        check_count("seed", seed)
        check_count("epoch", epoch)
        self.epoch = epoch
        self._split, self._strategy, self._multiple_of = split, strategy, multiple_of
        self._size, self._seed = batch_size, seed
        self._order: dict[str, Any] = {
            "rows": len(split),
            "tokens": split.record.tokens,
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "bucketed": bucketed,
            "drop_last": drop_last,
        }
        self._begin = self._next = 0

    def __len__(self) -> int:
        rows, size = len(self._split), self._size
        return rows // size if self._order["drop_last"] else -(-rows // size)

    def __iter__(self) -> Iterator[Batch]:
        self._next, self._begin = self._begin, 0
        while self._next < len(self):
            window, skip = divmod(self._next, BATCHES_AT_ONCE)
            for batch in islice(self._window(window), skip, None):
                self._next += 1
                yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return where iterating stands: small, plain, and good for `load_state_dict` in another process."""
        return {"version": 1, **self._order, "epoch": self.epoch, "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows.
        """
        if state.get("version") != 1:
            raise ValueError(f"state: expected version 1, got {state.get('version')}")
        for name, value in self._order.items():
            if state.get(name) != value:
                raise ValueError(
                    f"state: expected {name} = {value}, got {state.get(name)}; make the same batches first"
                )
        check_count("state: epoch", state.get("epoch"))
        check_count("state: next", state.get("next"))
        if state["next"] > len(self):
            raise ValueError(f"state: expected next of at most {len(self)}, got {state['next']}")
        self.epoch = state["epoch"]
        self._begin = self._next = state["next"]

    def _window(self, window: int) -> Iterator[Batch]:
        """Give the batches of one window."""
        batches = self._rows(window)
        many = 1 if self._strategy.by_step else batches_at_once(self._split, self._size)
        for first in range(0, len(batches), many):
            group = batches[first : first + many]
            step = self.epoch * len(self) + window * BATCHES_AT_ONCE + first
            yield from self._masked(self._gathered(group), [len(rows) for rows in group], step=step)

    def _rows(self, window: int) -> list[npt.NDArray[np.int64]]:
        """Return the rows of each batch of a window."""
        size, seed = self._size, self._seed
        start = window * BATCHES_AT_ONCE * size
        stop = min(start + BATCHES_AT_ONCE * size, len(self._split))
        order = np.arange(start, stop)
        if self._order["shuffle"]:
            order = rows_at(start, stop, size=len(self._split), seed=seed, epoch=self.epoch)
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        if self._order["bucketed"]:
            lengths = self._split.lengths(order)
            places = batches_of_window(lengths, size, seed=seed, epoch=self.epoch, window=window)
            batches = [order[rows] for rows in places]
        return [rows for rows in batches if len(rows) == size or not self._order["drop_last"]]

    def _gathered(self, batches: list[npt.NDArray[np.int64]]) -> Examples:
        """Return the rows of batches; those that are stored side by side as views."""
        if self._order["shuffle"] or self._order["bucketed"]:
            return self._split.take(np.concatenate(batches))
        return self._split.examples(int(batches[0][0]), int(batches[-1][-1]) + 1)

    def _masked(self, examples: Examples, sizes: list[int], *, step: int) -> Iterator[Batch]:
        """Mask rows at once, and give batches of so many each."""
        plan = self._strategy.plan(examples, seed=self._seed, epoch=self.epoch, step=step)
        hidden = self._strategy.corrupt(examples, plan, seed=self._seed, epoch=self.epoch)
        targets = self._strategy.targets(examples, plan)
        places, first = np.arange(len(examples)), 0
        for size in sizes:
            rows = places[first : first + size]
            first += size
            if targets is None:
                yield collate(examples, plan.kinds, hidden, rows, multiple_of=self._multiple_of)
            else:
                yield collate_sequences(
                    examples, hidden, targets, rows, multiple_of=self._multiple_of
                )


def batches_at_once(split: Split, batch_size: int) -> int:
    """Return how many batches to gather and mask by one call: those of about `TOKENS_AT_ONCE` tokens.

    Masks are each row's own, so it changes none of them.

    Args:
        split: Whose rows.
        batch_size: Rows of a batch.
    """
    tokens = batch_size * split.record.tokens / max(len(split), 1)
    return max(1, min(BATCHES_AT_ONCE, int(TOKENS_AT_ONCE / max(tokens, 1))))
