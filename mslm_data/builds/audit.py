"""Compares weak labels with gold mentions of the same text: precision, recall and F1."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.stages import annotator_of, find_inputs, load_annotator
from mslm_data.data.document import SetAside, Span
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError
from mslm_data.pipeline import AnnotateOptions, Pipeline
from mslm_data.shard.manifest import Manifest


@dataclass(slots=True)
class Agreement:
    """Counts of one label.

    Attributes:
        gold: Gold mentions.
        found: Mentions that the annotator found.
        exact: Found mentions that equal a gold one: same label, start and end.
        found_overlapping: Found mentions that share a character with a gold one of the label.
        gold_overlapping: Gold mentions that share a character with a found one of the label.
    """

    gold: int = 0
    found: int = 0
    exact: int = 0
    found_overlapping: int = 0
    gold_overlapping: int = 0

    def scores(self) -> dict[str, float]:
        """Return precision, recall and F1, exact and by overlap; 0 instead of a division by 0."""
        exact = _scores(self.exact, self.found, self.exact, self.gold)
        overlap = _scores(self.found_overlapping, self.found, self.gold_overlapping, self.gold)
        return {f"exact_{name}": value for name, value in exact.items()} | {
            f"overlap_{name}": value for name, value in overlap.items()
        }


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
        theirs = of_gold[label]
        ours = of_found[label]
        agreement.gold += len(theirs)
        agreement.found += len(ours)
        agreement.exact += len(set(ours) & set(theirs))
        agreement.found_overlapping += sum(_overlaps(span, theirs) for span in ours)
        agreement.gold_overlapping += sum(_overlaps(span, ours) for span in theirs)


def _by_label(spans: Sequence[Span]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in spans:
        found[span.label].append((span.start, span.end))
    return found


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Return whether a span shares a character with one of others.

    Args:
        span: Start and end.
        others: Sorted, and not overlapping each other: so only the last one that starts before the
            span's end can reach into it.
    """
    start, end = span
    at = bisect_right(others, end - 1, key=lambda other: other[0]) - 1
    return at >= 0 and others[at][1] > start


def _scores(right_found: int, found: int, right_gold: int, gold: int) -> dict[str, float]:
    precision = right_found / found if found else 0.0
    recall = right_gold / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
