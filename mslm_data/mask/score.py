"""Scores: numbers by which units are drawn or sorted.

A lexicon scores words by their form. A score column scores each token of each row. `mslm-data
vocab` makes both.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.errors import VocabularyError
from mslm_data.kernels.rank import give_tokens, rank_rows, smooth_rows
from mslm_data.kernels.tokens import reduce_units
from mslm_data.lexicon.score_columns import open_scores
from mslm_data.lexicon.trie import Trie, open_trie, open_words
from mslm_data.mask.artefacts import LexiconFile, ScoreFolder
from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.rate import Share
from mslm_data.mask.units import Units, words

Transform = Literal["none", "flag", "unflagged", "swish", "rank"]
_OVER = {"max": 0, "mean": 1, "sum": 2, "first": 3}


class Score(Ingredient, frozen=True, kw_only=True):
    """The score of each unit, such as `{lexicon = "difference.arrow", transform = "rank"}`.

    Raises:
        ValueError: Not exactly one of `lexicon` and `column` is set, `alpha` is outside `[0, 1]`,
            or `missing` is not finite.
    """

    lexicon: Annotated[
        LexiconFile,
        Meta(
            description="File of a lexicon with an entry per unit. A single token has the score of "
            'its word or, with `by = "token"`, its own.'
        ),
    ] = ""
    column: Annotated[
        ScoreFolder, Meta(description="Folder of a score column, instead of a lexicon.")
    ] = ""
    by: Annotated[
        Literal["word", "token"],
        Meta(description="Whether single tokens are looked up by `word` or by `token`."),
    ] = "word"
    over: Annotated[
        Literal["max", "mean", "sum", "first"],
        Meta(
            description="Reduction of the column's scores over the tokens of a unit: `max`, "
            "`mean`, `sum`, or the `first` score."
        ),
    ] = "max"
    transform: Annotated[
        Transform,
        Meta(
            description="`none` keeps scores; `flag` is 1 for scores above 0 and 0 otherwise, "
            "`unflagged` the reverse; `swish` is `s / (1 + exp(-s))`; `rank` is the rank in the "
            "row, 1 for the lowest score. Tokens with the score of their word also have its rank."
        ),
    ] = "none"
    missing: Annotated[float, Meta(description="Score of units that are not in the lexicon.")] = 0.0
    alpha: Annotated[
        Share,
        Meta(
            description="Share of each score to keep, in `[0, 1]`. The rest is spread evenly over "
            "the row's units. Below 1, negative scores count as 0."
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.missing):
            raise ValueError(f"missing: expected a finite number, got {self.missing}")
        if bool(self.lexicon) == bool(self.column):
            got = "both" if self.lexicon else "neither"
            raise ValueError(f"score: expected a lexicon or a column, got {got}")

    @property
    def needs(self) -> frozenset[str]:
        """The columns that the score reads; see `Strategy.needs`."""
        if self.column:
            return frozenset({"scores"})
        return frozenset({"word_ids"}) if self.by == "word" else frozenset()

    def compute(
        self, examples: Examples, units: Units | None, *, single_words: bool = False
    ) -> npt.NDArray[np.float64]:
        """Return the score of each unit, float64 `[U]`, or of each token, `[T]`, without units.

        Args:
            examples: The rows.
            units: Their units, or None for single tokens.
            single_words: Whether units are words or tokens, which never match entries of several
                words. Default: False.

        Raises:
            VocabularyError: The artefact is missing, damaged, made with another tokenizer, or has
                only entries of another kind.
        """
        offsets = examples.input_ids.offsets if units is None else units.starts.offsets

        if self.column:
            values = _transformed(self.transform, self._score_by_column(examples, units), offsets)
        elif self.by == "token":
            values = _transformed(self.transform, self._score_by_token(examples, units), offsets)
        else:
            values = self._score_by_word(examples, units, single_words=single_words)

        # Spread 1 - alpha evenly, over non-special tokens or over all units.
        if self.alpha < 1:
            if units is None:
                counted = examples.word_ids.values >= 0
            else:
                counted = np.ones(len(values), np.bool_)
            smooth_rows(offsets, values, counted, self.alpha, values)
        return values

    def _score_by_column(self, examples: Examples, units: Units | None) -> Array:
        column = open_scores(Path(self.column))
        values = column.gather(examples).values.astype(np.float64)
        if units is None:
            return values
        return _reduced(examples, units, values, self.over)

    def _score_by_word(
        self, examples: Examples, units: Units | None, *, single_words: bool
    ) -> Array:
        trie = open_words(Path(self.lexicon))
        if single_words and len(trie.lexicon) and np.all(trie.lexicon.words > 1):
            raise VocabularyError(
                f"{self.lexicon}: expected entries of one word, because words are looked up; all "
                "entries have several words"
            )

        looked_up = words(examples) if units is None else units
        table = _by_word(trie, self.missing)
        values = trie.exact(examples, looked_up.starts, looked_up.ends, table)
        values = _transformed(self.transform, values, looked_up.starts.offsets)
        if units is not None:
            return values

        # Single tokens get the score of their word.
        out = np.empty(len(examples.word_ids.values))
        word_ids = examples.word_ids
        give_tokens(word_ids.offsets, word_ids.values, looked_up.starts.offsets, values, out)
        return out

    def _score_by_token(self, examples: Examples, units: Units | None) -> Array:
        trie = open_trie(Path(self.lexicon))
        if np.any(trie.lexicon.tokens.lengths != 1):
            raise VocabularyError(
                f"{self.lexicon}: expected entries of one token, because by = 'token'"
            )

        trie.check(examples)
        values = _by_id(trie, self.missing)[examples.input_ids.values]
        if units is None:
            return values
        return _reduced(examples, units, values, self.over)


@lru_cache(maxsize=8)
def _by_word(trie: Trie, missing: float) -> Array:
    """Return the scores of the lexicon's entries, with `missing`, as `Trie.exact` reads them."""
    return trie.table(trie.lexicon.scores, missing)


@lru_cache(maxsize=8)
def _by_id(trie: Trie, missing: float) -> Array:
    """Return the score of each id of the tokenizer. Of equal entries, the first counts."""
    table = np.full(trie.lexicon.about["size"], missing)
    ids, first = np.unique(trie.lexicon.tokens.values, return_index=True)
    table[ids] = trie.lexicon.scores[first]
    return table


def _reduced(examples: Examples, units: Units, values: Array, over: str) -> Array:
    """Reduce the scores of tokens to one score per unit."""
    out = np.empty(len(units), np.float64)
    reduce_units(
        examples.input_ids.offsets,
        units.starts.offsets,
        units.starts.values,
        units.ends.values,
        values,
        _OVER[over],
        out,
    )
    return out


def _transformed(transform: Transform, values: Array, offsets: Array) -> Array:
    if transform in ("flag", "unflagged"):
        flags: Array = (values > 0) == (transform == "flag")
        return flags.astype(np.float64)

    if transform == "swish":
        # Below -700, swish is 0 in float32, and exp would overflow.
        swished: Array = values / (1 + np.exp(-np.maximum(values, -700)))
        # exp differs in the last bits of float64 between machines; rounding to float32 drops them.
        return swished.astype(np.float32).astype(np.float64)

    if transform == "rank":
        out = np.empty(len(values), np.float64)
        rank_rows(offsets, values, out)
        return out

    return values
