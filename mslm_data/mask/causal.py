"""Causal language modelling: each token is predicted from the tokens before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.mask.plan import MaskKind, MaskPlan, Objective
from mslm_data.mask.rng import RowRng
from mslm_data.mask.strategy import Origin, Strategy
from mslm_data.mask.units import mentions


@dataclass(frozen=True, slots=True, repr=False)
class Causal(Strategy):
    """Predict each token from those before it, for decoders. The input is unchanged.

    All tokens of a row but its first are targets: ELM within mentions, BLM outside of them. Special
    tokens are no targets, except the end of a text (`encode.eos`), with which a decoder learns to
    stop: it is a target of kind BLM.

    A label stands at the place of its token, as transformers expects: its models compare it with
    the logits of the place before.
    """

    origin: Origin | None = field(default=None, init=False, compare=False)

    @property
    def objectives(self) -> frozenset[Objective]:
        return frozenset({Objective.CAUSAL})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"mentions"})

    @property
    def follows_training(self) -> bool:
        return False

    def table(self) -> dict[str, Any]:
        return {"use": "causal"}

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:  # noqa: ARG002 - draws nothing
        ids = examples.input_ids
        is_target = examples.word_ids.values >= 0
        if examples.ids.eos >= 0:
            is_target |= ids.values == examples.ids.eos

        kinds = is_target.astype(np.uint8) * np.uint8(MaskKind.BASE)
        spans = mentions(examples)
        spans.paint(ids.offsets, spans.lengths, MaskKind.ENTITY, kinds)
        # Nothing stands before a row's first token.
        kinds[ids.offsets[:-1][ids.lengths > 0]] = MaskKind.NONE
        return MaskPlan(
            kinds=Ragged(kinds, ids.offsets),
            unspent=np.zeros(len(examples), np.int64),
            objective=Objective.CAUSAL,
        )

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:  # noqa: ARG002
        return examples.input_ids
