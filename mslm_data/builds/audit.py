"""Compares weak labels with gold mentions of the same text: precision, recall and F1.

95 % intervals are percentiles of the bootstrap over documents (Efron 1979), which draws as many
documents with replacement and scores them again. Drawing mentions would give intervals that are too
narrow, because mentions of one document are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from msgspec import structs

from mslm_data.annotate import LoadedAnnotator
from mslm_data.annotate.relabel import relabel
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.annotate.terms.term_table import read_terms
from mslm_data.builds.copies import DUPLICATE_ID
from mslm_data.builds.data_loss import (
    Outcome,
    add_up,
    check_all_labels,
    check_losses,
    check_set_aside,
    first_places,
    show_labels,
)
from mslm_data.builds.plan import as_one_unit
from mslm_data.builds.stages import (
    Inputs,
    attempts,
    find_inputs,
    forget_annotator,
    load_annotator,
    make_annotator,
    make_segmenter,
)
from mslm_data.builds.tasks import Unit
from mslm_data.builds.unit import Account, Reader, annotate, choose_mentions
from mslm_data.data.documents import Documents, Mentions
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError, BuildError, PipelineError
from mslm_data.metrics import (
    NEW,
    DocumentTable,
    KnownMentions,
    decode_all,
    interval,
    ratio,
    recall_by_class,
    resample,
)
from mslm_data.pipeline import Pipeline
from mslm_data.results import Result, Table
from mslm_data.segment import Segmenter
from mslm_data.shard.built_folder import load_splits
from mslm_data.shard.manifest import Manifest

Ints = npt.NDArray[np.int64]


_SCORES = ("precision", "recall", "f1")
_RECALLS = ("exact_recall", "overlap_recall")
_REASONS_SHOWN = 5
"""Maximum number of printed reasons for documents set aside."""


@dataclass(frozen=True, kw_only=True)
class Audit(Result):
    """The result of an audit.

    Attributes:
        gold: What became of the gold documents and mentions.
        found_left_out: Reason -> number of found mentions that the folder's pipeline leaves out by
            context.
        labels: Label -> its scores, see `score`, and `unseen`, see `score_classes`, if there are
            training mentions.
    """

    gold: Outcome
    found_left_out: Counter[Reason]
    labels: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the counts and scores as plain values."""
        counts = self.gold.counts
        found_left_out = sorted(self.found_left_out.items())
        return {
            "documents": counts.written,
            "set_aside": counts.set_aside,
            "gold_mentions": counts.given_mentions,
            "gold_left_out": counts.left_out,
            "found_left_out": {reason.text: number for reason, number in found_left_out},
            "labels": self.labels,
        }

    def tables(self) -> Iterator[str | Table]:
        """Yield what is not compared, a table of scores, and one of recall by class."""
        yield from self._not_compared()

        rows: list[list[Any]] = []
        for label, scores in self.labels.items():
            for match in ("exact", "overlap"):
                cells = [_cell(scores, f"{match}_{score}") for score in _SCORES]
                rows.append([label, match, scores["gold"], scores["found"], *cells])
        yield Table(rows, head=("label", "match", "gold", "found", *_SCORES))

        # The recall of each class of gold mentions.
        rows = []
        for label, scores in self.labels.items():
            for name, recalls in scores.get("unseen", {}).items():
                cells = [_cell(recalls, recall) for recall in _RECALLS]
                rows.append([label, name, recalls["gold"], *cells])
        if rows:
            head = ("label", "in training", "gold", "exact recall", "overlap recall")
            yield Table(rows, head=head)
        yield "in brackets: 95 % intervals, by the bootstrap over documents"

    def _not_compared(self) -> Iterator[str]:
        """Yield the numbers of documents and mentions that are not compared, by reason."""
        counts = self.gold.counts
        yield f"{counts.written:,} gold documents, {counts.aside:,} set aside"
        first = {reason.text: place for reason, place in first_places(self.gold).items()}
        for reason, number in Counter(counts.set_aside).most_common(_REASONS_SHOWN):
            yield (
                f"{number:,} of {counts.read:,} gold documents set aside: {reason}, first at "
                f"{first[reason]}"
            )
        others = len(counts.set_aside) - _REASONS_SHOWN
        if others > 0:
            yield f"gold documents set aside for {others:,} other reasons are not listed"

        for reason, number in counts.left_out.items():
            yield f"{number:,} of {counts.given_mentions:,} gold mentions left out: {reason}"
        for found, number in sorted(self.found_left_out.items()):
            yield f"{number:,} mentions found and left out, as in the folder: {found}"


def _cell(scores: Mapping[str, Any], name: str) -> str:
    """Return a score with its interval, as text."""
    low, high = scores[f"{name}_interval"]
    return f"{scores[name]:.3f} [{low:.3f}, {high:.3f}]"


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
            not annotate others. If empty, those that the gold and the folder have in common.
        train: Mentions that the annotator may have learned, to classify gold mentions.

    Raises:
        AnnotateError: A model or table differs from the folder's.
        BuildError: More of the gold is lost than its pipeline allows, or it has no mention.
        PipelineError: A label is not named by the gold pipeline, and no gold mention has it. Or
            gold and folder have no label in common.
        SourceError: There are no gold documents.
    """
    forget_annotator()
    by_context = bool(weak.annotate.leave_out_context)
    _check_same_models(manifest, weak, by_context=by_context)

    # Check all gold documents first: a corpus with too much loss must not cost a run of the models.
    use = "none" if gold.annotate.use == "none" else "gold"
    bare = structs.replace(gold, annotate=structs.replace(gold.annotate, use=use, options={}))
    found_inputs = find_inputs(bare, inputs)
    with _gold_options():
        labels = _choose_labels(labels, _check_gold(found_inputs), gold, manifest)
        splits = _read_gold(found_inputs, tuple(labels))

    annotator = load_annotator(weak.annotate)
    segmenter = make_segmenter(weak) if by_context else None
    left_out = Counter[Reason]()
    find = partial(_find, annotator=annotator, segmenter=segmenter, weak=weak, left_out=left_out)
    tables = {label: DocumentTable(5) for label in sorted(set(labels.values()))}
    num_documents = 0
    annotated = chain.from_iterable(
        attempts(documents, find, "models of the folder", split.refuse)
        for split in splits.values()
        for documents in split.batches
    )
    for batch, found in annotated:
        # Gold labels are renamed to the folder's, so that equal labels are compared.
        expected, _ = relabel(batch.mentions, rename=labels, labels=())
        classes = _classify(expected, batch.line, train)
        for label, table in tables.items():
            compare(table, num_documents, expected, found, classes, label)
        num_documents += len(batch)

    # `_check_gold` has checked the losses of reading; check those of the models.
    outcomes = {name: split.outcome() for name, split in splits.items()}
    with _gold_options():
        for name, outcome in outcomes.items():
            check_set_aside(gold, name, [outcome])

    with_concepts = any(one.known.has_concepts for one in train) and any(
        any(batch.mentions.concepts or ()) for split in splits.values() for batch in split.batches
    )
    scores = {}
    for label, table in tables.items():
        counts = table.sums(num_documents)
        scores[label] = score(counts)
        if train:
            scores[label]["unseen"] = score_classes(counts, with_concepts=with_concepts)
    return Audit(gold=add_up(outcomes.values()), found_left_out=left_out, labels=scores)


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
    models = [
        (
            "the model that made the folder",
            manifest.annotator,
            make_annotator(weak).digest(),
            "name its files with --set annotate.…",
        )
    ]
    if by_context:
        models.append(
            (
                "the model that found the folder's sentences",
                manifest.segmenter,
                make_segmenter(weak).digest(),
                "name it with --set segment.model=…, as the folder leaves mentions out by their "
                "context in a sentence",
            )
        )

    for what, expected, got, advice in models:
        if got != expected:
            # The digest of a model without files is "".
            raise AnnotateError(
                f"audit: expected {what} (digest {expected[:16] or 'none'}), got "
                f"{got[:16] or 'none'}; {advice}"
            )


# The gold -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gold:
    """The gold documents of a split, read like a work unit of a build.

    Attributes:
        unit: The work unit.
        account: What became of its documents and mentions.
        batches: Documents with flat mentions. They are kept in memory, as gold corpora are small.
    """

    unit: Unit
    account: Account
    batches: list[Documents]

    def outcome(self) -> Outcome:
        """Return what the split has come to."""
        return self.account.outcome(self.unit)

    def refuse(self, document: Documents, reason: Reason) -> None:
        """Set aside a document on which the folder's models fail, as a build does."""
        self.account.drop(document, np.zeros(1, np.int64), reason, are_annotated=True)
        self.account.counts.mentions -= len(document.mentions)


def _check_gold(found: Inputs) -> Outcome:
    """Check labels and data loss of the gold, as a build does. Return what it has come to.

    All labels are read, as those that are not compared are no loss.

    Raises:
        BuildError: From `check_all_labels` and `check_losses`.
    """
    outcomes = {split: [gold.outcome()] for split, gold in _read_gold(found, ()).items()}
    whole = check_all_labels(found.pipeline, (outcome for (outcome,) in outcomes.values()))
    check_losses(found, outcomes)
    return whole


def _read_gold(found: Inputs, labels: tuple[str, ...]) -> dict[str, _Gold]:
    """Read the gold documents of each split, with mentions of some labels, or of all if empty."""
    pipeline = found.pipeline
    wanted = structs.replace(pipeline, annotate=structs.replace(pipeline.annotate, labels=labels))
    splits = {}
    for split in found.files:
        unit = as_one_unit(found, split)
        reader = Reader(unit, wanted)
        gold = splits[split] = _Gold(unit, reader.account, [])

        seen: set[str] = set()
        for documents in reader.batches():
            repeated = []
            for number, doc_id in enumerate(documents.ids):
                if doc_id in seen:
                    repeated.append(number)
                seen.add(doc_id)
            kept = gold.account.drop(documents, np.array(repeated, np.int64), DUPLICATE_ID)
            for batch in annotate(kept, gold.account, wanted):
                gold.account.labels |= dict.fromkeys(batch.mentions.used_labels())
                gold.account.doc_labels |= dict.fromkeys(filter(None, batch.doc_labels or ()))
                gold.account.counts.mentions += len(batch.mentions)
                gold.batches.append(batch)
    return splits


def _choose_labels(
    labels: Mapping[str, str], read: Outcome, gold: Pipeline, manifest: Manifest
) -> Mapping[str, str]:
    """Return the labels to compare, by default those that the gold and the folder have in common.

    Args:
        labels: Gold label -> the folder's label.
        read: What the gold documents have come to.
        gold: The gold pipeline. Labels that it names need not occur in a small corpus.
        manifest: Manifest of the folder.

    Raises:
        PipelineError: A label does not occur, or none is shared.
    """
    known = {*read.labels, *gold.annotate.labels}
    labels = labels or {label: label for label in manifest.labels if label in known}
    unknown = sorted(labels.keys() - known)
    if labels and not unknown:
        return labels

    present = show_labels(read.labels, read.counts.given_mentions) or "there are none"
    got = ", ".join(unknown) or f"none that the folder has ({', '.join(manifest.labels)})"
    rename = gold.annotate.rename
    renamed = [f"{label} to {rename[label]}" for label in unknown if label in rename]
    hint = f"; the gold pipeline renames {', '.join(renamed)}" if renamed else ""
    raise PipelineError(
        f"audit: expected --label GOLD=OURS with labels of usable gold mentions ({present}), got "
        f"{got}{hint}"
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
    flat, _ = choose_mentions(found, annotate)
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


def _classify(gold: Mentions, line: str, train: Sequence[Training]) -> npt.NDArray[np.int8]:
    """Return the class of each gold mention, given all training mentions together."""
    bounds = zip(gold.starts.tolist(), gold.ends.tolist(), strict=True)
    texts = [line[start:end] for start, end in bounds]
    classes = np.full(len(texts), NEW, np.int8)

    # A text or a concept in one source is enough: memorised < synonym < new.
    for training in train:
        classes = np.minimum(classes, training.classify(texts, gold.concepts))
    return classes


# The comparison -----------------------------------------------------------------------------------

_MATCHES = {"exact": (2, 2), "overlap": (3, 4)}
"""Kind of match -> columns of the found and of the gold mentions that match; see `compare`."""


def compare(
    table: DocumentTable,
    first: int,
    gold: Mentions,
    found: Mentions,
    classes: npt.NDArray[np.int8],
    label: str,
) -> None:
    """Add the counts of a label in a batch of documents to a table.

    They are the number of gold mentions, of found mentions, of gold mentions that are found with
    equal start and end, of found mentions that share a character with a gold one, and of gold
    mentions that share a character with a found one.

    Args:
        table: The table, with 5 counts.
        first: Number of the first document in the table.
        gold: Flat, sorted mentions of all labels.
        found: The same of the annotator.
        classes: Integers `[S]`, index into `metrics.CLASSES` of each gold mention.
        label: The label.
    """
    classes = classes[_has_label(gold, label)]
    gold = gold.choose(np.flatnonzero(_has_label(gold, label)))
    found = found.choose(np.flatnonzero(_has_label(found, label)))

    found_places = {*_places(found)}
    gold_counts = np.zeros((len(gold), 5), np.int64)
    gold_counts[:, 0] = 1
    gold_counts[:, 2] = [place in found_places for place in _places(gold)]
    gold_counts[:, 4] = _overlap(gold, found)
    table.add(first + gold.documents, classes, gold_counts)

    found_counts = np.zeros((len(found), 5), np.int64)
    found_counts[:, 1] = 1
    found_counts[:, 3] = _overlap(found, gold)
    table.add(first + found.documents, NEW, found_counts)


def _has_label(mentions: Mentions, label: str) -> npt.NDArray[np.bool_]:
    return np.array([name == label for name in mentions.names], np.bool_)[mentions.labels]


def _places(mentions: Mentions) -> Iterator[tuple[int, int]]:
    return zip(mentions.starts.tolist(), mentions.ends.tolist(), strict=True)


def _overlap(mentions: Mentions, others: Mentions) -> npt.NDArray[np.bool_]:
    """Return whether each mention shares a character with one of the others; all are flat."""
    # Only the last of the others that starts before a mention ends can reach into it. There is
    # none at -1, so the last end is that of no mention.
    last = np.searchsorted(others.starts, mentions.ends) - 1
    overlaps: npt.NDArray[np.bool_] = np.append(others.ends, -1)[last] > mentions.starts
    return overlaps


def score(counts: Ints) -> dict[str, Any]:
    """Return counts and scores over all documents; a score is 0 if its denominator is.

    Args:
        counts: `[D, K, 5]`, counts of D documents and K classes, see `compare`.

    Returns:
        `gold`, `found` and `exact`, the numbers of mentions; and `precision`, `recall` and `f1` of
            exact matches and of overlaps, such as `overlap_f1`, with their 95 % intervals, such as
            `overlap_f1_interval`. The same counts give the same intervals.
    """
    of_documents = counts.sum(axis=1)
    totals = of_documents.sum(axis=0)
    samples = resample(of_documents)

    gold, found, exact, *_ = totals.tolist()
    scores: dict[str, Any] = {"gold": gold, "found": found, "exact": exact}
    for match, columns in _MATCHES.items():
        drawn = _precision_recall_f1(samples, *columns)
        for name, value in _precision_recall_f1(totals, *columns).items():
            scores[f"{match}_{name}"] = float(value)
            scores[f"{match}_{name}_interval"] = interval(drawn[name])
    return scores


def _precision_recall_f1(counts: Ints, right_found: int, right_gold: int) -> dict[str, Any]:
    """Return the scores of counts, `[..., 5]`."""
    precision = ratio(counts[..., right_found], counts[..., 1])
    recall = ratio(counts[..., right_gold], counts[..., 0])
    f1 = ratio(2 * precision * recall, precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1}


def score_classes(counts: Ints, *, with_concepts: bool) -> dict[str, dict[str, Any]]:
    """Return the recall of each class of gold mentions.

    Args:
        counts: `[D, K, 5]`, counts of D documents and K classes, see `compare`.
        with_concepts: Whether to include the class `synonym`.

    Returns:
        Class -> `gold`, and `hits`, `recall` and `recall_interval` of exact matches and of
            overlaps, such as `exact_hits`.
    """
    classes: dict[str, dict[str, Any]] = {}
    for match, (_, right_gold) in _MATCHES.items():
        recalls = recall_by_class(
            counts[..., 0], counts[..., right_gold], with_concepts=with_concepts
        )
        for name, recall in recalls.items():
            of_class = classes.setdefault(name, {"gold": recall["gold"]})
            for key in ("hits", "recall", "recall_interval"):
                of_class[f"{match}_{key}"] = recall[key]
    return classes
