"""BART: spans of words, each behind one mask, in rows that a decoder writes whole.

Inputs are shorter than the rows (`corrupt`), and what is to be written is a sequence of its own (`targets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.kernels.spans import infill_words
from mslm_data.kernels.tokens import count_words
from mslm_data.mask.budget import quotas
from mslm_data.mask.corruption import Replacement
from mslm_data.mask.draws import LENGTH, SAMPLE, Draws, check_count
from mslm_data.mask.layout import single_mask_inputs
from mslm_data.mask.lengths import poisson_lengths
from mslm_data.mask.plan import Draft, MaskKind, MaskPlan
from mslm_data.mask.rate import Rate, rate_at
from mslm_data.mask.stages import Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Bart(Staged):
    """Hide spans of words, each behind one mask, for a decoder to write the row: BART's infilling.

    From Lewis et al. 2020 and fairseq's `denoising_dataset.py`, described in words: lengths are drawn from a Poisson
    law of mean 3 until they sum to `ceil(rate * words)`, the last one cut; each span begins at a word of its own and
    ends with the text at the latest; it leaves one `[MASK]`. A span that covers another's begin swallows its mask, so
    that fewer words are hidden than are due (`owed`) and runs are longer; spans that only touch keep a mask each. The
    target is the whole row.

    What is left out: spans of no words, `exp(-mean)` of all (5 % at 3), which in the code insert a mask between words:
    a plan has no place for them. The spans that are hidden have the same law without. So are the sentences shuffled
    and the tenth of masks made random that some of fairseq's settings have.

    Attributes:
        rate: Share of the row's words, in `[0, 1]`. 0.3 is recalled from the paper, not re-read.
        mean_span: Mean of the Poisson law of lengths, in words, more than 0 and 64 at most.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a mean out of range.
    """

    rate: Rate = 0.3
    mean_span: float = 3.0

    def __post_init__(self) -> None:
        Staged.__post_init__(self)
        if not 0 < self.mean_span <= 64:
            raise ValueError(
                f"mean_span: expected more than 0 and 64 words at most, got {self.mean_span}"
            )

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (Infill(rate=self.rate, mean=self.mean_span),)

    def replacement(self) -> Replacement:
        """See `Staged`; says that a plan must tell spans apart that touch."""
        return Replacement(by="unit")

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the rows with one mask in the place of each span; see `layout.single_mask_inputs`."""
        check_count("seed", seed)
        check_count("epoch", epoch)
        return single_mask_inputs(examples, plan)

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged:  # noqa: ARG002 - every token is to be written
        """Return the rows as they were."""
        return examples.input_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Infill:
    """The stage of BART: spans of words that may run into one another.

    Attributes:
        rate: Lengths sum to this share of the row's words, rounded up.
        mean: Of the Poisson law of lengths, in words.
    """

    rate: Rate
    mean: float

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        offsets, words, sizes = (
            examples.input_ids.offsets,
            examples.word_ids.values,
            np.empty(len(examples), np.int64),
        )
        count_words(offsets, words, sizes)
        quota = quotas(rate_at(self.rate, draws), sizes, "up", draws)
        streams = np.stack([draws.streams(SAMPLE), draws.streams(LENGTH)])
        joined = np.zeros(len(words), np.uint8) if draft.joined is None else draft.joined
        sums = poisson_lengths(self.mean)
        infill_words(offsets, words, quota, sums, streams, MaskKind.BASE.value, draft.kinds, joined)
        draft.owed += quota
