"""Compares weak labels with gold mentions of the same text: precision, recall and F1.

95 % intervals are percentiles of the bootstrap over documents (Efron 1979), which draws as many
documents with replacement and scores them again. Drawing mentions would give intervals that are too
narrow, because mentions of one document are not independent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.annotate import LoadedAnnotator
from mslm_data.annotate.overlaps import flatten
from mslm_data.annotate.relabel import UNWANTED, relabel
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.annotate.terms.term_table import read_terms
from mslm_data.builds.copies import DUPLICATE_ID
from mslm_data.builds.data_loss import (
    Outcome,
    add_up,
    check_labels,
    check_losses,
    check_set_aside,
)
from mslm_data.builds.stages import (
    attempts,
    find_inputs,
    forget_annotator,
    load_annotator,
    make_annotator,
    make_segmenter,
)
from mslm_data.builds.tasks import Unit
from mslm_data.builds.unit import Reader, annotate
from mslm_data.data.counts import in_aside
from mslm_data.data.document import Part, SetAside, Span
from mslm_data.data.documents import Documents, Mentions
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, BuildError, PipelineError
from mslm_data.log import few
from mslm_data.metrics import (
    NEW,
    DocumentTable,
    KnownMentions,
    decode_all,
    interval,
    recall_by_class,
    resample,
)
from mslm_data.pipeline import Pipeline
from mslm_data.segment import Segmenter
from mslm_data.shard.built_folder import load_splits
from mslm_data.shard.manifest import Manifest

Place: TypeAlias = tuple[int, int]
"""Start and end of a mention in characters, half open."""
Floats = npt.NDArray[np.float64]

_LABELS_SHOWN = 20
"""Maximum number of labels in a message."""


class Scores(NamedTuple):
    """Precision, recall and F1, for exact matches and for overlaps; 0 instead of a division by 0.

    Each is a number, or an array with a number per set of counts.
    """

    exact_precision: Any
    exact_recall: Any
    exact_f1: Any
    overlap_precision: Any
    overlap_recall: Any
    overlap_f1: Any


class Agreement:
    """Counts of one label, per document.

    Attributes:
        gold: Number of gold mentions.
        found: Number of found mentions.
        exact: Number of found mentions with the start and end of a gold one.
        found_overlapping: Number of found mentions that share a character with a gold one.
        gold_overlapping: Number of gold mentions that share a character with a found one.
    """

    def __init__(self) -> None:
        self._documents = 0
        self._table = DocumentTable(5)  # the counts in the order above

    def add(
        self,
        gold: Sequence[Place],
        found: Sequence[Place],
        classes: Sequence[int] | None = None,
    ) -> None:
        """Add the flat, sorted mentions of a document.

        Args:
            gold: Gold mentions.
            found: Mentions that the annotator found.
            classes: Index into `metrics.CLASSES` for each gold mention. Default: all are new.
        """
        document = self._documents
        self._documents += 1

        places = set(found)
        of_gold = [(1, 0, place in places, 0, _overlaps(place, found)) for place in gold]
        of_found = [(0, 1, 0, _overlaps(place, gold), 0) for place in found]
        self._table.add([document] * len(gold), NEW if classes is None else classes, of_gold)
        self._table.add([document] * len(found), NEW, of_found)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The counts of each document in the order above, int64 `[D, 5]`."""
        counts: npt.NDArray[np.int64] = self._table.sums(self._documents).sum(axis=1)
        return counts

    def totals(self) -> dict[str, int]:
        """Return the totals of `gold`, `found` and `exact`."""
        gold, found, exact, _, _ = self.counts.sum(axis=0).tolist()
        return {"gold": gold, "found": found, "exact": exact}

    def scores(self) -> dict[str, float]:
        """Return name -> score over all documents; see `Scores`."""
        scores = _scores(self.counts.sum(axis=0))
        return {name: float(value) for name, value in scores._asdict().items()}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Return name -> 95 % interval of the score. The same counts give the same intervals."""
        drawn = _scores(resample(self.counts))
        return {name: interval(values) for name, values in drawn._asdict().items()}

    def unseen(self, *, with_concepts: bool) -> dict[str, dict[str, Any]]:
        """Return exact and overlap recall for each class of gold mentions.

        Args:
            with_concepts: Whether to include the class `synonym`.

        Returns:
            Class -> `gold`, `exact`, and `exact_recall` and `overlap_recall` with their intervals.
        """
        gold, _, exact, _, overlapping = np.moveaxis(self._table.sums(self._documents), -1, 0)
        recalls = recall_by_class(gold, exact, with_concepts=with_concepts)
        by_overlap = recall_by_class(gold, overlapping, with_concepts=with_concepts)
        return {
            name: {
                "gold": recall["gold"],
                "exact": recall["hits"],
                "exact_recall": recall["recall"],
                "exact_recall_interval": recall["recall_interval"],
                "overlap_recall": by_overlap[name]["recall"],
                "overlap_recall_interval": by_overlap[name]["recall_interval"],
            }
            for name, recall in recalls.items()
        }


@dataclass(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        gold: What became of the gold documents and mentions.
        found_left_out: Reason -> number of found mentions that the folder's pipeline leaves out by
            context.
        labels: Label -> its counts.
        with_concepts: Whether both training and gold mentions have concepts.
    """

    gold: Outcome
    found_left_out: Counter[Reason]
    labels: dict[str, Agreement]
    with_concepts: bool


def audit(
    manifest: Manifest,
    weak: Pipeline,
    gold: Pipeline,
    inputs: Sequence[Path],
    *,
    labels: Mapping[str, str],
    train: Sequence[Training] = (),
) -> Audit:
    """Annotate gold documents with the folder's annotator, and compare the mentions.

    Args:
        manifest: Manifest of the folder to audit.
        weak: The pipeline that built the folder, with model files, which the manifest does not
            name. Its annotator finds the mentions. Its segmenter is used only if it leaves out
            mentions by context.
        gold: The pipeline that reads the gold files, with its renamed labels and `max_loss`. The
            mentions of the files are the gold ones, whatever its annotator; "none" ignores them.
        inputs: Gold files or folders.
        labels: Gold label -> the folder's label. Only these labels are compared, because gold may
            not annotate others.
        train: Mentions that the annotator may have learned, to classify gold mentions.

    Raises:
        AnnotateError: A model or table differs from the folder's.
        BuildError: More of the gold is lost than its pipeline allows, it has no mention, or two
            files of a split have the same document id.
        PipelineError: A label is not named by the gold pipeline, and no gold mention has it.
        SourceError: There are no gold documents.
    """
    forget_annotator()
    by_context = bool(weak.annotate.leave_out_context)
    _check_same_models(manifest, weak, by_context=by_context)

    # Read all gold documents first: a corpus with too much loss must not cost a run of the models.
    with _gold_options():
        outcomes, batches = _read_gold(gold, inputs, labels)

    annotator = load_annotator(weak.annotate)
    segmenter = make_segmenter(weak) if by_context else None
    left_out = Counter[Reason]()
    find = partial(_find, annotator=annotator, segmenter=segmenter, weak=weak, left_out=left_out)
    agreements = {label: Agreement() for label in sorted(set(labels.values()))}
    for split, documents in batches:
        refuse = partial(_refuse, outcomes[split])
        for batch, found in attempts(documents, find, "models of the folder", refuse):
            # Gold labels are renamed to the folder's, so that equal labels are compared.
            expected, _ = relabel(batch.mentions, rename=labels, labels=())
            starts = batch.starts
            classes = iter(_classify(expected, batch.line, train))
            for gold_spans, found_spans in zip(
                expected.spans(starts), found.spans(starts), strict=True
            ):
                span_classes = [*islice(classes, len(gold_spans))]
                _compare(gold_spans, found_spans, span_classes, agreements)

    # `_read_gold` has checked the losses of reading; check those of the models.
    with _gold_options():
        for split, outcome in outcomes.items():
            check_set_aside(gold, split, [outcome])
    return Audit(
        gold=add_up(outcomes.values()),
        found_left_out=left_out,
        labels=agreements,
        with_concepts=any(one.known.has_concepts for one in train)
        and any(any(documents.mentions.concepts or ()) for _, documents in batches),
    )


@contextmanager
def _gold_options() -> Iterator[None]:
    """Name the options of `audit` in errors of a build."""
    try:
        yield
    except BuildError as error:
        message = str(error).replace("--set ", "--gold-set ").replace("--input", "--gold")
        raise BuildError(f"audit, --gold: {message}") from None


def _check_same_models(manifest: Manifest, weak: Pipeline, *, by_context: bool) -> None:
    """Check that the models and tables equal the folder's.

    Args:
        manifest: Manifest of the folder.
        weak: The pipeline, with model files.
        by_context: Whether mentions are left out by context, which depends on sentences.
    """
    _check_same_digest(
        manifest.annotator,
        make_annotator(weak).digest(),
        what="the model that made the folder",
        advice="name its files with --set annotate.…",
    )
    if by_context:
        _check_same_digest(
            manifest.segmenter,
            make_segmenter(weak).digest(),
            what="the model that found the folder's sentences",
            advice="name it with --set segment.model=…, as the folder leaves mentions out by their "
            "context in a sentence",
        )


def _check_same_digest(expected: str, got: str, *, what: str, advice: str) -> None:
    """Check that two digests of a model are equal. The digest of a model without files is ""."""
    if got != expected:
        raise AnnotateError(
            f"audit: expected {what} (digest {expected[:16] or 'none'}), got "
            f"{got[:16] or 'none'}; {advice}"
        )


# The gold -----------------------------------------------------------------------------------------


def _read_gold(
    gold: Pipeline, inputs: Sequence[Path], labels: Collection[str]
) -> tuple[dict[str, Outcome], list[tuple[str, Documents]]]:
    """Read the gold documents, with flat mentions of the compared labels.

    They are kept in memory. Gold corpora are small, and a corpus with too much loss must be an
    error before a slow model starts.

    Args:
        gold: See `audit`.
        inputs: See `audit`.
        labels: Gold labels to compare.

    Returns:
        Split -> what became of its documents, and batches of documents with their split.
    """
    compared = replace(
        gold.annotate,
        use="none" if gold.annotate.use == "none" else "gold",
        options={},
        labels=tuple(label for label in gold.annotate.labels if label in labels),
    )
    found = find_inputs(replace(gold, annotate=compared), inputs)
    wanted = replace(found.pipeline, annotate=replace(compared, labels=tuple(labels)))

    outcomes: dict[str, Outcome] = {}
    batches: list[tuple[str, Documents]] = []
    for split in found.files:
        # Read the split like one work unit of a build.
        parts = tuple(Part(str(path)) for path in found.files[split])
        unit = Unit(split, 0, 0, 0, parts, ("",) * len(parts))
        reader = Reader(unit, wanted)
        account = reader.account
        seen: set[str] = set()
        for documents in reader.batches():
            repeated = []
            for number, doc_id in enumerate(documents.ids):
                if doc_id in seen:
                    repeated.append(number)
                seen.add(doc_id)
            kept = account.drop(documents, np.array(repeated, np.int64), DUPLICATE_ID)
            for batch in annotate(kept, account, wanted):
                account.labels |= dict.fromkeys(batch.mentions.used_labels())
                account.doc_labels |= dict.fromkeys(filter(None, batch.doc_labels or ()))
                account.counts.mentions += len(batch.mentions)
                batches.append((split, batch))
        outcomes[split] = account.outcome(unit)

    whole = add_up(outcomes.values())
    present = {*whole.labels, *whole.unwanted}
    check_labels(
        found.pipeline,
        labels=present,
        mentions=whole.counts.given_mentions,
        doc_labels=whole.doc_labels,
        documents=whole.counts.written,
    )
    check_losses(found, {split: [_of_any_label(outcome)] for split, outcome in outcomes.items()})
    _check_labels_exist(labels, present, gold)
    return outcomes, batches


def _of_any_label(outcome: Outcome) -> Outcome:
    """Return an outcome in which mentions that are not compared are not left out.

    Otherwise the labels of the command could leave out all mentions of a small corpus.
    """
    counts = msgspec.structs.replace(outcome.counts, left_out={**outcome.counts.left_out})
    counts.left_out.pop(UNWANTED.text, None)
    labels = [*outcome.labels, *outcome.unwanted]
    return msgspec.structs.replace(outcome, counts=counts, labels=labels, unwanted=[])


def _check_labels_exist(labels: Collection[str], present: Collection[str], gold: Pipeline) -> None:
    """Check that each label is named by the gold pipeline, or is the label of a gold mention.

    Args:
        labels: Gold labels to compare.
        present: Labels of gold mentions.
        gold: The gold pipeline. Labels that it names need not occur in a small corpus.
    """
    unknown = sorted(set(labels) - set(present) - set(gold.annotate.labels))
    if not unknown:
        return

    known = few(sorted(present), _LABELS_SHOWN)
    rename = gold.annotate.rename
    renamed = [f"{label} to {rename[label]}" for label in unknown if label in rename]
    hint = f"; the gold pipeline renames {', '.join(renamed)}" if renamed else ""
    raise PipelineError(
        f"audit: expected --label GOLD=OURS with labels of usable gold mentions "
        f"({known or 'there are none'}), got {', '.join(unknown)}{hint}"
    )


# The folder's annotator ---------------------------------------------------------------------------


def _find(
    documents: Documents,
    annotator: LoadedAnnotator,
    segmenter: Segmenter | None,
    weak: Pipeline,
    left_out: Counter[Reason],
) -> Mentions:
    """Find flat mentions, as the build of the folder did.

    Args:
        documents: Gold documents.
        annotator: The folder's annotator.
        segmenter: The folder's segmenter; None if no mentions are left out by context.
        weak: The folder's pipeline.
        left_out: Reason -> number of mentions left out by context; updated.
    """
    annotate = weak.annotate
    found = annotator.annotate(documents).mentions
    flat, _ = flatten(relabel(found, rename=annotate.rename, labels=annotate.labels)[0])
    if segmenter is None:
        return flat

    from mslm_data.annotate.context import contexts, without  # most folders do not need it

    # A segmenter never splits a mention, so use the found mentions, as in the build, not gold.
    given = documents.with_mentions(flat)
    sentences = segmenter.sentences(given)
    mentions = replace(flat, contexts=contexts(given, sentences))
    kept, in_context = without(mentions, annotate.leave_out_context)
    left_out.update(in_context)
    return kept


def _refuse(outcome: Outcome, document: Documents, reason: Reason) -> None:
    """Set aside a gold document on which the folder's models fail, as a build does.

    Its mentions are given already.
    """
    aside = SetAside(document.ids[0], document.places[0], reason, 0)
    outcome.set_aside.append(aside)
    outcome.counts.written -= 1
    outcome.counts.put_aside(aside)
    outcome.counts.leave_out(in_aside(reason), len(document.mentions))


# Training -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Training:
    """Mentions that an annotator may have learned.

    Attributes:
        known: Texts and concepts of the mentions.
        tokenizer: Tokenizer of their built folder; None for a table of names.
    """

    known: KnownMentions
    tokenizer: tokenizers.Tokenizer | None = None

    def classify(
        self, texts: Sequence[str], concepts: Sequence[str] | None
    ) -> npt.NDArray[np.int8]:
        """Return the class of each gold mention; see `KnownMentions.classify`."""
        if self.tokenizer is None:
            return self.known.classify(texts, concepts)

        # The texts of the folder are decoded tokens, which may lack case, accents and rare
        # characters. Tokenise and decode these texts too.
        encoded = self.tokenizer.encode_batch([*texts], add_special_tokens=False)
        decoded = decode_all([encoding.ids for encoding in encoded], self.tokenizer)
        return self.known.classify(decoded, concepts)


def read_training(path: Path) -> Training:
    """Read the mentions of a built folder, or a table of names.

    Args:
        path: A folder, of which the training split is read, or the only split. Or the folder of
            one split, such as `shards/ncbi/validation`. Or a term table, see `read_terms`.

    Raises:
        AnnotateError: The table is missing, broken or empty.
        ShardError: Not a built folder, or several splits without `train`.
    """
    if not path.is_dir():
        terms = read_terms(path, Terms.types)
        known = KnownMentions()
        known.add((term.name for term in terms), (term.concept for term in terms))
        return Training(known)

    folder, splits = load_splits(path)
    split = folder[splits[0] if len(splits) == 1 else "train"]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Training(KnownMentions.from_rows(split, tokenizer), tokenizer)


def _classify(gold: Mentions, line: str, train: Sequence[Training]) -> list[int]:
    """Return the class of each gold mention, given all training mentions together."""
    starts, ends = gold.starts.tolist(), gold.ends.tolist()
    texts = [line[start:end] for start, end in zip(starts, ends, strict=True)]
    classes = np.full(len(texts), NEW, np.int8)

    # A text or a concept in one source is enough: memorised < synonym < new.
    for training in train:
        classes = np.minimum(classes, training.classify(texts, gold.concepts))
    return classes.tolist()


# The comparison -----------------------------------------------------------------------------------


def _compare(
    gold: Sequence[Span],
    found: Sequence[Span],
    classes: Sequence[int],
    labels: Mapping[str, Agreement],
) -> None:
    """Add a document's flat, sorted mentions, and the classes of gold mentions, to the counts."""
    gold_places = _by_label(gold)
    found_places = _by_label(found)
    for label, agreement in labels.items():
        label_classes = [
            number for span, number in zip(gold, classes, strict=True) if span.label == label
        ]
        agreement.add(gold_places[label], found_places[label], label_classes)


def _by_label(spans: Sequence[Span]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for span in spans:
        found[span.label].append((span.start, span.end))
    return found


def _overlaps(span: Place, others: Sequence[Place]) -> bool:
    """Return whether a span shares a character with another.

    Args:
        span: Start and end, half open.
        others: Sorted spans without overlaps.
    """
    start, end = span
    # Without overlaps, only the last span that starts before `end` can reach into this one.
    at = bisect_right(others, end - 1, key=lambda other: other[0]) - 1
    return at >= 0 and others[at][1] > start


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
