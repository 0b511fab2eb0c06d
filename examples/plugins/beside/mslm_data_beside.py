"""Example of a strategy plug-in that picks cannot express: mask the words beside mentions."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

import mslm_data as md
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.mask import MaskKind, MaskPlan, RowRng


class Beside(md.Strategy):
    """Mask the words before and after some mentions, but not the mentions."""

    origin = None
    # Columns that `plan_with` reads, of "word_ids", "mentions" and "scores".
    needs = frozenset({"word_ids", "mentions"})
    # True if `plan_with` reads rng.step or rng.tokens, as for rates that change during training.
    follows_training = False

    def __init__(
        self,
        chance: Annotated[
            float,
            Meta(ge=0, le=1, description="Share of the mentions whose neighbours are masked."),
        ] = 0.5,
    ) -> None:
        self.chance = chance

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        """Choose tokens to mask.

        The plan of a row may depend only on the row and its own random numbers. Otherwise, masks
        would change with the batch size.

        Args:
            examples: Rows.
            rng: Random numbers of each row, by an index.
        """
        kinds = np.zeros(len(examples.input_ids.values), np.uint8)

        # Random number k of a row decides about its mention k, so other mentions do not affect it.
        for number in range(int(examples.span_starts.lengths.max(initial=0))):
            takes_part = rng.uniforms(number) < self.chance
            for row in np.flatnonzero(takes_part & (examples.span_starts.lengths > number)):
                start = examples.span_starts[row][number]
                end = examples.span_ends[row][number]
                kinds[_tokens_beside(examples, row, start, end)] = MaskKind.BASE
        return MaskPlan.from_kinds(examples, kinds)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        """Corrupt masked tokens 80-10-10 like BERT."""
        return md.strategy("bert").corrupt_with(examples, plan, rng)

    def table(self) -> dict[str, Any]:
        """Return the table of this strategy in a TOML file."""
        return {"use": "beside", "chance": self.chance}


def _tokens_beside(examples: Examples, row: int, start: int, end: int) -> np.ndarray:
    """Return flat indices of the tokens of the words before and after a mention.

    Args:
        examples: Rows.
        row: Row of the mention.
        start: First token of the mention.
        end: Token after the mention.
    """
    words, tags = examples.word_ids[row], examples.bio[row]
    beside = [place for place in (start - 1, end) if 0 <= place < len(words)]
    is_beside = np.isin(words, words[beside]) & (words >= 0) & (tags == 0)
    return examples.input_ids.offsets[row] + np.flatnonzero(is_beside)
