"""Masking of concepts along a curriculum, from lists of terms that grow by stage (Lee et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import offsets_of
from mslm_data.kernels.grams import take_by_chance
from mslm_data.lexicon.trie import open_trie
from mslm_data.mask.budget import quotas
from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.draws import BRANCH, Draws
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.pmi import open_tokens
from mslm_data.mask.rate import Limit, Rate, rate_at
from mslm_data.mask.stages import Stage, Staged, run
from mslm_data.mask.units import Units

MADE_BY = "mslm-data vocab scores table DIR --from TERMS.tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """Hide occurrences of listed concepts by coins, so many that a share of the tokens is expected.

    Attributes:
        vocabulary: The list's file.
        rate: Tokens to expect, as a share of those that are not special.
        most: Once so many tokens of a row are hidden, no further concept is tried; None is no limit.
    """

    vocabulary: str
    rate: Rate
    most: int | None

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        *where, entries = open_trie(Path(self.vocabulary), made_by=MADE_BY).matches(examples)
        matches = Units(*where)
        pool, real = open_tokens(examples, draft)
        starts, lengths = matches.starts, matches.lengths
        tokens = np.diff(
            offsets_of(lengths)[starts.offsets]
        )  # those of all occurrences, shared ones counted again
        chances = quotas(rate_at(self.rate, draws), real, "down", draws) / np.maximum(tokens, 1)
        most = np.iinfo(np.int64).max if self.most is None else self.most
        taken, offsets = np.zeros(len(matches), np.int64), examples.input_ids.offsets
        found = (starts.offsets, starts.values, matches.ends.values, entries)
        streams = (draws.streams(BRANCH), draws.streams())
        take_by_chance(offsets, *found, chances, most, *streams, pool, taken)
        matches.take(offsets, taken, MaskKind.BASE, draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByEpoch:
    """Go one way after the other, the last for ever.

    Attributes:
        epochs: How many epochs each way but the last takes.
        ways: The stages of each, in order.
    """

    epochs: Sequence[int]
    ways: Sequence[Sequence[Stage]]

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        way = int(np.searchsorted(np.cumsum(self.epochs), draws.epoch, side="right"))
        run(self.ways[way], examples, draws, draft, first=(draws.stage + 1) * 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ccm(Staged):
    """Hide occurrences of listed concepts, from lists that grow by epoch; in the end single tokens too.

    Lee et al. 2022, concept-based curriculum masking; read in the released code only (`src/dataloader.py` of
    KoreaMGLEE/Concept-based-curriculum-masking), described in words, no line of it copied:

    * warm-up: a coin of 0.15 for each token;
    * stage k: the concepts of stages 1 to k; with n the row's tokens and c the tokens of all their occurrences (one
      within another counted again), each occurrence has a coin of `int(0.15 * n) / c`, so 0.15 of the tokens are
      expected, or fewer; concepts come in random order, an occurrence is passed over where a token of it is hidden, and
      once 20 tokens are hidden no further concept is tried;
    * last stage: the same concepts at 0.10 and without that limit, then a coin of 0.05 for each token that is left;
    * all hidden tokens become `[MASK]`.

    Another class of the same file differs: a share of 0.18, a limit of 19 or 20, 80-10-10 by occurrence, no last stage;
    the committed trainer uses that one, moves on every 100,000 steps and begins anew after the last stage. It is not
    what this does, but for `corruption`.

    Decisions: stages follow the epoch, and the last one stays; list k is meant to hold those before it, and stage k
    uses it alone; occurrences are whole words, where the code finds pieces within words too. There is no budget to owe.

    Attributes:
        vocabularies: The lists' files, one for each stage, in order.
        rate: Share of the tokens to expect, in warm-up and in each stage but the last, in `[0, 1]`.
        last_rate: Share of concepts' tokens to expect in the last stage.
        rest_rate: Chance of each other token in the last stage.
        most: See above; 0 is no limit.
        warm_up: Epochs of warm-up; 0 for none.
        epochs: Epochs of each stage but the last.
        corruption: `mask`, or percent of `[MASK]`, random and kept of whole occurrences, such as `80-10-10`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, no list, a limit or warm-up of less than 0, a stage of no epoch.
    """

    vocabularies: tuple[str, ...] = ("concepts.arrow",)
    rate: Rate = 0.15
    last_rate: Rate = 0.1
    rest_rate: Rate = 0.05
    most: Limit = 20
    warm_up: int = 1
    epochs: int = 1
    corruption: str = "mask"

    def __post_init__(self) -> None:
        Staged.__post_init__(self)
        if not self.vocabularies:
            raise ValueError("vocabularies: expected one list at least, got none")
        if self.warm_up < 0:
            raise ValueError(f"warm_up: expected 0 epochs or more, got {self.warm_up}")
        if self.epochs < 1:
            raise ValueError(f"epochs: expected 1 or more, got {self.epochs}")

    def stages(self) -> Sequence[Stage]:
        """Return warm-up, a stage for each list, and the last."""
        plain = [Choose(rate=self.rate, how="each")]
        grown = [
            [Occurrences(vocabulary=path, rate=self.rate, most=self.most or None)]
            for path in self.vocabularies
        ]
        concepts = Occurrences(vocabulary=self.vocabularies[-1], rate=self.last_rate, most=None)
        last: list[Stage] = [concepts, Choose(rate=self.rest_rate, how="each")]
        epochs = [self.warm_up, *[self.epochs] * len(grown)]
        return (ByEpoch(epochs=epochs, ways=[plain, *grown, last]),)

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, by="unit")
