"""Precision, recall and F1 of mentions, from predicted and gold tags of words.

A mention is found where its row, first word, last word and type are all right. A word's tag is that
of its first sub-word. Counts are summed over the corpus before anything is divided.

What the paper (Abaho et al. 2024) calls exact match, EM, is 1 for a gold mention whose boundary and
type are both found, so its mean is the recall here. Its released code computes something else: it
compares sub-words inside gold mentions alone, so that a prediction may run on past the end and
false positives cost nothing, and it averages over batches of 8 sentences. By that rule, with
mentions masked in the test text as that code has them, 91.5 is scored on BC2GM by taking each run
of [MASK] for a mention.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio

Ints = npt.NDArray[np.int64]
Tags = npt.NDArray[np.integer[Any]]

"""`[B, L]`, numbered as `mslm_data.data.bio` says."""
RESAMPLES = 2_000
"""Number of bootstrap samples for an interval."""

_SHOWN = 5
"""Wrong tags that a message names."""
_SEED = 0
_LEVEL = 0.95
_AT_ONCE = 1 << 22
"""Maximum number of draws of documents in memory."""


@dataclass(frozen=True, slots=True)
class MentionCounts:
    """Counts of gold, predicted and matching mentions, with the scores that follow.

    Attributes:
        hits: Predicted mentions that equal a gold one: same row, first word, last word and type.
        gold: Gold mentions.
        predicted: Predicted mentions.
    """

    hits: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float:
        """Matches / predicted mentions; 0 without any."""
        return self.hits / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Matches / gold mentions (exact match, as in the paper); 0 without any."""
        return self.hits / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 without any mention."""
        both = self.gold + self.predicted
        return 2 * self.hits / both if both else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return scores and counts, ready for JSON."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "hits": self.hits,
            "gold": self.gold,
            "predicted": self.predicted,
        }


def macro_f1(types: Iterable[MentionCounts]) -> float:
    """Return the unweighted mean F1 of all types in gold or prediction; 0 if there are none."""
    scores = [counts.f1 for counts in types if counts.gold or counts.predicted]
    return sum(scores) / len(scores) if scores else 0.0


def first_subwords(word_ids: Tags) -> npt.NDArray[np.bool_]:
    """Return the first token of each word, bool `[B, L]`.

    Args:
        word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.
    """
    first = word_ids >= 0
    first[:, 1:] &= word_ids[:, 1:] != word_ids[:, :-1]
    return first


def word_mentions(tags: Tags, word_ids: Tags) -> Ints:
    """Decode mentions in words, `[M, 4]`: row, first word, word after the last, label.

    They are sorted by row and word. An I that cannot continue a mention opens one.

    Args:
        tags: `[B, L]`; only those on first sub-words are read.
        word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.
    """
    from mslm_data.data.ragged import Ragged, make_offsets  # brings numba

    first = first_subwords(word_ids)
    words = Ragged(tags[first], make_offsets(first.sum(axis=1)))
    starts, ends, labels = bio.mentions(words)

    rows = np.repeat(np.arange(len(tags)), starts.lengths)
    columns = [rows, starts.values, ends.values, labels.values]
    return np.stack(columns, axis=1).astype(np.int64)


class MentionScores:
    """Accumulate mention counts, by type and by row length.

    Lengths are kept one by one, so that `result` can tell short rows from long ones once their
    average is known.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        """Begin with counts of 0.

        Args:
            labels: The name of each label, in the order of the tags.
        """
        self.labels = tuple(labels)
        # Rows of W words: how many there are, and per label hits, gold and predicted mentions.
        self._rows_W = np.zeros(0, np.int64)
        self._counts_WL3 = np.zeros((0, len(self.labels), 3), np.int64)
        self._inside_words = 0

    def add(self, gold: Tags, predicted: Tags, word_ids: Tags) -> None:
        """Add a batch.

        Args:
            gold: `[B, L]`, true tags; those on special tokens and padding are not read.
            predicted: `[B, L]`, predicted tags; those on special tokens and padding are not read.
            word_ids: `[B, L]`, number of the word in its row; -1 on special tokens and padding.

        Raises:
            ValueError: Arrays have different shapes, or a word has a tag that no label has.
        """
        first = first_subwords(word_ids)
        self._check("gold", gold, first)
        self._check("predicted", predicted, first)

        words = first.sum(axis=1)
        self._make_room(int(words.max(initial=-1)))
        np.add.at(self._rows_W, words, 1)

        gold_mentions = word_mentions(gold, word_ids)
        found_mentions = word_mentions(predicted, word_ids)
        hits = _in_both(gold_mentions, found_mentions)
        for column, mentions in enumerate((hits, gold_mentions, found_mentions)):
            lengths, labels = words[mentions[:, 0]], mentions[:, 3]
            np.add.at(self._counts_WL3[:, :, column], (lengths, labels), 1)

        begins_inside = (word_ids >= 0) & ~first & bio.begins(gold)
        self._inside_words += int(np.count_nonzero(begins_inside))

    def result(self, *, mean_words: float | None = None) -> dict[str, Any]:
        """Return all scores and counts, ready for JSON.

        A score is 0 where there is nothing to divide by.

        * `precision`, `recall`, `micro_f1`, `macro_f1`, and the counts `hits`, `gold`, `predicted`,
          `rows`, `words`.
        * `types`: `precision`, `recall`, `f1` and counts of each label.
        * `shorter`, `longer`: the same scores for rows of fewer and of more words than `mean_words`
          (Abaho et al. 2024, Table 5). Rows of exactly that many are in neither.
        * `gold_inside_words`: gold mentions that begin inside a word. Tags of words cannot say
          where: such a mention counts from the next word, or not at all.

        Args:
            mean_words: Where short ends and long begins; None is the average of the rows that were
                added.
        """
        lengths_W = np.arange(len(self._rows_W))
        rows = int(self._rows_W.sum())
        words = int(self._rows_W @ lengths_W)

        # Against the average of the rows in whole numbers: length x rows - words, without rounding.
        beyond_W: npt.NDArray[Any]
        if mean_words is None:
            beyond_W = lengths_W * rows - words
            mean_words = words / rows if rows else 0.0
        else:
            beyond_W = lengths_W - mean_words

        every_length = np.ones(len(lengths_W), np.bool_)
        by_label = zip(self.labels, self._by_label(every_length), strict=True)
        return {
            **self._group(every_length),
            "words": words,
            "mean_words": float(mean_words),
            "gold_inside_words": self._inside_words,
            "types": {label: counts.as_dict() for label, counts in by_label},
            "shorter": self._group(beyond_W < 0),
            "longer": self._group(beyond_W > 0),
        }

    def _check(self, name: str, tags: Tags, first: npt.NDArray[np.bool_]) -> None:
        """Check the shape and range of tags."""
        if tags.shape != first.shape:
            raise ValueError(f"{name}: expected tags of shape {first.shape}, got {tags.shape}")

        known = bio.count_tags(len(self.labels))
        word_tags = tags[first]
        wrong = word_tags[(word_tags < 0) | (word_tags >= known)]
        if len(wrong):
            some = ", ".join(map(str, np.unique(wrong)[:_SHOWN].tolist()))
            raise ValueError(
                f"{name}: expected tags in [0, {known - 1}], got {some} on {len(wrong)} word(s)"
            )

    def _group(self, which_W: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Return the scores of a group of row lengths."""
        total = MentionCounts(*self._counts_WL3[which_W].sum(axis=(0, 1)).tolist())
        scores = total.as_dict()
        scores["micro_f1"] = scores.pop("f1")
        scores["macro_f1"] = macro_f1(self._by_label(which_W))
        scores["rows"] = int(self._rows_W[which_W].sum())
        return scores

    def _by_label(self, which_W: npt.NDArray[np.bool_]) -> list[MentionCounts]:
        counts_L3 = self._counts_WL3[which_W].sum(axis=0)
        return [MentionCounts(*counts) for counts in counts_L3.tolist()]

    def _make_room(self, longest: int) -> None:
        missing = longest + 1 - len(self._rows_W)
        if missing <= 0:
            return

        no_counts = np.zeros((missing, len(self.labels), 3), np.int64)
        self._rows_W = np.concatenate([self._rows_W, np.zeros(missing, np.int64)])
        self._counts_WL3 = np.concatenate([self._counts_WL3, no_counts])


# Mentions that training text has, and others ------------------------------------------------------


class KnownMentions:
    """Texts of training mentions, compared without case and white space."""

    def __init__(self, decode: Callable[[list[list[int]]], list[str]]) -> None:
        """Start without any.

        Args:
            decode: Turns lists of token ids into texts, as `decode_batch` of a tokenizer does.
        """
        self._decode = decode
        self._texts: set[str] = set()

    def add(self, ids: Tags, tags: Tags, word_ids: Tags) -> None:
        """Add the mentions of training rows; see `texts`."""
        self._texts.update(self.texts(ids, tags, word_ids))

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def texts(self, ids: Tags, tags: Tags, word_ids: Tags) -> list[str]:
        """Return the normalised text of each mention, in the order of `word_mentions`.

        Args:
            ids: `[B, L]`, token ids.
            tags: `[B, L]`, their tags.
            word_ids: `[B, L]`, word of each token; -1 on special tokens and padding.
        """
        ordinals = np.cumsum(first_subwords(word_ids), axis=1) - 1
        ordinals[word_ids < 0] = -1
        mentions = [
            ids[row, (ordinals[row] >= first) & (ordinals[row] < past)].tolist()
            for row, first, past, _ in word_mentions(tags, word_ids).tolist()
        ]
        return ["".join(text.split()).casefold() for text in self._decode(mentions)]


class RecallOfUnseen:
    """Recall of gold mentions whose text was seen in training, and of all others.

    Scores of NER overstate how models generalise, as many test mentions are memorised (Kim and
    Kang 2021, "How do your biomedical named entity recognition models generalize to novel
    entities?"). Intervals are percentiles of the bootstrap over documents.
    """

    def __init__(self, known: KnownMentions) -> None:
        """Start with counts of 0.

        Args:
            known: The mentions of the training rows.
        """
        self._known = known
        # Per document: gold mentions and hits of known ones, of new ones, and predicted mentions.
        self._counts: dict[Hashable, npt.NDArray[np.int64]] = {}

    def add(
        self, ids: Tags, gold: Tags, predicted: Tags, word_ids: Tags, documents: Iterable[Hashable]
    ) -> None:
        """Add a batch.

        Args:
            ids: `[B, L]`, token ids.
            gold: `[B, L]`, true tags.
            predicted: `[B, L]`, predicted tags.
            word_ids: `[B, L]`, word of each token; -1 on special tokens and padding.
            documents: The document of each row.
        """
        row_counts = [
            self._counts.setdefault(document, np.zeros(5, np.int64)) for document in documents
        ]
        mentions = [*map(tuple, word_mentions(predicted, word_ids).tolist())]
        for row, *_ in mentions:
            row_counts[row][4] += 1

        hits = {*mentions}
        texts = self._known.texts(ids, gold, word_ids)
        for mention, text in zip(word_mentions(gold, word_ids).tolist(), texts, strict=True):
            first = 0 if text in self._known else 2
            row_counts[mention[0]][first] += 1
            row_counts[mention[0]][first + 1] += tuple(mention) in hits

    def result(self) -> dict[str, Any]:
        """Return scores and counts, ready for JSON.

        `memorised` and `new` have `gold`, `hits`, `recall` and `recall_interval`; `f1_interval` is
        of all mentions. `documents` is the number that the bootstrap draws from.
        """
        counts = np.array([*self._counts.values()], np.int64).reshape(-1, 5)
        total, drawn = counts.sum(axis=0), resample(counts)
        result: dict[str, Any] = {
            name: {
                "gold": int(total[first]),
                "hits": int(total[first + 1]),
                "recall": float(_share(total[first + 1], total[first])),
                "recall_interval": interval(_share(drawn[:, first + 1], drawn[:, first])),
            }
            for name, first in (("memorised", 0), ("new", 2))
        }
        hits = drawn[:, 1] + drawn[:, 3]
        both = drawn[:, 0] + drawn[:, 2] + drawn[:, 4]
        result["f1_interval"] = interval(_share(2 * hits, both))
        result["documents"] = len(counts)
        return result


def resample(counts: Ints) -> Ints:
    """Draw documents with replacement; return the total counts of each bootstrap sample.

    Args:
        counts: `[D, C]`, counts of each document.

    Returns:
        `[RESAMPLES, C]`, the same at each call.
    """
    num = len(counts)
    if not num:
        return np.zeros((RESAMPLES, counts.shape[1]), np.int64)

    rng = np.random.default_rng(_SEED)
    rows = max(_AT_ONCE // num, 1)
    parts = []
    for start in range(0, RESAMPLES, rows):
        drawn = rng.integers(0, num, (min(rows, RESAMPLES - start), num))
        parts.append(np.stack([column[drawn].sum(axis=1) for column in counts.T], axis=1))
    return np.concatenate(parts)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap values."""
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _share(part: Any, whole: Any) -> npt.NDArray[np.float64]:
    """Divide; 0 if the denominator is 0."""
    whole = np.asarray(whole)
    share: npt.NDArray[np.float64] = np.divide(
        part, whole, out=np.zeros(whole.shape), where=whole > 0
    )
    return share


def _in_both(mentions: Ints, others: Ints) -> Ints:
    """Return the mentions that two duplicate-free arrays have in common."""
    together = np.concatenate([mentions, others])
    ordered = together[np.lexsort(together.T)]

    # Whatever is there twice now stands side by side.
    twice = np.all(ordered[1:] == ordered[:-1], axis=1)
    return ordered[1:][twice]
