"""Exact match of mentions: predicted tags against gold ones, word by word, added up batch by batch.

A word's tag is that of its first sub-word. Counts are summed over the corpus before anything is divided: a mean of
batches' scores, as the paper's released code prints it, depends on how rows fall into batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio

Ints = npt.NDArray[np.int64]
Tags = npt.NDArray[np.integer[Any]]
"""`[B, L]`, numbered as `mslm_data.data.bio` says."""


@dataclass(frozen=True, slots=True)
class MentionCounts:
    """Counts of mentions.

    Attributes:
        hits: Predicted mentions that are a gold one: same row, first word, last word and type.
        gold: Gold mentions.
        predicted: Predicted mentions.
    """

    hits: int
    gold: int
    predicted: int

    @property
    def exact_match(self) -> float:
        """Hits of the gold mentions (Abaho et al. 2024, EM; exact recall elsewhere); 0 where there are none."""
        return self.hits / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Hits of the predicted mentions; 0 where there are none."""
        return self.hits / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two; 0 where there is no mention."""
        both = self.gold + self.predicted
        return 2 * self.hits / both if both else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return scores and counts, as JSON has them."""
        scores = {"exact_match": self.exact_match, "precision": self.precision, "f1": self.f1}
        return scores | {"hits": self.hits, "gold": self.gold, "predicted": self.predicted}


def macro_f1(types: Iterable[MentionCounts]) -> float:
    """Return the plain mean of the F1 of types that are in gold or prediction; 0 where none is."""
    scores = [counts.f1 for counts in types if counts.gold or counts.predicted]
    return sum(scores) / len(scores) if scores else 0.0


def first_subwords(word_ids: Tags) -> npt.NDArray[np.bool_]:
    """Return where words begin, `[B, L]`.

    Args:
        word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.
    """
    first = word_ids >= 0
    first[:, 1:] &= word_ids[:, 1:] != word_ids[:, :-1]
    return first


def word_mentions(tags: Tags, word_ids: Tags) -> Ints:
    """Return the mentions that tags say, `[M, 4]`: row, first word, word after the last, label; rising.

    An I that cannot go on, as nothing of its label is open in its row, opens a mention.

    Args:
        tags: `[B, L]`; only those on first sub-words are looked at.
        word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.
    """
    from mslm_data.data.ragged import Ragged, offsets_of  # brings numba

    first = first_subwords(word_ids)
    words = Ragged(tags[first], offsets_of(first.sum(axis=1)))
    starts, ends, labels = bio.mentions(words)

    rows = np.repeat(np.arange(len(tags)), starts.lengths)
    columns = [rows, starts.values, ends.values, labels.values]
    return np.stack(columns, axis=1).astype(np.int64)


class MentionScores:
    """Adds up mentions that were found, type by type, and for short and long rows."""

    def __init__(self, labels: Sequence[str]) -> None:
        """Begin with nothing.

        Args:
            labels: The name of each label, in the order of the tags.
        """
        self.labels = tuple(labels)
        self._counts = np.zeros(
            (0, len(self.labels), 3), np.int64
        )  # words of the row, label; as `MentionCounts`
        self._rows = np.zeros(0, np.int64)
        self._inside_words = 0

    def add(self, gold: Tags, predicted: Tags, word_ids: Tags) -> None:
        """Add a batch.

        Args:
            gold: `[B, L]`, true tags; anything on special tokens and padding.
            predicted: `[B, L]`, predicted tags; likewise.
            word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.

        Raises:
            ValueError: Arrays of other shapes, or a word whose tag is none of the labels'.
        """
        first = first_subwords(word_ids)
        for name, tags in (("gold", gold), ("predicted", predicted)):
            if tags.shape != word_ids.shape:
                raise ValueError(
                    f"{name}: expected tags of shape {word_ids.shape}, got {tags.shape}"
                )
            known = bio.count_tags(len(self.labels))
            wrong = int(np.count_nonzero((tags[first] < 0) | (tags[first] >= known)))
            if wrong:
                raise ValueError(
                    f"{name}: expected tags in [0, {known - 1}], got others on {wrong} word(s)"
                )
        words = first.sum(axis=1)
        self._make_room(int(words.max(initial=-1)))
        np.add.at(self._rows, words, 1)
        true, found = word_mentions(gold, word_ids), word_mentions(predicted, word_ids)
        same = _in_both(true, found)
        for column, mentions in enumerate((same, true, found)):
            np.add.at(self._counts[:, :, column], (words[mentions[:, 0]], mentions[:, 3]), 1)
        self._inside_words += int(np.count_nonzero((word_ids >= 0) & ~first & bio.begins(gold)))

    def result(self, *, mean_words: float | None = None) -> dict[str, Any]:
        """Return all scores and counts, as JSON has them.

        `exact_match`, `precision`, `micro_f1`, `macro_f1` and their counts; `types` for each label; `shorter` and
        `longer` for the rows of fewer and of more words than `mean_words` (Abaho et al. 2024, Table 5), rows of
        just that many being in neither; `gold_inside_words`: gold mentions that begin within a word, which tags of
        words cannot say: they count from the next word, or not at all. Where there is nothing to divide by, a score
        is 0.

        Args:
            mean_words: Where short ends and long begins; None is the average of the rows that were added.
        """
        lengths = np.arange(len(self._rows))
        rows, words = int(self._rows.sum()), int(self._rows @ lengths)
        # in whole numbers, as there is no average to round
        beyond = lengths * rows - words if mean_words is None else lengths - mean_words
        everything, shorter, longer = (
            self._group(which) for which in (lengths >= 0, beyond < 0, beyond > 0)
        )
        types = self._types(lengths >= 0)
        return {
            **everything,
            "words": words,
            "mean_words": (words / rows if rows else 0.0)
            if mean_words is None
            else float(mean_words),
            "gold_inside_words": self._inside_words,
            "types": {
                label: counts.as_dict() for label, counts in zip(self.labels, types, strict=True)
            },
            "shorter": shorter,
            "longer": longer,
        }

    def _group(self, which: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Return the scores of rows of some lengths."""
        types = self._types(which)
        total = MentionCounts(*self._counts[which].sum(axis=(0, 1)).tolist())
        scores = total.as_dict()
        scores["micro_f1"] = scores.pop("f1")
        return scores | {"macro_f1": macro_f1(types), "rows": int(self._rows[which].sum())}

    def _types(self, which: npt.NDArray[np.bool_]) -> list[MentionCounts]:
        return [MentionCounts(*counts) for counts in self._counts[which].sum(axis=0).tolist()]

    def _make_room(self, longest: int) -> None:
        missing = longest + 1 - len(self._rows)
        if missing > 0:
            self._rows = np.concatenate([self._rows, np.zeros(missing, np.int64)])
            more = np.zeros((missing, len(self.labels), 3), np.int64)
            self._counts = np.concatenate([self._counts, more])


def _in_both(mentions: Ints, others: Ints) -> Ints:
    """Return the mentions that are among the others too; within each, no two are equal."""
    together = np.concatenate([mentions, others])
    order = np.lexsort(together.T)
    ordered = together[order]
    twice = np.all(ordered[1:] == ordered[:-1], axis=1)
    return ordered[1:][twice]
