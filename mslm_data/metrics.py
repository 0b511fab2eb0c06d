"""Precision, recall and F1 of mentions, from predicted and gold tags of words.

A predicted mention is a hit if a gold mention has the same row, first word, last word and type. The
tag of a word is that of its first sub-word. Counts are summed over the corpus before dividing.

The paper (Abaho et al. 2024) defines exact match (EM) as 1 for a gold mention with correct
boundaries and type, so its mean is recall. Its released code computes something else: it compares
only sub-words inside gold mentions, so predictions may extend beyond the mention and false
positives are free, and it averages over batches of 8 sentences. With mentions masked in the test
text, as in the released code, predicting a mention for each run of [MASK] scores 91.5 on BC2GM.

Dimensions: B rows, L tokens; M mentions; D documents; K classes of gold mentions; S mentions of
rows.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio
from mslm_data.data.length_table import LengthTable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mslm_data.data.examples import Examples
    from mslm_data.data.ragged import Ragged
    from mslm_data.shard.split import Rows

Ints = npt.NDArray[np.int64]
Tags = npt.NDArray[np.integer[Any]]
"""`[B, L]`; tags are numbered as in `mslm_data.data.bio`."""

MEMORISED, SYNONYM, NEW = range(3)
CLASSES = ("memorised", "synonym", "new")
"""Classes of gold mentions: the text occurs in training; only the concept does; neither."""
RESAMPLES = 2_000
"""Number of bootstrap samples for an interval."""

_SHOWN = 5
"""Maximum number of wrong tags in a message."""
_SEED = 0
_LEVEL = 0.95
"""Coverage of confidence intervals."""
_AT_ONCE = 1 << 22
"""Maximum number of document draws in memory."""
_BETWEEN_CONCEPTS = re.compile(r"[|+]")


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
            **asdict(self),
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


class Matches(NamedTuple):
    """Gold and predicted mentions of a batch; see `word_mentions`.

    Attributes:
        gold: Gold mentions, int64 `[G, 4]`.
        predicted: Predicted mentions, int64 `[P, 4]`.
        is_hit: Whether a gold mention is predicted, bool `[G]`.
    """

    gold: Ints
    predicted: Ints
    is_hit: npt.NDArray[np.bool_]


class MentionScores:
    """Accumulate mention counts by type and row length."""

    def __init__(self, labels: Sequence[str]) -> None:
        """Start with counts of 0.

        Args:
            labels: Names of the labels, in the numbering of the tags.
        """
        self.labels = tuple(labels)
        # The number of rows, then for each label hits, gold and predicted mentions.
        self._sums = LengthTable(1 + 3 * len(self.labels))
        self._inside_words = 0

    def add(self, gold: Tags, predicted: Tags, word_ids: Tags) -> Matches:
        """Add a batch, and return its mentions.

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

        gold_mentions = word_mentions(gold, word_ids)
        predicted_mentions = word_mentions(predicted, word_ids)
        found = {*map(tuple, predicted_mentions.tolist())}
        is_hit = np.array([tuple(mention) in found for mention in gold_mentions.tolist()], np.bool_)
        columns = np.zeros((len(first), 1 + 3 * len(self.labels)), np.int64)
        columns[:, 0] = 1
        hits = gold_mentions[is_hit]
        for kind, mentions in enumerate((hits, gold_mentions, predicted_mentions)):
            rows = mentions[:, 0]
            labels = mentions[:, 3]
            np.add.at(columns, (rows, 1 + 3 * labels + kind), 1)
        self._sums.add(first.sum(axis=1), columns)

        # Word tags cannot represent these mentions, see `result`.
        begins_inside = (word_ids >= 0) & ~first & bio.begins(gold)
        self._inside_words += int(np.count_nonzero(begins_inside))
        return Matches(gold_mentions, predicted_mentions, is_hit)

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
        whole, shorter, longer = self._sums.groups(mean_words)
        _, words = self._sums.totals()
        types = zip(self.labels, _count_by_label(whole), strict=True)
        return {
            **_score_rows(whole),
            "words": words,
            "mean_words": float(self._sums.mean_words() if mean_words is None else mean_words),
            "gold_inside_words": self._inside_words,
            "types": {label: counts.as_dict() for label, counts in types},
            "shorter": _score_rows(shorter),
            "longer": _score_rows(longer),
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


def _score_rows(sums: Ints) -> dict[str, Any]:
    """Return the scores of a group of rows, from its row in the table of `MentionScores`."""
    total = MentionCounts(*sums[1:].reshape(-1, 3).sum(axis=0).tolist())
    scores = total.as_dict()
    scores["micro_f1"] = scores.pop("f1")
    scores["macro_f1"] = macro_f1(_count_by_label(sums))
    scores["rows"] = int(sums[0])
    return scores


def _count_by_label(sums: Ints) -> list[MentionCounts]:
    return [MentionCounts(*counts) for counts in sums[1:].reshape(-1, 3).tolist()]


# Recall of mentions that occur in the training rows, and of new ones ------------------------------


class KnownMentions:
    """Texts and concepts of training mentions.

    Texts are compared without case and white space. A concept may consist of several ids, separated
    by `|` or `+`; a mention has a known concept if one of its ids is known (Kim and Kang 2021).
    """

    def __init__(self) -> None:
        """Start without mentions."""
        self._texts: set[str] = set()
        self._concepts: set[str] = set()

    @classmethod
    def from_rows(cls, rows: Rows, tokenizer: Tokenizer) -> KnownMentions:
        """Collect the mentions of training rows.

        Args:
            rows: A split, a subset, or a mix, whose concepts are ignored.
            tokenizer: Tokenizer of the rows.
        """
        known = cls()
        for examples in rows.chunks():
            known.add(mention_texts(examples, tokenizer))
        known.add((), chain.from_iterable(row_concepts(rows) or ()))
        return known

    def add(self, texts: Iterable[str], concepts: Iterable[str] = ()) -> None:
        """Add texts and concepts of mentions. Empty concepts are ignored."""
        self._texts.update(map(_normalise, texts))
        for concept in concepts:
            self._concepts.update(_split_concepts(concept))

    @property
    def has_concepts(self) -> bool:
        """Whether any mention has a concept."""
        return bool(self._concepts)

    def classify(
        self, texts: Sequence[str], concepts: Sequence[str] | None = None
    ) -> npt.NDArray[np.int8]:
        """Return the class of each gold mention, as an index into `CLASSES`, int8 `[S]`.

        Args:
            texts: `[S]`.
            concepts: `[S]`, empty for mentions without a concept, which are memorised or new.
                Default: no concepts.
        """
        classes = np.full(len(texts), NEW, np.int8)
        for number, concept in enumerate(concepts or ()):
            if not self._concepts.isdisjoint(_split_concepts(concept)):
                classes[number] = SYNONYM

        # A known text is memorised whatever its concept.
        for number, text in enumerate(texts):
            if _normalise(text) in self._texts:
                classes[number] = MEMORISED
        return classes


def mention_texts(examples: Examples, tokenizer: Tokenizer) -> list[str]:
    """Return the decoded text of each mention of some rows, `[S]`."""
    starts = examples.span_starts
    firsts = starts.values + np.repeat(examples.input_ids.offsets[:-1], starts.lengths)
    pasts = firsts + (examples.span_ends.values - starts.values)
    ids = examples.input_ids.values
    bounds = zip(firsts.tolist(), pasts.tolist(), strict=True)
    return decode_all([ids[first:past].tolist() for first, past in bounds], tokenizer)


def decode_all(mentions: list[list[int]], tokenizer: Tokenizer) -> list[str]:
    """Decode the token ids of each mention."""
    # Keep [UNK]: without it, a mention with an unknown word would equal one without the word.
    texts: list[str] = tokenizer.decode_batch(mentions, skip_special_tokens=False)
    return texts


def row_concepts(rows: Rows | Examples) -> Iterator[Sequence[str]] | None:
    """Iterate over the concepts of the mentions of each row.

    Returns:
        None if the folder has no concepts, or for a mix or examples.
    """
    from mslm_data.shard.split import Rows

    if not isinstance(rows, Rows) or rows.digest is None:
        return None
    split = rows.splits[0].source
    return split.values("span_concepts") if split.manifest.weak else None


def span_numbers(mentions: Ints, word_ids: Tags, span_starts: Ragged) -> Ints:
    """Return the span at the first word of each mention, `[M]`, as its number among all spans.

    Args:
        mentions: `[M, 4]`, see `word_mentions`.
        word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
        span_starts: First token of each span of the B rows, ascending in a row.
    """
    # First token of each mention. Words of all rows are numbered one after another.
    first = first_subwords(word_ids)
    words = first.sum(axis=1)
    offsets = np.cumsum(words) - words
    rows = mentions[:, 0]
    tokens = np.nonzero(first)[1][offsets[rows] + mentions[:, 1]]

    # The last span that starts at or before it, in its row.
    width = word_ids.shape[1]
    span_rows = np.repeat(np.arange(len(word_ids)), span_starts.lengths)
    span_places = span_rows * width + span_starts.values
    numbers: Ints = np.searchsorted(span_places, rows * width + tokens, side="right") - 1
    return numbers


class DocumentTable:
    """Counts of mentions by document and class, to draw documents with replacement.

    Mentions that have no class, such as predicted ones, may be counted in any: only the sum over
    classes is used of their counts.
    """

    def __init__(self, columns: int) -> None:
        """Start without documents.

        Args:
            columns: Number of counts, C.
        """
        self._columns = columns
        self._added: list[tuple[Any, npt.ArrayLike]] = []  # cells of the table, and their counts

    def add(self, documents: Ints, classes: npt.NDArray[Any] | int, counts: npt.ArrayLike) -> None:
        """Add counts.

        Args:
            documents: Integers `[M]`, document of each mention.
            classes: Integers `[M]`, index into `CLASSES`, or a single one.
            counts: Integers `[M, C]`, or `[C]` for the same counts of each mention.
        """
        self._added.append(((documents, classes), counts))

    def sums(self, documents: int) -> Ints:
        """Return the sums of D documents, `[D, K, C]` for K classes."""
        table = np.zeros((documents, len(CLASSES), self._columns), np.int64)
        for cells, counts in self._added:
            np.add.at(table, cells, counts)
        return table


class RecallOfUnseen:
    """Recall of gold mentions that occur in the training rows, and of new mentions.

    NER scores overstate generalisation, because many test mentions are memorised (Kim and Kang
    2021, "How do your biomedical named entity recognition models generalize to novel entities?").
    Intervals are percentiles of the bootstrap over documents.
    """

    def __init__(self, *, with_concepts: bool = False) -> None:
        """Start with counts of 0.

        Args:
            with_concepts: Whether both training and gold mentions have concepts, so that `synonym`
                is reported.
        """
        self._with_concepts = with_concepts
        self._documents: dict[Hashable, int] = {}
        self._table = DocumentTable(3)  # gold mentions, hits, predicted mentions

    def add(
        self, matches: Matches, classes: npt.NDArray[Any], documents: Iterable[Hashable]
    ) -> None:
        """Add a batch.

        Args:
            matches: The result of `MentionScores.add`.
            classes: `[G]`, class of each gold mention.
            documents: Document of each row.
        """
        known = self._documents
        numbers = np.array([known.setdefault(doc, len(known)) for doc in documents], np.int64)

        gold = np.zeros((len(matches.gold), 3), np.int64)
        gold[:, 0] = 1
        gold[:, 1] = matches.is_hit
        self._table.add(numbers[matches.gold[:, 0]], classes, gold)
        self._table.add(numbers[matches.predicted[:, 0]], NEW, [0, 0, 1])

    def result(self) -> dict[str, Any]:
        """Return scores and counts, for JSON.

        `memorised`, `synonym` (only with concepts) and `new` have `gold`, `hits`, `recall` and
        `recall_interval`. `f1_interval` is for all mentions. `documents` is the number of documents
        in the bootstrap.
        """
        table_DK3 = self._table.sums(len(self._documents))
        gold, hits, predicted = resample(table_DK3.sum(axis=1)).T
        return {
            **recall_by_class(
                table_DK3[:, :, 0], table_DK3[:, :, 1], with_concepts=self._with_concepts
            ),
            "f1_interval": interval(ratio(2 * hits, gold + predicted)),
            "documents": len(self._documents),
        }


class UnseenMentions:
    """Recall of the gold mentions of rows by whether they occur in training rows.

    Rows are read in chunks: `read` gets a chunk, then `add` the batches of its rows, in any order.
    """

    def __init__(self, rows: Rows | Examples, train: Rows) -> None:
        """Collect the mentions of the training rows.

        Args:
            rows: The rows to score.
            train: The training rows.

        Raises:
            TypeError: `train` is not a split.
            ValueError: The tokenizers differ.
        """
        from tokenizers import Tokenizer

        _check_train(rows, train)
        self._tokenizer = Tokenizer.from_file(str(train.splits[0].source.tokenizer))
        self._known = KnownMentions.from_rows(train, self._tokenizer)
        concepts = row_concepts(rows) if self._known.has_concepts else None
        self._concepts = concepts
        self._documents = iter(_row_documents(rows))
        self._recall = RecallOfUnseen(with_concepts=concepts is not None)

    def read(self, examples: Examples) -> None:
        """Classify the gold mentions of the next rows."""
        rows = len(examples)
        concepts = None
        if self._concepts is not None:
            concepts = [*chain.from_iterable(islice(self._concepts, rows))]
        self._starts = examples.span_starts
        self._classes = self._known.classify(mention_texts(examples, self._tokenizer), concepts)
        self._row_documents = [*islice(self._documents, rows)]

    def add(self, matches: Matches, word_ids: Tags, rows: Ints) -> None:
        """Add a batch.

        Args:
            matches: The result of `MentionScores.add`.
            word_ids: `[B, L]`, word number in the row; -1 on special tokens and padding.
            rows: `[B]`, row numbers within the chunk.
        """
        from mslm_data.data.ragged import Ragged

        starts = self._starts.take(rows)
        classes = Ragged(self._classes, self._starts.offsets).take(rows).values
        gold_classes = classes[span_numbers(matches.gold, word_ids, starts)]
        self._recall.add(matches, gold_classes, [self._row_documents[row] for row in rows])

    def result(self) -> dict[str, Any]:
        """Return the result of `RecallOfUnseen.result`."""
        return self._recall.result()


def _check_train(rows: Rows | Examples, train: Any) -> None:
    """Check that training rows have the tokenizer of the rows, so that texts can be compared."""
    from mslm_data.shard.split import Rows

    if not isinstance(train, Rows):
        raise TypeError(
            "train: expected the split that the model was trained on, such as "
            f"md.load(folder)['train'], or a subset of it, got {type(train).__name__}"
        )

    if isinstance(rows, Rows):
        digests = {each.splits[0].source.manifest.tokenizer.sha256 for each in (rows, train)}
        is_same = len(digests) == 1
    else:  # these do not know their tokenizer, only its special ids
        is_same = rows.ids == train.token_ids
    if not is_same:
        raise ValueError(
            "train: expected rows of the same tokenizer as the scored rows, got another; build "
            "both folders with the tokenizer of the model"
        )


def _row_documents(rows: Rows | Examples) -> Iterable[Hashable]:
    """Return the document of each row; if unknown, as in a mix, each row is a document."""
    from mslm_data.shard.split import Rows

    if not isinstance(rows, Rows):
        return rows.doc_ids or range(len(rows))
    return range(len(rows)) if rows.digest is None else rows.splits[0].source.values("doc_id")


def recall_by_class(gold_DK: Ints, hits_DK: Ints, *, with_concepts: bool) -> dict[str, Any]:
    """Return `gold`, `hits`, `recall` and `recall_interval` for each class.

    Args:
        gold_DK: `[D, K]`, number of gold mentions.
        hits_DK: `[D, K]`, number of gold mentions that were found.
        with_concepts: Whether to include `synonym`.
    """
    results = {}
    # Resample both at once, so that documents are drawn once.
    gold_samples, hit_samples = np.hsplit(resample(np.hstack([gold_DK, hits_DK])), 2)
    for column, name in enumerate(CLASSES):
        if column == SYNONYM and not with_concepts:
            continue
        gold, hits = int(gold_DK[:, column].sum()), int(hits_DK[:, column].sum())
        recalls = ratio(hit_samples[:, column], gold_samples[:, column])
        results[name] = {
            "gold": gold,
            "hits": hits,
            "recall": float(ratio(hits, gold)),
            "recall_interval": interval(recalls),
        }
    return results


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


def ratio(numerator: Any, denominator: Any) -> npt.NDArray[np.float64]:
    """Divide; 0 where the denominator is 0."""
    denominator = np.asarray(denominator)
    quotient: npt.NDArray[np.float64] = np.divide(
        numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0
    )
    return quotient


def _normalise(text: str) -> str:
    return "".join(text.split()).casefold()


def _split_concepts(concept: str) -> list[str]:
    return [part for part in _BETWEEN_CONCEPTS.split(concept) if part]
