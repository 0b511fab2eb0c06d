"""Counts of the masks of a strategy in a corpus; `tally` computes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

from mslm_data.draw import macros, notebook_html
from mslm_data.results import Result, Table, plain_values
from mslm_data.stats.weights import SCHEMES, MaskSpecificWeights

LONGEST_RUN = 32
"""Last bin of the histogram of runs, which also counts longer runs."""

MAX_MASKED = 128
"""Last bin of the histogram of masked tokens per row, which also counts rows with more."""

ALL_MASKED = "every token is masked, so the model sees no context for its predictions"
"""Text of the warning for `MaskStats.all_masked`."""

RATE_BINS = 20
"""Number of bins of the histogram of masked shares per row."""


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts of mentions and their masks.

    Attributes:
        mentions: Number of mentions, in one epoch.
        mention_tokens: Number of tokens in mentions, in one epoch.
        masked_mentions: Number of mentions with every token masked as ENTITY, over all epochs.
        term_share: Share of the split's non-special tokens in these mentions; 0 without tokens.
    """

    mentions: int
    mention_tokens: int
    masked_mentions: int
    term_share: float


@dataclass(frozen=True, slots=True)
class LengthCounts:
    """Counts of rows, tokens and masked tokens.

    Attributes:
        sequences: Number of rows, in one epoch. The name is that of the JSON key.
        tokens: Number of tokens with special tokens, in one epoch.
        maskable_tokens: Number of non-special tokens, in one epoch.
        n_elm: Number of tokens masked as ENTITY, over all epochs.
        n_blm: Number of tokens masked as BASE, over all epochs.
    """

    sequences: int
    tokens: int
    maskable_tokens: int
    n_elm: int
    n_blm: int

    def masked_share(self, epochs: int) -> float:
        """Return the masked share of the non-special tokens, over all epochs; 0 without tokens."""
        tokens = self.maskable_tokens * epochs
        return (self.n_elm + self.n_blm) / tokens if tokens else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaskStats(Result):
    """Counts of the masks of a strategy in a split.

    The names are the keys of `mask-stats --json`, beside those of the weights. Rows, tokens and
    mentions are counted in one epoch, masked tokens over all epochs. Rows and mentions counted by
    their masks are counted once per epoch.

    Attributes:
        epochs: Number of epochs.
        sequences: Number of rows.
        tokens: Number of tokens, with special tokens.
        maskable_tokens: Number of non-special tokens.
        mentions: Number of mentions.
        mention_tokens: Number of tokens in mentions.
        masked_mentions: Number of mentions with every token masked as ENTITY.
        term_share: Share of the non-special tokens in mentions; 0 without tokens.
        n_elm: Number of tokens masked as ENTITY.
        n_blm: Number of tokens masked as BASE.
        mean_words: Mean number of words per row; 0 without rows.
        shorter: Counts of rows with fewer words than the mean (Abaho et al. 2024, Table 5). Rows of
            exactly the mean length are in neither group.
        longer: Counts of rows with more words than the mean.
        labels: Label -> counts, in the order of `span_labels`.
        masked_tokens: `n_elm + n_blm`.
        realised_rate: Masked share of the non-special tokens; 0 without tokens.
        realised_elm: Share of mentions with every token masked as ENTITY; 0 without mentions. May
            be far above the rate of ELM, because each row's budget is rounded up.
        effective_blm: Share of non-special tokens masked as BASE; 0 without tokens. May differ from
            the rate of BLM for the same reason.
        rows_under_budget: Number of rows with an unspent budget: `MaskPlan.unspent` is above 0.
        rows_without_mask: Number of rows without masked tokens.
        share_in_mentions: Share of masked tokens inside mentions; 0 without masks.
        mentions_whole: Number of mentions with every token masked, as ENTITY or BASE.
        mentions_partly: Number of mentions with masked and unmasked tokens.
        mentions_untouched: Number of mentions without masked tokens.
        mean_run_length: Mean length of runs of masked tokens; 0 without masks.
        run_lengths: At k, number of runs of k masked tokens; at `LONGEST_RUN`, of that length or
            more. Without trailing zeros.
        masked_per_row: At k, number of rows with k masked tokens; at `MAX_MASKED`, with that number
            or more. Without trailing zeros.
        owing_per_row: The rows of `masked_per_row` with an unspent budget. Without trailing zeros.
        rate_per_row: Number of rows by masked share of their tokens, in `RATE_BINS` equal bins of
            `[0, 1]`. Rows of special tokens alone are in no bin.
        masked_words: Number of words with a masked token. None if words were not counted.
        masked_word_types: Number of different words with a masked token, or None.
        masked_word_entropy: Entropy of the distribution of masked words in bits, or None; 0 if a
            single word takes all masks.
        digest: SHA-256 of all kinds, in the order of rows; for several epochs, SHA-256 of the
            epochs' digests. Equal digests mean equal masks.
    """

    epochs: int
    sequences: int
    tokens: int
    maskable_tokens: int
    mentions: int
    mention_tokens: int
    masked_mentions: int
    term_share: float
    n_elm: int
    n_blm: int
    mean_words: float
    shorter: LengthCounts
    longer: LengthCounts
    labels: dict[str, LabelCounts]
    masked_tokens: int
    realised_rate: float
    realised_elm: float
    effective_blm: float
    rows_under_budget: int
    rows_without_mask: int
    share_in_mentions: float
    mentions_whole: int
    mentions_partly: int
    mentions_untouched: int
    mean_run_length: float
    run_lengths: tuple[int, ...]
    masked_per_row: tuple[int, ...]
    owing_per_row: tuple[int, ...]
    rate_per_row: tuple[int, ...]
    masked_words: int | None
    masked_word_types: int | None
    masked_word_entropy: float | None
    digest: str

    @property
    def weights(self) -> MaskSpecificWeights:
        """The paper's loss weights from `n_elm` and `n_blm`."""
        return MaskSpecificWeights.from_counts(self.n_elm, self.n_blm)

    @property
    def terms_in_loss(self) -> float:
        """Share of the ELM tokens in the weighted loss (Eq. 5), at an equal loss of each token.

        0 without masks.
        """
        terms = self.n_elm * self.weights.w_elm
        others = self.n_blm * self.weights.w_blm
        return terms / (terms + others) if self.masked_tokens else 0.0

    @property
    def all_masked(self) -> bool:
        """Whether every non-special token is masked in each epoch."""
        return self.realised_rate == 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the weights of each equation, and those of each scheme."""
        schemes = {}
        for name, weigh in SCHEMES.items():
            w_elm, w_blm = weigh(self.n_elm, self.n_blm)
            schemes[name] = {"w_elm": w_elm, "w_blm": w_blm}
        return {**plain_values(self), **plain_values(self.weights), "weights": schemes}

    def tables(self) -> Iterator[Table]:
        """Yield the counts, then the masks by kind, in all, by label and by length of rows."""
        yield self._counts()
        yield self._kinds()
        yield self._masked()

        labels = [
            (
                label,
                counts.mentions,
                counts.mention_tokens,
                f"{counts.term_share:.2%}",
                counts.masked_mentions,
            )
            for label, counts in self.labels.items()
        ]
        yield Table(labels, head=("label", "mentions", "their tokens", "of tokens", "masked"))

        # Abaho et al. 2024, Table 5.
        lengths = [
            (f"{side} than {self.mean_words:.2f} words", *astuple(counts))
            for side, counts in (("shorter", self.shorter), ("longer", self.longer))
        ]
        yield Table(lengths, head=("rows", "number", "tokens", "maskable", "N_ELM", "N_BLM"))

    def _counts(self) -> Table:
        """Return the counts of one epoch, and of mentions masked as a whole."""
        rows = [
            ("rows", self.sequences),
            ("tokens", self.tokens),
            ("maskable tokens", self.maskable_tokens),
            ("mentions", self.mentions),
            ("mention tokens", self.mention_tokens),
            ("masked mentions", self.masked_mentions),
        ]
        return Table(rows)

    def _kinds(self) -> Table:
        """Return the numbers of masked tokens, with the weights of Abaho et al. 2024."""
        weights = self.weights
        in_all = self.maskable_tokens * self.epochs
        elm = (weights.w_elm_raw, weights.w_elm_clipped, weights.w_elm)
        blm = (weights.w_blm_raw, weights.w_blm_clipped, weights.w_blm)

        loss = self.terms_in_loss
        kinds = (
            ("ELM", self.n_elm, elm, loss),
            ("BLM", self.n_blm, blm, 1 - loss if self.masked_tokens else 0.0),
        )

        rows = []
        for name, number, equations, of_loss in kinds:
            share = number / in_all if in_all else 0.0
            rows.append((name, number, f"{share:.2%}", *equations, f"{of_loss:.2%}"))
        head = ("", "N", "of tokens", "w, Eq. 2", "Eq. 3", "Eq. 5", "of the loss")
        return Table(rows, head=head)

    def _masked(self) -> Table:
        """Return the masks, over both kinds."""
        in_rows = f"of {self.sequences * self.epochs:,}"
        in_mentions = f"of {self.mentions * self.epochs:,}"
        rows = [
            ("tokens", f"{self.masked_tokens:,}", f"{self.realised_rate:.2%} of those that can be"),
            (
                "in mentions",
                f"{self.share_in_mentions:.2%}",
                f"of masked tokens, {self.term_share:.2%} of those that can be",
            ),
            ("rows under budget", f"{self.rows_under_budget:,}", in_rows),
            ("rows with no mask", f"{self.rows_without_mask:,}", in_rows),
            ("mentions whole", f"{self.mentions_whole:,}", in_mentions),
            ("mentions partly", f"{self.mentions_partly:,}", in_mentions),
            ("mentions untouched", f"{self.mentions_untouched:,}", in_mentions),
            ("mean run", f"{self.mean_run_length:.2f}", "tokens side by side"),
        ]
        if self.masked_words is not None:
            entropy = f"entropy {self.masked_word_entropy:.2f} bits"
            different = f"{self.masked_word_types:,} different; {entropy}"
            rows.append(("words", f"{self.masked_words:,}", different))
        return Table(rows, head=("masked", "", ""))

    def __repr__(self) -> str:
        weights = self.weights

        return (
            f"MaskStats({self.sequences:,} rows, {self.realised_rate:.2%} of "
            f"{self.maskable_tokens:,} tokens masked; N_ELM {self.n_elm:,}, N_BLM {self.n_blm:,}; "
            f"w_ELM {weights.w_elm:.4f}, w_BLM {weights.w_blm:.4f})"
        )

    def _repr_html_(self) -> str:
        """Return the counts as HTML, for notebooks."""
        return notebook_html(str(macros("mask_stats.html").counts(self)))
