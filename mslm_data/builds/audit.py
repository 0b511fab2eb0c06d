"""Compares weak labels with gold mentions of the same text: precision, recall and F1.

Their 95 % intervals are percentiles of the bootstrap over documents (Efron 1979): documents are
drawn with replacement, as many as there are, and scored anew. Mentions of one document are not
independent of each other, so drawing mentions would give intervals that are too narrow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.stages import annotator_of, find_inputs, forget_annotator, load_annotator
from mslm_data.data.document import SetAside, Span
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError
from mslm_data.pipeline import AnnotateOptions, Pipeline
from mslm_data.shard.manifest import Manifest

Place: TypeAlias = tuple[int, int]
"""Start and end of a mention, half open."""
Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
"""Times that the documents are drawn for an interval."""
_SEED = 0
_LEVEL = 0.95
_AT_ONCE = 1 << 22
"""Draws of documents that are held at once."""


class Scores(NamedTuple):
    """Precision, recall and F1, exact and by overlap; 0 instead of a division by 0.

    Each is one number, or a number for each of several counts.
    """

    exact_precision: Any
    exact_recall: Any
    exact_f1: Any
    overlap_precision: Any
    overlap_recall: Any
    overlap_f1: Any


class Agreement:
    """Counts of one label, in each document.

    Attributes:
        gold: Gold mentions.
        found: Mentions that the annotator found.
        exact: Found mentions that equal a gold one: same label, start and end.
        found_overlapping: Found mentions that share a character with a gold one of the label.
        gold_overlapping: Gold mentions that share a character with a found one of the label.
    """

    def __init__(self) -> None:
        self._of_documents: list[tuple[int, int, int, int, int]] = []

    def add(self, gold: Sequence[Place], found: Sequence[Place]) -> None:
        """Add a document's mentions, flat and sorted: those that it has and those found."""
        self._of_documents.append(
            (
                len(gold),
                len(found),
                len(set(found) & set(gold)),
                sum(_overlaps(span, gold) for span in found),
                sum(_overlaps(span, found) for span in gold),
            )
        )

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Return the counts above in that order, of each document, `[D, 5]`."""
        return np.array(self._of_documents, np.int64).reshape(-1, 5)

    def totals(self) -> dict[str, int]:
        """Return the first three counts of all documents together."""
        gold, found, exact, _, _ = self.counts.sum(axis=0).tolist()
        return {"gold": gold, "found": found, "exact": exact}

    def scores(self) -> dict[str, float]:
        """Return the scores of all documents together, by their names in `Scores`."""
        scores = _scores(self.counts.sum(axis=0))
        return {name: float(value) for name, value in scores._asdict().items()}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % interval of each score, the same at each call."""
        drawn = _scores(_resampled(self.counts))
        tail = (1 - _LEVEL) / 2
        bounds = {
            name: np.quantile(values, [tail, 1 - tail]) for name, values in drawn._asdict().items()
        }
        return {name: (float(low), float(high)) for name, (low, high) in bounds.items()}


@dataclass(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        documents: Gold documents annotated.
        set_aside: Gold records that could not be read.
        labels: Label -> counts.
    """

    documents: int = 0
    set_aside: int = 0
    labels: dict[str, Agreement] = field(default_factory=dict)


def audit(
    manifest: Manifest,
    annotate: AnnotateOptions,
    gold: Pipeline,
    inputs: Sequence[Path],
    *,
    labels: Mapping[str, str],
) -> Audit:
    """Annotate the gold documents' own text as the folder's was, and compare.

    Args:
        manifest: Of the folder whose labels are audited.
        annotate: Its annotator, with the files that the manifest does not hold.
        gold: Says how the gold files are read and their labels renamed.
        inputs: Gold files or folders.
        labels: Gold label -> the folder's label; only these are compared, as gold says nothing of
            others.

    Raises:
        AnnotateError: The annotator is not the one that made the folder.
        SourceError: No gold documents there.
    """
    forget_annotator()
    digest = annotator_of(replace(gold, annotate=annotate)).digest()
    if digest != manifest.annotator:
        raise AnnotateError(
            f"audit: expected the model that made the folder (digest {manifest.annotator[:16]}), "
            f"got {digest[:16]}; name its files with --set annotate.…"
        )

    result = Audit(labels={label: Agreement() for label in sorted(set(labels.values()))})
    annotator = load_annotator(annotate)
    for documents in _batches(gold, inputs, result):
        given, _ = relabel(documents.mentions, rename=gold.annotate.rename, labels=tuple(labels))
        expected, _ = flatten(relabel(given, rename=labels, labels=())[0])

        found = annotator.annotate(documents).mentions
        weak, _ = flatten(relabel(found, rename=annotate.rename, labels=manifest.labels)[0])
        starts = documents.starts
        for theirs, ours in zip(expected.spans(starts), weak.spans(starts), strict=True):
            _compare(theirs, ours, result.labels)
    return result


def _batches(gold: Pipeline, inputs: Sequence[Path], result: Audit) -> Iterator[Documents]:
    """Give the gold documents some at a time, and count them and those set aside."""
    found = find_inputs(gold, inputs)
    for split in found.files:
        for record in found.batches(split):
            if isinstance(record, Documents):
                result.documents += len(record)
                yield record
            elif isinstance(record, SetAside):
                result.set_aside += 1


def _compare(gold: Sequence[Span], found: Sequence[Span], labels: Mapping[str, Agreement]) -> None:
    """Add one document's flat, sorted mentions to the counts."""
    of_gold = _by_label(gold)
    of_found = _by_label(found)
    for label, agreement in labels.items():
        agreement.add(of_gold[label], of_found[label])


def _by_label(spans: Sequence[Span]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for span in spans:
        found[span.label].append((span.start, span.end))
    return found


def _overlaps(span: Place, others: Sequence[Place]) -> bool:
    """Return whether a span shares a character with one of others.

    Args:
        span: Start and end.
        others: Sorted, and not overlapping each other: so only the last one that starts before the
            span's end can reach into it.
    """
    start, end = span
    at = bisect_right(others, end - 1, key=lambda other: other[0]) - 1
    return at >= 0 and others[at][1] > start


def _resampled(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the total counts of each resample, `[RESAMPLES, 5]`, of those of documents."""
    num = len(counts)
    if not num:
        return np.zeros((RESAMPLES, counts.shape[1]), np.int64)

    rng = np.random.default_rng(_SEED)
    rows = max(_AT_ONCE // num, 1)
    parts = []
    for start in range(0, RESAMPLES, rows):
        drawn = rng.integers(0, num, (min(rows, RESAMPLES - start), num))
        parts.append(np.stack([of_one[drawn].sum(axis=1) for of_one in counts.T], axis=1))
    return np.concatenate(parts)


def _scores(counts: npt.NDArray[np.int64]) -> Scores:
    """Return the scores of counts, `[..., 5]`."""
    gold, found, exact, found_overlapping, gold_overlapping = np.moveaxis(counts, -1, 0)
    return Scores(
        *_precision_recall_f1(exact, found, exact, gold),
        *_precision_recall_f1(found_overlapping, found, gold_overlapping, gold),
    )


def _precision_recall_f1(
    right_found: Any, found: Any, right_gold: Any, gold: Any
) -> tuple[Floats, Floats, Floats]:
    precision = right_found / np.maximum(found, 1)
    recall = right_gold / np.maximum(gold, 1)
    together = precision + recall
    f1 = 2 * precision * recall / np.where(together > 0, together, 1)
    return precision, recall, f1
