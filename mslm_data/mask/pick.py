"""Picks: one choice of units of each row, up to a budget.

Nearly every masking system is a short list of picks. A pick answers four questions: which units are
hidden whole, among which of them, up to which budget, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, offsets_of
from mslm_data.kernels.choose import choose_again, choose_bernoulli, choose_each, choose_uniform
from mslm_data.kernels.fill import CUT, SKIP, STOP, fill_ranked, fill_uniform, fill_weighted
from mslm_data.kernels.grams import unite_words
from mslm_data.kernels.hide import hide_tokens, hide_units, hide_weighted
from mslm_data.kernels.tokens import count_numbered, open_pool
from mslm_data.lexicon.artefacts import LEXICON
from mslm_data.lexicon.trie import open_words
from mslm_data.mask.artefacts import artefact
from mslm_data.mask.budget import Budget
from mslm_data.mask.draws import BRANCH, Draws
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.rate import check_limit, follows_training, rate_at
from mslm_data.mask.score import Score
from mslm_data.mask.toml import USUAL_PICK
from mslm_data.mask.units import UNITS, UnitName, Units, mentions, runs

How = Literal["uniform", "weighted", "highest", "lowest", "first", "coins", "replacement"]

_OVERRUNS = {"cut": CUT, "skip": SKIP, "stop": STOP}


class AnyPick(Protocol):
    """A pick of any kind: `Pick`, or one with an algorithm of its own."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that rows must bring; see `Strategy.needs`."""
        ...

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the step."""
        ...

    def hide(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """Hide units of each row.

        Args:
            examples: N rows of T tokens.
            draws: Of this pick.
            draft: Written: the kind of each token that is hidden now, and the budget that is owed.
                Tokens that are hidden already stay as they are.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """Units from a lexicon: its n-grams where they stand, and each word that is in none of them.

    Of an n-gram within another, the larger is the unit. Of overlapping ones some are units at
    random, and the words of the others are units again. With `among.where = "generic"` no n-gram
    reaches into a mention.

    Attributes:
        lexicon: File of the lexicon; the order of its entries does not matter.
    """

    lexicon: str = artefact(LEXICON, "pmi.arrow")

    def find(self, examples: Examples, draws: Draws, *, generic: bool) -> Units:
        """Return the units of each row.

        Raises:
            VocabularyError: The lexicon is missing, damaged, or of another tokenizer.
        """
        starts, ends, _ = open_words(Path(self.lexicon)).matches(examples)
        offsets = examples.input_ids.offsets
        word_ids = examples.word_ids.values

        pool = np.ones(len(word_ids), np.uint8)
        if generic:
            terms = mentions(examples)
            terms.paint(offsets, terms.lengths, 0, pool)

        numbers = np.empty(len(word_ids), np.int32)
        streams = draws.streams(BRANCH)
        unite_words(
            offsets, word_ids, starts.offsets, starts.values, ends.values, pool, streams, numbers
        )
        return runs(examples, numbers)


@dataclass(frozen=True, slots=True)
class Among:
    """Conditions for the units that can be hidden, besides being neither hidden nor special yet.

    Attributes:
        where: `any`; only `generic` units, which touch no mention; or only units within `mentions`.
        longest: Units of more tokens are never hidden; None for no limit.
        unknown: Whether units with `[UNK]`, which is a useless target, can be hidden.

    Raises:
        ValueError: A negative limit.
    """

    where: Literal["any", "generic", "mentions"] = "any"
    longest: int | None = None
    unknown: bool = False

    def __post_init__(self) -> None:
        check_limit("longest", self.longest)


@dataclass(frozen=True, slots=True)
class Order:
    """In which order units are hidden until the budget is spent.

    Attributes:
        by: `uniform` is at random, each unit as likely; `weighted` at random by score; `highest`
            and `lowest` by score, without chance; `first` is from the row's start. `coins` has no
            budget: each unit is hidden with chance `rate`, times its score if there is one.
            `replacement` draws with replacement, so that a unit drawn twice is hidden once.
        score: The score of each unit. Units with a score of 0 or less are hidden by `lowest` only.

    Raises:
        ValueError: An order by score without one, or a score that the order does not use.
    """

    by: How = "uniform"
    score: Score | None = None

    def __post_init__(self) -> None:
        scored = ("weighted", "highest", "lowest")
        if self.score is None and self.by in scored:
            raise ValueError(f"order: expected a score for '{self.by}', got none")
        if self.score is not None and self.by not in (*scored, "coins"):
            expected = "'weighted', 'highest', 'lowest' or 'coins'"
            raise ValueError(f"order: expected {expected} with a score, got '{self.by}'")


class Candidates(NamedTuple):
    """The units of N rows that one pick chooses from; "entries" are units, or single tokens.

    Attributes:
        units: The units; None where each token is an entry.
        offsets: int64 `[N + 1]` of the entries.
        pool: uint8 `[E]`: which entries can be hidden.
        score: float64 `[E]`, or None.
        sizes: int64 `[E]`: how much of the budget each entry costs.
    """

    units: Units | None
    offsets: Array
    pool: Array
    score: Array | None
    sizes: Array


@dataclass(frozen=True, slots=True)
class Pick:
    """Hide units of each row, up to a budget.

    `Pick("words", Budget(0.15, of="tokens"))` hides whole words until 15 % of a row's tokens are
    hidden.

    Attributes:
        units: Which units are hidden whole: single `tokens`, `words`, `chunks` between white space,
            whole `mentions`, the `released pieces` of the paper's code (each sub-word of a
            mention's first word, the last with the rest of the mention), or those of a lexicon, as
            in `units = {lexicon = "pmi.arrow"}`.
        budget: How much is hidden.
        among: Which units can be hidden.
        order: In which order they are taken.
        kind: Why they are predicted, which chooses their weight in the loss: `base` as other words
            (BLM), or `entity` as terms (ELM).

    Raises:
        ValueError: A budget of units that is to count the tokens of earlier picks; or one of tokens
            for whole units that are drawn with replacement, each of which counts as one.
    """

    tag: ClassVar[str] = USUAL_PICK

    units: UnitName | Listed
    budget: Budget
    among: Among = field(default_factory=Among)
    order: Order = field(default_factory=Order)
    kind: Literal["base", "entity"] = "base"

    def __post_init__(self) -> None:
        if self.budget.total and self.units != "tokens" and self.budget.of == "units":
            raise ValueError("budget: expected one of tokens with 'total', got one of units")
        if self.order.by == "replacement" and self.units != "tokens" and self.budget.of != "units":
            raise ValueError("budget: expected one of units with 'replacement', got one of tokens")

    @property
    def hides_nothing(self) -> bool:
        """Whether the budget is always 0, as in a joint strategy with one half switched off."""
        return self.budget.rate == 0 and not self.budget.least

    @property
    def needs(self) -> frozenset[str]:
        if self.hides_nothing:
            return frozenset()
        if isinstance(self.units, Listed):
            needs = frozenset({"word_ids"})
        else:
            needs = UNITS[self.units].needs
        if self.among.where != "any":
            needs |= {"mentions"}
        if self.order.score is not None:
            needs |= self.order.score.needs
        return needs

    @property
    def follows_training(self) -> bool:
        return follows_training(self.budget.rate)

    def hide(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        if self.hides_nothing:
            return

        units = self._units(examples, draws)
        kind = MaskKind[self.kind.upper()].value
        if self._hide_at_once(examples, units, draws, kind, draft):
            return

        pool, real = self._pool(examples, units, draft)
        score = None
        if self.order.score is not None:
            of_words = self.units in ("tokens", "words")
            score = self.order.score.of(examples, units, of_words=of_words)
        if self.order.by == "coins":
            quota = np.zeros(len(examples), np.int64)
        else:
            quota = self.budget.quota(self._sizes(examples, units, real), real, draws)
        if self.budget.total:
            np.maximum(quota - hidden_tokens(examples, draft), 0, out=quota)

        offsets = examples.input_ids.offsets
        if units is None:
            self._hide_tokens(offsets, pool, score, quota, draws, kind, draft)
        elif self._weighs_whole_units(draft) and score is not None:
            starts = units.starts
            where = (offsets, starts.offsets, starts.values, units.ends.values)
            hide_weighted(*where, pool, score, quota, draws.streams(), kind, draft.kinds)
        else:
            sizes = units.lengths if self._counts_tokens() else np.ones(len(pool), np.int64)
            candidates = Candidates(units, units.starts.offsets, pool, score, sizes)
            taken = SAMPLERS[self.order.by](self, candidates, quota, draws)
            if not self._counts_tokens():
                taken = taken * units.lengths  # a unit that counts as one is hidden whole
            units.take(offsets, taken, kind, draft)

        draft.owed += quota

    def _units(self, examples: Examples, draws: Draws) -> Units | None:
        """Return what can be hidden whole; None for single tokens."""
        if isinstance(self.units, Listed):
            return self.units.find(examples, draws, generic=self.among.where == "generic")
        find = UNITS[self.units].find
        return None if find is None else find(examples)

    def _counts_tokens(self) -> bool:
        """Return whether a unit costs as many as its tokens; by coins it never does."""
        return self.budget.of != "units" and self.order.by not in ("coins", "replacement")

    def _weighs_whole_units(self, draft: Draft) -> bool:
        """Return whether `hide_weighted` can both draw units and write them."""
        return self.order.by == "weighted" and self.budget.of == "units" and draft.joined is None

    def _hide_at_once(
        self, examples: Examples, units: Units | None, draws: Draws, kind: int, draft: Draft
    ) -> bool:
        """Hide units by one kernel without a pool, if the pick is plain enough; else return False.

        The budget then follows from the number of units alone, so that a table of budgets serves.
        """
        budget = self.budget
        varied = budget.gate < 1 or budget.rounding == "random" or budget.total
        if self.order.by != "uniform" or self.among.where != "any" or varied:
            return False
        rate = rate_at(budget.rate, draws)
        if not isinstance(rate, float | int):
            return False

        if units is None:
            return self._hide_tokens_at_once(examples, rate, draws, kind, draft)
        return self._hide_units_at_once(examples, units, rate, draws, kind, draft)

    def _hide_tokens_at_once(
        self, examples: Examples, rate: float, draws: Draws, kind: int, draft: Draft
    ) -> bool:
        """Hide single tokens; see `_hide_at_once`."""
        if self.budget.of == "all tokens":
            return False

        ids = examples.input_ids
        unknown = -1 if self.among.unknown else examples.ids.unk
        budgets = self.budget.table(rate, int(ids.lengths.max(initial=0)))
        hide_tokens(
            ids.offsets,
            examples.word_ids.values,
            ids.values,
            unknown,
            budgets,
            draws.streams(),
            kind,
            np.empty(len(budgets), np.uint8),
            np.empty(len(budgets), np.int32),
            draft.kinds,
            draft.owed,
        )
        return True

    def _hide_units_at_once(
        self, examples: Examples, units: Units, rate: float, draws: Draws, kind: int, draft: Draft
    ) -> bool:
        """Hide units; see `_hide_at_once`.

        The kernel takes every unit for free, so nothing may be hidden or excluded before.
        """
        all_free = draft.untouched and self.among.unknown and self.among.longest is None
        by_units = self.budget.of == "units" and not self.budget.least
        if not all_free or not by_units or draft.joined is not None:
            return False

        starts = units.starts
        budgets = self.budget.table(rate, int(starts.lengths.max(initial=0)))
        hide_units(
            examples.input_ids.offsets,
            starts.offsets,
            starts.values,
            units.ends.values,
            budgets,
            draws.streams(),
            kind,
            np.empty(len(budgets), np.int32),
            draft.kinds,
        )
        return True

    def _pool(self, examples: Examples, units: Units | None, draft: Draft) -> tuple[Array, Array]:
        """Return which entries can be hidden, and how many tokens of each row are not special.

        The first is uint8 `[E]`. The second is int64 `[N]`, filled only if the budget asks for it.
        """
        among = self.among
        offsets = examples.input_ids.offsets
        real = np.empty(len(examples), np.int64)

        nothing_excluded = among.where == "any" and among.unknown and among.longest is None
        if units is not None and draft.untouched and nothing_excluded:
            if self.budget.of == "tokens" or self.budget.least:
                count_numbered(offsets, examples.word_ids.values, real)
            return np.ones(len(units), np.uint8), real

        pool, real = free_tokens(examples, draft, unknown=among.unknown)
        if among.where != "any":
            inside = np.zeros(len(pool), np.uint8)
            terms = mentions(examples)
            terms.paint(offsets, terms.lengths, 1, inside)
            pool &= inside if among.where == "mentions" else 1 - inside

        if units is not None:
            pool = units.within(offsets, pool)
            if among.longest is not None:
                pool &= units.lengths <= among.longest
        return pool, real

    def _sizes(self, examples: Examples, units: Units | None, real: Array) -> Array:
        """Return how many the rate is a share of, int64 `[N]`."""
        if self.budget.of == "all tokens":
            return examples.input_ids.lengths
        if self.budget.of == "units" and units is not None:
            return units.starts.lengths
        return real

    def _hide_tokens(
        self,
        offsets: Array,
        pool: Array,
        score: Array | None,
        quota: Array,
        draws: Draws,
        kind: int,
        draft: Draft,
    ) -> None:
        """Hide single tokens; three orders write kinds without a list of what is taken."""
        if self.order.by in ("uniform", "coins", "replacement"):
            self._choose(offsets, pool, score, quota, draws, kind, draft.kinds)
            return

        # Only here: writing eight bytes a token took a quarter of the time of the orders above.
        sizes = np.ones(len(pool), np.int64)
        candidates = Candidates(None, offsets, pool, score, sizes)
        taken = SAMPLERS[self.order.by](self, candidates, quota, draws)
        np.copyto(draft.kinds, np.uint8(kind), where=taken > 0)

    def _choose(
        self,
        offsets: Array,
        pool: Array,
        score: Array | None,
        quota: Array,
        draws: Draws,
        mark: int,
        out: Array,
    ) -> None:
        """Write `mark` to the chosen entries, each of which counts as one.

        The rest of the budget stays in `quota`.
        """
        if self.order.by == "uniform":
            choose_uniform(offsets, pool, quota, draws.streams(), mark, out)
            return
        if self.order.by == "replacement":
            choose_again(offsets, pool, quota, draws.streams(), mark, out)
            return

        rate = rate_at(self.budget.rate, draws)
        same_for_all = isinstance(rate, float | int) and self.budget.gate == 1
        if same_for_all and score is None:
            choose_bernoulli(offsets, pool, float(rate), draws.streams(), mark, out)
            return

        weights = pool if score is None else pool * score
        if same_for_all:
            chances = weights * float(rate)
        else:
            chances = weights * np.repeat(self._chances(rate, len(quota), draws), np.diff(offsets))
        choose_each(offsets, chances, draws.streams(), mark, out)

    def _chances(self, rate: float | Array, rows: int, draws: Draws) -> Array:
        """Return each row's chance of a coin, by the rate and the gate, float64 `[N]`."""
        rates = np.broadcast_to(rate, rows).astype(np.float64)
        out = self.budget.rows_out(draws)
        if out is not None:
            rates[out] = 0
        return rates


def _by_choice(pick: Pick, candidates: Candidates, quota: Array, draws: Draws) -> Array:
    """Take entries by coins or with replacement."""
    chosen = np.zeros(len(candidates.pool), np.uint8)
    _, offsets, pool, score, _ = candidates
    pick._choose(offsets, pool, score, quota, draws, 1, chosen)
    return chosen.astype(np.int64)


def _by_chance(pick: Pick, candidates: Candidates, quota: Array, draws: Draws) -> Array:
    """Take entries in random order, each as likely."""
    if not pick._counts_tokens():
        return _by_choice(pick, candidates, quota, draws)

    taken = np.zeros(len(candidates.pool), np.int64)
    overrun = _OVERRUNS[pick.budget.overrun]
    fill_uniform(
        candidates.offsets,
        candidates.pool,
        candidates.sizes,
        quota,
        overrun,
        draws.streams(),
        taken,
    )
    return taken


def _by_weight(pick: Pick, candidates: Candidates, quota: Array, draws: Draws) -> Array:
    """Take entries in random order, in proportion to their scores."""
    assert candidates.score is not None  # noqa: S101 - `Order` has seen to that
    taken = np.zeros(len(candidates.pool), np.int64)
    overrun = _OVERRUNS[pick.budget.overrun]
    fill_weighted(
        candidates.offsets,
        candidates.pool,
        candidates.score,
        candidates.sizes,
        quota,
        overrun,
        draws.streams(),
        taken,
    )
    return taken


def _by_rank(pick: Pick, candidates: Candidates, quota: Array, _draws: Draws) -> Array:
    """Take entries from the lowest rank, without chance; equal ones from the row's start."""
    score = candidates.score
    pool = candidates.pool
    if score is None:
        ranks = np.zeros(len(pool))  # `first`: all ranks are equal
    elif pick.order.by == "highest":
        ranks = -score
        pool = pool & (score > 0)
    else:
        ranks = score

    taken = np.zeros(len(pool), np.int64)
    overrun = _OVERRUNS[pick.budget.overrun]
    fill_ranked(candidates.offsets, pool, ranks, candidates.sizes, quota, overrun, taken)
    return taken


Sampler = Callable[[Pick, Candidates, Array, Draws], Array]

SAMPLERS: dict[How, Sampler] = {
    "uniform": _by_chance,
    "weighted": _by_weight,
    "highest": _by_rank,
    "lowest": _by_rank,
    "first": _by_rank,
    "coins": _by_choice,
    "replacement": _by_choice,
}
"""Order -> the function that takes entries in it.

It returns how much of each entry is taken, int64 `[E]`, in what the budget counts; the rest of the
budget stays in `quota`."""


def run(picks: Sequence[AnyPick], examples: Examples, draws: Draws, draft: Draft) -> None:
    """Run picks one after the other; pick n draws below the number n of the path."""
    for number, pick in enumerate(picks):
        pick.hide(examples, draws.of_pick(number), draft)
        draft.untouched = False


def free_tokens(
    examples: Examples, draft: Draft, *, unknown: bool = False
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return which tokens can be hidden, `[T]`, and how many of each row are not special, `[N]`.

    Args:
        examples: N rows of T tokens.
        draft: What is hidden already.
        unknown: Whether `[UNK]` can be hidden.
    """
    ids = examples.input_ids
    pool = np.empty(len(ids.values), np.uint8)
    real = np.empty(len(examples), np.int64)
    unk = -1 if unknown else examples.ids.unk
    open_pool(ids.offsets, examples.word_ids.values, ids.values, unk, draft.kinds, pool, real)
    return pool, real


def hidden_tokens(examples: Examples, draft: Draft) -> npt.NDArray[np.int64]:
    """Return how many tokens of each row are hidden already, `[N]`."""
    hidden = offsets_of(draft.kinds > 0)
    return np.diff(hidden[examples.input_ids.offsets])


def real_tokens(examples: Examples) -> npt.NDArray[np.int64]:
    """Return how many tokens of each row are not special, `[N]`."""
    real = np.empty(len(examples), np.int64)
    count_numbered(examples.input_ids.offsets, examples.word_ids.values, real)
    return real
