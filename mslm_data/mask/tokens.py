"""Single tokens at random: BERT, Hugging Face's collator, RoBERTa, a rate of 40 %, ModernBERT, ELECTRA's generator.

They differ in how many are hidden, in whether `[UNK]` is, and in which ids stand in for a tenth of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.rate import Limit, Rate, Varying
from mslm_data.mask.stages import Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Bert(Staged):
    """Hide single tokens, a fixed number of each row, as BERT does (Devlin et al. 2019).

    In `create_pretraining_data.py` of google-research/bert: `min(most, max(1, round(rate * tokens)))` tokens, where
    Python's `round` goes half to even and the special tokens are counted but never hidden. So in short rows more than
    `rate` of the real tokens are hidden, and in a row of 134 tokens or more, less. `[UNK]` is hidden like any other.
    Random ids come from the whole vocabulary, special and unused ones included. The mask was drawn ten times before
    training (`dupe_factor`): plan with `epoch % 10` for that.

    Attributes:
        rate: Share of the row's tokens, in `[0, 1]`.
        most: The number hidden is this at most: BERT's 20 is for rows of 128 tokens; None or 0 is no limit.
        corruption: `80-10-10` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a negative limit.
    """

    rate: Rate = 0.15
    most: Limit = 20
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        most = self.most or None
        return (
            Choose(
                rate=self.rate,
                of="all tokens",
                rounding="nearest",
                least=1,
                most=most,
                unknown=True,
            ),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Staged):
    """Hide each token by a coin of its own, as Hugging Face's language modeling collator does.

    `DataCollatorForLanguageModeling` of transformers 5.23, which this follows in law but not in random numbers: no
    minimum, so n tokens have no target with chance `(1 - rate) ** n` (10 tokens at 0.15: 0.197). Random ids come from
    the whole vocabulary. Whether it hides `[UNK]` is up to its caller: working out itself what is special, it leaves
    out every special id, `[UNK]` too; where rows bring a `special_tokens_mask`, as the tokenizer returns it, `[UNK]`
    in the text is not marked there, and is hidden.

    The inputs of DGA (Ke et al. 2022) are masked so; what is its own happens in the model.

    Attributes:
        rate: Chance of each token, in `[0, 1]`.
        unknown: Whether `[UNK]` may be hidden: false is the collator on its own, true is with `special_tokens_mask`.
        corruption: `80-10-10`, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    unknown: bool = False
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (Choose(rate=self.rate, how="each", unknown=self.unknown),)

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roberta(Staged):
    """Hide single tokens, `int(rate * n + u)` of each row, as RoBERTa does (Liu et al. 2019).

    In fairseq's `mask_tokens_dataset.py` u is uniform in `[0, 1)`, so that the mean number is exactly `rate * n`, and
    short rows have their share. There n counts `<s>` and `</s>`, which are hidden as well; here they never are, and n
    counts the other tokens, so that each of these is hidden with the same chance as there. `<unk>` is hidden like any
    other. Random ids are those that are not special. (fairseq adds `<mask>` to its dictionary late and may draw it.)

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        corruption: `80-10-10` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (Choose(rate=self.rate, of="tokens", rounding="random", unknown=True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wettig(Staged):
    """Hide 40 % of the tokens, all behind `[MASK]`, as Wettig et al. 2023 advise for large models.

    In princeton-nlp/DinkyTrain it is fairseq's masking (see `Roberta`) at another rate, nothing random and nothing
    kept. The paper studies rates of 0.15 to 0.8, and `80-10-10`, which does worse at both 0.15 and 0.4 (its README:
    MNLI 83.7 and 84.3, without 84.2 and 84.5).

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        corruption: `mask` as advised, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.4
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return those of `Roberta`."""
        return Roberta(rate=self.rate).stages()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBert(Staged):
    """Hide each token by a coin of its own at a rate of 30 %, as ModernBERT does (Warner et al. 2024).

    In `sequence_packer.py` of AnswerDotAI/ModernBERT: 0.3 in training, 0.15 in evaluation, no minimum, `[UNK]` like any
    other. The code of its training hides special tokens too; here they never are. Random ids are there those up to
    the largest in the batch; here, where no row may depend on others, those of the whole vocabulary.

    Attributes:
        rate: Chance of each token, in `[0, 1]`.
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.3
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return those of `Token`, with `[UNK]`."""
        return Token(rate=self.rate, unknown=True).stages()

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Electra(Staged):
    """Hide tokens drawn with replacement, for ELECTRA's generator to fill (Clark et al. 2020).

    In `pretrain_helpers.py` of google-research/electra, on which BioELECTRA rests, it is
    `max(1, min(cap, round(rate * tokens)))` draws, special tokens counted but never drawn; what is drawn twice is
    hidden once, so that k draws from n tokens hide `n * (1 - (1 - 1 / n) ** k)` on average. (It multiplies in single
    precision: at 0.15, rows of 190, 350 and 390 tokens have one draw more there.) Of the hidden, 85 % become `[MASK]`,
    the rest stay. (There each draw decides that anew and the loss counts it anew; here each token does so once.)
    `[UNK]` is drawn like any other. What the generator writes into the gaps is the model's part.

    Attributes:
        rate: Share of the row's tokens, in `[0, 1]`; 0.25 for the large model.
        max_tokens: The model's row length L, whose cap is `int((rate + 0.005) * L)` draws; None or 0 is no cap. Rows of
            L tokens at most reach it only where L is less than 100.
        corruption: `85-0-15` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a negative length.
    """

    rate: Rate = 0.15
    max_tokens: Limit = None
    corruption: str = "85-0-15"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        top = max(self.rate.start, self.rate.stop) if isinstance(self.rate, Varying) else self.rate
        most = int((top + 0.005) * self.max_tokens) if self.max_tokens else None
        draw = Choose(
            rate=self.rate,
            of="all tokens",
            rounding="nearest",
            least=1,
            most=most,
            how="again",
            unknown=True,
        )
        return (draw,)
