"""Precision, recall and F1 of mentions, from predicted and gold tags of words.

A predicted mention is a hit if a gold mention has the same row, first word, last word and type. The
tag of a word is that of its first sub-word. Counts are summed over the corpus before dividing.

The paper (Abaho et al. 2024) defines exact match (EM) as 1 for a gold mention with correct
boundaries and type, so its mean is recall. Its released code computes something else: it compares
only sub-words inside gold mentions, so predictions may extend beyond the mention and false
positives are free, and it averages over batches of 8 sentences. With mentions masked in the test
text, as in the released code, predicting a mention for each run of [MASK] scores 91.5 on BC2GM.

Dimensions: B rows, L tokens; M mentions; W words of a row; T labels; D documents.
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
"""`[B, L]`; tags are numbered as in `mslm_data.data.bio`."""

RESAMPLES = 2_000
"""Number of bootstrap samples for an interval."""

_SHOWN = 5
"""Maximum number of wrong tags in a message."""
_SEED = 0
_LEVEL = 0.95
"""Coverage of confidence intervals."""
_AT_ONCE = 1 << 22
"""Maximum number of document draws in memory."""


@dataclass(frozen=True, slots=True)
class MentionCounts:
    """Counts of gold, predicted and matching mentions, and their scores.

    Attributes:
        hits: Number of predicted mentions that match a gold mention.
        gold: Number of gold mentions.
        predicted: Number of predicted mentions.
    """

    hits: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float:
        """Hits / predicted mentions; 0 without any."""
        return self.hits / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Hits / gold mentions (exact match in the paper); 0 without any."""
        return self.hits / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 without mentions."""
        total = self.gold + self.predicted
        return 2 * self.hits / total if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return scores and counts, for JSON."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "hits": self.hits,
            "gold": self.gold,
            "predicted": self.predicted,
        }


def macro_f1(types: Iterable[MentionCounts]) -> float:
    """Return the unweighted mean F1 of types with gold or predicted mentions; 0 without any."""
    scores = [counts.f1 for counts in types if counts.gold or counts.predicted]
    return sum(scores) / len(scores) if scores else 0.0


def first_subwords(word_ids: Tags) -> npt.NDArray[np.bool_]:
    """Return the first token of each word, bool `[B, L]`.

    Args:
        word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
    """
    first = word_ids >= 0
    first[:, 1:] &= word_ids[:, 1:] != word_ids[:, :-1]
    return first


def word_mentions(tags: Tags, word_ids: Tags) -> Ints:
    """Decode mentions in words, `[M, 4]`: row, first word, word after the last, label.

    Sorted by row and word. An I tag that cannot continue a mention starts one.

    Args:
        tags: `[B, L]`; only tags of first sub-words are used.
        word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
    """
    from mslm_data.data.ragged import Ragged, make_offsets  # imports numba

    first = first_subwords(word_ids)
    words = Ragged(tags[first], make_offsets(first.sum(axis=1)))
    starts, ends, labels = bio.mentions(words)

    rows = np.repeat(np.arange(len(tags)), starts.lengths)
    columns = [rows, starts.values, ends.values, labels.values]
    return np.stack(columns, axis=1).astype(np.int64)


class MentionScores:
    """Accumulate mention counts by type and row length.

    Counts are kept for each row length, because the mean length, which separates short from long
    rows, is only known at the end.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        """Start with counts of 0.

        Args:
            labels: Names of the labels, in the numbering of the tags.
        """
        self.labels = tuple(labels)
        # By number of words: rows, and for each label hits, gold and predicted mentions.
        self._rows_W = np.zeros(0, np.int64)
        self._counts_WL3 = np.zeros((0, len(self.labels), 3), np.int64)
        self._inside_words = 0

    def add(self, gold: Tags, predicted: Tags, word_ids: Tags) -> None:
        """Add a batch.

        Args:
            gold: `[B, L]`, gold tags. Tags of special tokens and padding are ignored.
            predicted: `[B, L]`, predicted tags. Tags of special tokens and padding are ignored.
            word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.

        Raises:
            ValueError: Shapes differ, or a word's tag is out of range.
        """
        first = first_subwords(word_ids)
        self._check_tags("gold", gold, first)
        self._check_tags("predicted", predicted, first)

        words = first.sum(axis=1)
        self._grow(int(words.max(initial=-1)))
        np.add.at(self._rows_W, words, 1)

        gold_mentions = word_mentions(gold, word_ids)
        predicted_mentions = word_mentions(predicted, word_ids)
        hits = _intersect(gold_mentions, predicted_mentions)
        for column, mentions in enumerate((hits, gold_mentions, predicted_mentions)):
            lengths, labels = words[mentions[:, 0]], mentions[:, 3]
            np.add.at(self._counts_WL3[:, :, column], (lengths, labels), 1)

        # Word tags cannot represent these mentions, see `result`.
        begins_inside = (word_ids >= 0) & ~first & bio.begins(gold)
        self._inside_words += int(np.count_nonzero(begins_inside))

    def result(self, *, mean_words: float | None = None) -> dict[str, Any]:
        """Return all scores and counts, for JSON. Scores are 0 if their denominator is.

        * `precision`, `recall`, `micro_f1`, `macro_f1`, and the counts `hits`, `gold`, `predicted`,
          `rows`, `words`.
        * `types`: `precision`, `recall`, `f1` and counts of each label.
        * `shorter`, `longer`: The scores of rows with fewer, and with more, words than `mean_words`
          (Abaho et al. 2024, Table 5). Rows with exactly this number are in neither.
        * `gold_inside_words`: Number of gold mentions that start inside a word. They count from the
          next word, or not at all.

        Args:
            mean_words: Number of words that separates short from long rows. Default: the mean of
                the rows added.
        """
        lengths_W = np.arange(len(self._rows_W))
        rows = int(self._rows_W.sum())
        words = int(self._rows_W @ lengths_W)

        # Compare with the mean in integers, as length x rows - words, to avoid rounding errors.
        excess_W: npt.NDArray[Any]
        if mean_words is None:
            excess_W = lengths_W * rows - words
            mean_words = words / rows if rows else 0.0
        else:
            excess_W = lengths_W - mean_words

        all_lengths = np.ones(len(lengths_W), np.bool_)
        label_counts = zip(self.labels, self._count_by_label(all_lengths), strict=True)
        return {
            **self._group(all_lengths),
            "words": words,
            "mean_words": float(mean_words),
            "gold_inside_words": self._inside_words,
            "types": {label: counts.as_dict() for label, counts in label_counts},
            "shorter": self._group(excess_W < 0),
            "longer": self._group(excess_W > 0),
        }

    def _check_tags(self, name: str, tags: Tags, first: npt.NDArray[np.bool_]) -> None:
        if tags.shape != first.shape:
            raise ValueError(f"{name}: expected tags of shape {first.shape}, got {tags.shape}")

        num_tags = bio.count_tags(len(self.labels))
        word_tags = tags[first]
        wrong = word_tags[(word_tags < 0) | (word_tags >= num_tags)]
        if len(wrong):
            examples = ", ".join(map(str, np.unique(wrong)[:_SHOWN].tolist()))
            raise ValueError(
                f"{name}: expected tags in [0, {num_tags - 1}], got {examples} on {len(wrong)} "
                "word(s)"
            )

    def _group(self, is_selected_W: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Return the scores of rows with the selected lengths."""
        total = MentionCounts(*self._counts_WL3[is_selected_W].sum(axis=(0, 1)).tolist())
        scores = total.as_dict()
        scores["micro_f1"] = scores.pop("f1")
        scores["macro_f1"] = macro_f1(self._count_by_label(is_selected_W))
        scores["rows"] = int(self._rows_W[is_selected_W].sum())
        return scores

    def _count_by_label(self, is_selected_W: npt.NDArray[np.bool_]) -> list[MentionCounts]:
        counts_L3 = self._counts_WL3[is_selected_W].sum(axis=0)
        return [MentionCounts(*counts) for counts in counts_L3.tolist()]

    def _grow(self, max_words: int) -> None:
        missing = max_words + 1 - len(self._rows_W)
        if missing <= 0:
            return

        zeros = np.zeros((missing, len(self.labels), 3), np.int64)
        self._rows_W = np.concatenate([self._rows_W, np.zeros(missing, np.int64)])
        self._counts_WL3 = np.concatenate([self._counts_WL3, zeros])


# Recall of mentions that occur in the training rows, and of new ones ------------------------------


class KnownMentions:
    """The texts of training mentions, compared without case and white space."""

    def __init__(self, decode: Callable[[list[list[int]]], list[str]]) -> None:
        """Start without mentions.

        Args:
            decode: Decodes lists of token ids to texts, such as `decode_batch` of a tokenizer.
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
            tags: `[B, L]`, tags.
            word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
        """
        # Number the words of each row from 0, as `word_mentions` does.
        ordinals = np.cumsum(first_subwords(word_ids), axis=1) - 1
        ordinals[word_ids < 0] = -1
        mentions = [
            ids[row, (ordinals[row] >= first) & (ordinals[row] < past)].tolist()
            for row, first, past, _ in word_mentions(tags, word_ids).tolist()
        ]
        return ["".join(text.split()).casefold() for text in self._decode(mentions)]


class RecallOfUnseen:
    """Recall of gold mentions that occur in the training rows, and of new mentions.

    NER scores overstate generalisation, because many test mentions are memorised (Kim and Kang
    2021, "How do your biomedical named entity recognition models generalize to novel entities?").
    Intervals are percentiles of the bootstrap over documents.
    """

    def __init__(self, known: KnownMentions) -> None:
        """Start with counts of 0.

        Args:
            known: Mentions of the training rows.
        """
        self._known = known
        # For each document: gold and hits of memorised mentions, gold and hits of new ones,
        # predicted.
        self._counts: dict[Hashable, npt.NDArray[np.int64]] = {}

    def add(
        self, ids: Tags, gold: Tags, predicted: Tags, word_ids: Tags, documents: Iterable[Hashable]
    ) -> None:
        """Add a batch.

        Args:
            ids: `[B, L]`, token ids.
            gold: `[B, L]`, gold tags.
            predicted: `[B, L]`, predicted tags.
            word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
            documents: Document of each row.
        """
        row_counts = [
            self._counts.setdefault(document, np.zeros(5, np.int64)) for document in documents
        ]
        predicted_mentions = [*map(tuple, word_mentions(predicted, word_ids).tolist())]
        for row, *_ in predicted_mentions:
            row_counts[row][4] += 1

        predicted_set = {*predicted_mentions}
        texts = self._known.texts(ids, gold, word_ids)
        for mention, text in zip(word_mentions(gold, word_ids).tolist(), texts, strict=True):
            column = 0 if text in self._known else 2
            row_counts[mention[0]][column] += 1
            row_counts[mention[0]][column + 1] += tuple(mention) in predicted_set

    def result(self) -> dict[str, Any]:
        """Return scores and counts, for JSON.

        `memorised` and `new` have `gold`, `hits`, `recall` and `recall_interval`. `f1_interval` is
        for all mentions. `documents` is the number of documents in the bootstrap.
        """
        counts = np.array([*self._counts.values()], np.int64).reshape(-1, 5)
        total, samples = counts.sum(axis=0), resample(counts)
        result: dict[str, Any] = {
            name: {
                "gold": int(total[column]),
                "hits": int(total[column + 1]),
                "recall": float(_ratio(total[column + 1], total[column])),
                "recall_interval": interval(_ratio(samples[:, column + 1], samples[:, column])),
            }
            for name, column in (("memorised", 0), ("new", 2))
        }
        hits = samples[:, 1] + samples[:, 3]
        total_mentions = samples[:, 0] + samples[:, 2] + samples[:, 4]
        result["f1_interval"] = interval(_ratio(2 * hits, total_mentions))
        result["documents"] = len(counts)
        return result


def resample(counts: Ints) -> Ints:
    """Draw documents with replacement; return the total counts of each bootstrap sample.

    Args:
        counts: `[D, C]`, C counts for each document.

    Returns:
        `[RESAMPLES, C]`, the same in each call.
    """
    num_documents = len(counts)
    if not num_documents:
        return np.zeros((RESAMPLES, counts.shape[1]), np.int64)

    rng = np.random.default_rng(_SEED)

    # A few samples at a time, to limit memory.
    rows = max(_AT_ONCE // num_documents, 1)
    chunks = []
    for start in range(0, RESAMPLES, rows):
        indices = rng.integers(0, num_documents, (min(rows, RESAMPLES - start), num_documents))
        chunks.append(np.stack([column[indices].sum(axis=1) for column in counts.T], axis=1))
    return np.concatenate(chunks)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap values."""
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _ratio(numerator: Any, denominator: Any) -> npt.NDArray[np.float64]:
    """Divide; 0 where the denominator is 0."""
    denominator = np.asarray(denominator)
    ratio: npt.NDArray[np.float64] = np.divide(
        numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0
    )
    return ratio


def _intersect(mentions: Ints, others: Ints) -> Ints:
    """Return the mentions in both arrays, each without duplicates."""
    combined = np.concatenate([mentions, others])
    ordered = combined[np.lexsort(combined.T)]

    # Sorting puts equal mentions side by side.
    is_repeated = np.all(ordered[1:] == ordered[:-1], axis=1)
    return ordered[1:][is_repeated]
