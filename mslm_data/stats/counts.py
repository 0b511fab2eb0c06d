"""The counts of what a strategy hides in a corpus; `tally` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from mslm_data.draw import macros, notebook_html
from mslm_data.stats.weights import MaskSpecificWeights

LONGEST_RUN = 32
"""The last place of the histogram of runs; it counts longer runs too."""

MOST_MASKED = 128
"""The last place of the histogram of masked tokens in a row; it counts rows with more too."""

ALL_MASKED = "every token is masked, so the model sees no word that it could predict others by"
"""`MaskStats.all_masked` in words."""

RATE_BINS = 20
"""The number of bins of the histogram of a row's masked share."""


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts of what is hidden of some mentions.

    Attributes:
        mentions: Number of mentions, in one epoch.
        mention_tokens: Sub-words in these mentions, in one epoch.
        masked_mentions: Mentions whose every token is masked as ENTITY, over all epochs.
    """

    mentions: int
    mention_tokens: int
    masked_mentions: int


@dataclass(frozen=True, slots=True)
class LengthCounts:
    """Counts of what is hidden in some rows.

    Attributes:
        sequences: Number of rows, in one epoch. The name is the key of `mask-stats --json`.
        tokens: Sub-words, special tokens included, in one epoch.
        maskable_tokens: Sub-words that are not special tokens, in one epoch.
        n_elm: Tokens masked as ENTITY, over all epochs.
        n_blm: Tokens masked as BASE, over all epochs.
    """

    sequences: int
    tokens: int
    maskable_tokens: int
    n_elm: int
    n_blm: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaskStats:
    """Counts of what a strategy hides in a split, by the keys of `mask-stats --json`.

    Rows, tokens and mentions are counted in one epoch. Everything masked is counted over all
    epochs, and a row or mention that is counted by its masks is counted once in each epoch.

    Attributes:
        sequences: Number of rows.
        tokens: Sub-words, special tokens included.
        maskable_tokens: Sub-words that are not special tokens.
        mentions: Number of mentions.
        mention_tokens: Sub-words in mentions.
        masked_mentions: Mentions whose every token is masked as ENTITY.
        n_elm: Tokens masked as ENTITY.
        n_blm: Tokens masked as BASE.
        mean_words: Average number of words of a row; 0 if there is no row.
        shorter: Counts of rows with fewer words than the average (Abaho et al. 2024, Table 5). Rows
            of exactly the average length are in neither group.
        longer: Counts of rows with more words than the average.
        labels: Label -> its counts, in the order of `span_labels`.
        masked_tokens: `n_elm + n_blm`.
        realised_rate: Masked share of the tokens that are not special; 0 if there are none.
        realised_elm: Share of the mentions whose every token is masked as ENTITY; 0 if there are
            none. A rate of ELM may be far below, as each row's budget is rounded up.
        effective_blm: Share of the tokens that are not special that is masked as BASE; 0 if there
            are none. A rate of BLM may differ from it for the same reason.
        rows_under_budget: Rows that could not spend their budget: `MaskPlan.unspent` is above 0.
        rows_without_mask: Rows with no masked token.
        share_in_mentions: Share of the masked tokens that lie in mentions; 0 if none is masked.
        mentions_whole: Mentions whose every token is masked, as ENTITY or BASE.
        mentions_partly: Mentions with masked tokens and others.
        mentions_untouched: Mentions with no masked token.
        mean_run_length: Average length of runs of masked tokens side by side; 0 if none is masked.
        run_lengths: At k, number of runs of k tokens; at `LONGEST_RUN`, of that many or more. Zeros
            at the end are left out.
        masked_per_row: At k, number of rows with k masked tokens; at `MOST_MASKED`, with that many
            or more. Zeros at the end are left out.
        owing_per_row: The part of `masked_per_row` that is under budget. Zeros at the end are left
            out.
        rate_per_row: Rows by the masked share of their tokens, in `RATE_BINS` equal bins of
            `[0, 1]`. Rows with nothing but special tokens are in no bin.
        masked_words: Number of words with a masked token; None where words were not counted, as for
            the next two.
        masked_word_types: Number of different words with a masked token.
        masked_word_entropy: Entropy of the distribution of masked words, in bits; 0 if one word
            takes all masks.
        digest: SHA-256 of all kinds in the order of the rows. Of several epochs, SHA-256 of the
            epochs' digests. Equal digests are equal masks.
    """

    sequences: int
    tokens: int
    maskable_tokens: int
    mentions: int
    mention_tokens: int
    masked_mentions: int
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
        """The paper's loss weights that follow from `n_elm` and `n_blm`."""
        return MaskSpecificWeights.from_counts(self.n_elm, self.n_blm)

    @property
    def all_masked(self) -> bool:
        """Return whether every token of the split, special ones apart, is masked in each epoch."""
        return self.realised_rate == 1

    def facts(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Return the name and value of what readers look for first, and of what else there is."""
        weights = self.weights
        first = [
            ("tokens masked", f"{self.realised_rate:.2%}"),
            ("mentions masked by ELM", f"{self.realised_elm:.2%}"),
            ("tokens masked by BLM", f"{self.effective_blm:.2%}"),
            ("w_ELM / w_BLM, Eq. 5", f"{weights.w_elm:.3f} / {weights.w_blm:.3f}"),
        ]
        others = [
            ("N_ELM", f"{self.n_elm:,}"),
            ("N_BLM", f"{self.n_blm:,}"),
            ("rows", f"{self.sequences:,}"),
            ("tokens that can be masked", f"{self.maskable_tokens:,}"),
            ("mentions", f"{self.mentions:,}"),
            ("masks that lie in mentions", f"{self.share_in_mentions:.1%}"),
            ("rows under budget", f"{self.rows_under_budget:,}"),
            ("rows with no mask", f"{self.rows_without_mask:,}"),
            ("mean run of masks", f"{self.mean_run_length:.2f} tokens"),
        ]
        if self.masked_word_entropy is not None:
            others.append(("entropy of masked words", f"{self.masked_word_entropy:.2f} bits"))
        return first, others

    def by_label(self) -> str:
        """Return an HTML table of what is hidden of each label's mentions."""
        rows = [
            (label, counts.mentions, counts.mention_tokens, counts.masked_mentions)
            for label, counts in self.labels.items()
        ]
        head = ("label", "mentions", "their tokens", "masked whole by ELM")
        return str(macros("parts.html").table(head, rows))

    def __repr__(self) -> str:
        weights = self.weights

        return (
            f"MaskStats({self.sequences:,} rows, {self.realised_rate:.2%} of "
            f"{self.maskable_tokens:,} tokens masked; N_ELM {self.n_elm:,}, N_BLM {self.n_blm:,}; "
            f"w_ELM {weights.w_elm:.4f}, w_BLM {weights.w_blm:.4f})"
        )

    def _repr_html_(self) -> str:
        """Return the first numbers and those of labels, as notebooks show them."""
        first, others = self.facts()

        tiles = macros("parts.html").tiles
        return notebook_html(tiles(first), tiles(others, small=True), self.by_label())
