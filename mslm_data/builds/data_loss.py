"""Decides when lost data is an error: above the pipeline's maximum, or when no mention is left.

All losses are counted by `Reason`, made by the code that loses a document or mention. A reason says
whether a rule of the pipeline asks for the loss, and which option helps.

Labels that seem to be texts are errors too, because labels are written to the manifest, the card
and messages.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from mslm_data.builds.stages import Inputs, make_source
from mslm_data.data.accounts import Counts, in_aside
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER, TO_KEEP, few, plain
from mslm_data.pipeline import Pipeline
from mslm_data.source.reading import cells
from mslm_data.source.reading.word_documents import LATE

_FILES_SHOWN = 3
"""Maximum number of files whose columns a message lists."""
_SHOWN = 3
"""Maximum number of reasons in a message."""
_LABELS_SHOWN = 20
"""Maximum number of labels in a message."""
_LONGEST_LABEL = 256
"""Maximum number of characters of a label. The longest titles of ICD-10-CM have about 230."""
_LONG_LABEL = 64
"""Labels with more characters must repeat, however few there are."""
_MANY = 20
"""With at least this number of different labels, they must repeat, however short they are."""
_ENOUGH = 20
"""Minimum number of documents of a split, and of mentions beside it, for a split without mentions
to be a question."""
_TAGS = re.compile(r"[BIESLU][-_](?P<after>.+)\Z|(?P<before>.+)[-_][BIESLU]\Z")
"""Labels that look like tags, if another label differs in the prefix alone."""
_SEVERAL_TAGS = re.compile(r"[,;|/+ ][BI][-_]")
_MANY_LATE = 0.05
"""Maximum share of mentions that begin with a continuing tag, whatever `max_loss` is."""
_NEARLY_ALL = 0.8
"""Labels repeat if their number is below this share of the documents or mentions that have them."""


class Outcome(msgspec.Struct, kw_only=True):
    """The counts, losses and labels of a work unit, a split, or the gold documents of an audit.

    Attributes:
        counts: Counts of documents and mentions.
        set_aside: The documents set aside, in the order of the input.
        labels: Labels of mentions that are in rows.
        unwanted: Labels whose mentions were left out because the pipeline does not name them.
        doc_labels: Labels of documents.
    """

    counts: Counts
    set_aside: list[SetAside]
    labels: list[str]
    unwanted: list[str]
    doc_labels: list[str]


def add_up(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome of several together. Labels are sorted."""
    listed = [*outcomes]
    return Outcome(
        counts=sum((outcome.counts for outcome in listed), Counts()),
        set_aside=[*chain.from_iterable(outcome.set_aside for outcome in listed)],
        labels=_distinct(outcome.labels for outcome in listed),
        unwanted=_distinct(outcome.unwanted for outcome in listed),
        doc_labels=_distinct(outcome.doc_labels for outcome in listed),
    )


def _distinct(labels: Iterable[Sequence[str]]) -> list[str]:
    return sorted(set(chain.from_iterable(labels)))


# Losses -------------------------------------------------------------------------------------------


def check_losses(inputs: Inputs, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """Check that the data loss is acceptable, and that documents and mentions are left.

    In each split, at most the share `source.max_loss` of the documents may be set aside, and of the
    source's mentions left out. Losses by a rule of the pipeline do not count. The mentions of
    documents set aside count; if their number is unknown, the mean per document is used.

    Args:
        inputs: The pipeline and its files.
        outcomes: Split -> outcomes of its work units.

    Raises:
        BuildError: A split lost too much, or no document or no mention is left.
    """
    pipeline = inputs.pipeline
    for split, split_outcomes in outcomes.items():
        check_set_aside(pipeline, split, split_outcomes)
        # What an annotator would have found in documents set aside is unknown.
        if pipeline.annotate.use == "gold":
            _check_left_out(pipeline, split, split_outcomes)

    whole = add_up(chain.from_iterable(outcomes.values()))
    _check_documents(pipeline, whole)
    _check_mentions(inputs, whole)
    if pipeline.annotate.use == "gold":
        _check_tags(pipeline, whole)
        _check_late_tags(pipeline, whole.counts)
        _check_bare_splits(inputs, outcomes)
    _check_doc_labels(pipeline, whole)
    _warn_of_absent_labels(pipeline, whole)


def check_set_aside(pipeline: Pipeline, split: str, outcomes: Sequence[Outcome]) -> None:
    """Check the share of documents set aside in a split.

    Args:
        pipeline: The pipeline, with `max_loss`.
        split: Name of the split.
        outcomes: Outcomes of its work units.

    Raises:
        BuildError: More than the share `source.max_loss` was set aside.
    """
    whole = add_up(outcomes)
    lost = Counter(document.reason for document in whole.set_aside)
    read = whole.counts.read
    _check_share(pipeline, split, "documents set aside", lost, read, first_places(whole))


def _check_left_out(pipeline: Pipeline, split: str, outcomes: Sequence[Outcome]) -> None:
    """Check the share of gold mentions left out in a split."""
    counts = sum((outcome.counts for outcome in outcomes), Counts())
    lost = _by_reason(counts, counts.left_out)
    total = counts.given_mentions

    # Documents that could not be read have an unknown number of mentions. Assume the usual one.
    uncounted = _by_reason(counts, counts.uncounted)
    usual = total / max(counts.read - sum(uncounted.values()), 1)
    for reason, documents in uncounted.items():
        mentions = math.ceil(usual * documents)
        if not reason.is_rule:
            lost[in_aside(reason)] += mentions
            total += mentions

    _check_share(pipeline, split, "mentions left out", +lost, total, {})


def _by_reason(counts: Counts, losses: Mapping[str, int]) -> Counter[Reason]:
    return Counter({counts.reasons[text]: number for text, number in losses.items()})


def first_places(outcome: Outcome) -> dict[Reason, str]:
    """Return reason -> place of the first document set aside for it."""
    return {document.reason: document.place for document in reversed(outcome.set_aside)}


def _check_share(
    pipeline: Pipeline,
    split: str,
    what: str,
    losses: Mapping[Reason, int],
    total: int,
    first: Mapping[Reason, str],
) -> None:
    """Check that at most the share `source.max_loss` was lost, without losses by rule.

    Args:
        pipeline: The pipeline, with `max_loss`. Its source's options decide the advice.
        split: Name of the split.
        what: The noun for the message, such as "documents set aside".
        losses: Reason -> number of losses.
        total: Total number, including losses.
        first: Reason -> place of its first loss, if known.

    Raises:
        BuildError: The share is larger. The message has the most frequent reasons, with advice.
    """
    lost = {reason: number for reason, number in losses.items() if not reason.is_rule}
    number = sum(lost.values())
    # Divide, because a product such as 0.29 * 100 is less than 29.
    if not number or number / total <= pipeline.source.max_loss:
        return

    raise BuildError(
        f"pipeline '{pipeline.name}', split '{split}': expected at most "
        f"{100 * pipeline.source.max_loss:g}% of the {what} (source.max_loss), got {number:,} of "
        f"{total:,}{_list_losses(pipeline, lost, first)}\nmend it and run the same command again"
        + ("; --set source.max_loss=1 goes on with what is left" if number < total else "")
    )


def _list_losses(
    pipeline: Pipeline, losses: Mapping[Reason, int], first: Mapping[Reason, str]
) -> str:
    """Return a line for each of the most frequent reasons, with its first place and advice."""
    # Reasons that differ only in offsets or other numbers share a line.
    numbers = Counter[str]()
    examples: dict[str, Reason] = {}
    for reason, number in losses.items():
        code = reason.code or reason.text
        numbers[code] += number
        examples.setdefault(code, reason)

    lines = [""]
    for code, number in numbers.most_common(_SHOWN):
        reason = examples[code]
        line = f"  {number:,}: {reason}"
        if number > losses[reason]:
            line += ", or other numbers"
        if reason in first:
            line += f", first at {plain(first[reason])}"
        advice = _advice(pipeline, reason)
        if advice:
            line += f"; {advice}"
        lines.append(line)
    if len(numbers) > _SHOWN:
        lines.append(f"  and {len(numbers) - _SHOWN} other reason(s)")
    return "\n".join(lines)


def _advice(pipeline: Pipeline, reason: Reason) -> str:
    """Return advice against a loss, if the source has the option for it; otherwise ""."""
    options = make_source(pipeline).__struct_fields__
    advice = [text for option, text in reason.advice.items() if option in options]
    return advice[0].replace("{set}", "--set") if advice else ""


# What is left -------------------------------------------------------------------------------------


def _check_documents(pipeline: Pipeline, whole: Outcome) -> None:
    """Check for at least one remaining document, whatever `max_loss` is."""
    counts = whole.counts
    if counts.written:
        return

    lost = Counter(document.reason for document in whole.set_aside)
    lines = _list_losses(pipeline, lost, first_places(whole))
    for reason, records in counts.not_chosen.items():
        lines += f"\n  {records:,} not chosen: {reason}"
    raise BuildError(
        f"source: found no usable documents, of {counts.read:,} read; check --input and the "
        f"pipeline's [source]{lines}"
    )


def _check_mentions(inputs: Inputs, whole: Outcome) -> None:
    """Check for at least one remaining mention, unless the pipeline needs none."""
    pipeline = inputs.pipeline
    annotate = pipeline.annotate
    counts = whole.counts
    may_be_bare = inputs.source.without_mentions or pipeline.has_doc_labels
    none_wanted = annotate.use == "none" or (annotate.use == "gold" and may_be_bare)
    lost = _by_reason(counts, counts.left_out)
    given = counts.given_mentions
    if none_wanted or not counts.written or given > sum(lost.values()):
        return

    present = show_labels(whole.unwanted, given)
    if not given:
        searched = "in the source" if annotate.use == "gold" else f"by '{annotate.use}'"
        problem = (
            f"expected mentions, found none {searched} in {counts.written:,} documents; check "
            f"[source]{_columns(inputs)}"
        )
    elif present:
        problem = (
            f"none of the {given:,} mentions has a label of {_list(annotate.labels)}; they have "
            f"{present}; choose with --set 'annotate.labels=[...]'"
        )
    else:
        problem = f"all of the {given:,} mentions were left out; check [source]"
    raise BuildError(
        f"pipeline '{pipeline.name}': {problem}, or --set annotate.use=none if none are wanted"
        f"{_list_losses(pipeline, lost, {})}"
    )


def _check_tags(pipeline: Pipeline, whole: Outcome) -> None:
    """Ask about labels that look like tags, whatever format the corpus has.

    Raises:
        BuildError: Says how to accept them.
    """
    matches = filter(None, map(_TAGS.match, whole.labels))
    stems = Counter(match["after"] or match["before"] for match in matches)
    are_tags = any(number > 1 for number in stems.values()) or any(
        map(_SEVERAL_TAGS.search, whole.labels)
    )
    if are_tags and not pipeline.annotate.labels:
        is_short = len(whole.labels) <= _LABELS_SHOWN
        labels = json.dumps(whole.labels, ensure_ascii=False) if is_short else "[...]"
        raise BuildError(
            f"pipeline '{pipeline.name}': expected labels of mentions, got labels that look like "
            f"tags, {show_labels(whole.labels, whole.counts.given_mentions)}; check [source]"
            f"{_label_options(pipeline)}, or accept them with --set 'annotate.labels={labels}'"
        )


def _check_late_tags(pipeline: Pipeline, counts: Counts) -> None:
    """Ask about many mentions that begin with a continuing tag: they may be of another scheme.

    Raises:
        BuildError: Says how to accept them.
    """
    late = counts.adjusted.get(LATE, 0)
    given = counts.given_mentions
    if given >= _ENOUGH and late > max(_MANY_LATE, pipeline.source.max_loss) * given:
        raise BuildError(
            f"pipeline '{pipeline.name}': {late:,} of {given:,} mentions begin with I or another "
            "tag that continues a mention, so tags may be of another scheme or column; check "
            "[source], or accept them with --set source.max_loss=1"
        )


def _check_bare_splits(inputs: Inputs, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """Ask about a split without mentions beside one with many, as its tags may be masked.

    Raises:
        BuildError: Says how to leave it out, and how to accept it.
    """
    pipeline = inputs.pipeline
    counts = {
        split: sum((outcome.counts for outcome in listed), Counts())
        for split, listed in outcomes.items()
    }
    full = [split for split, found in counts.items() if found.given_mentions >= _ENOUGH]
    bare = [
        split
        for split, found in counts.items()
        if found.written >= _ENOUGH and not found.given_mentions
    ]
    if not full or not bare or pipeline.source.max_loss == 1:
        return

    names = {
        split: [f"*{path.name}" for path in paths[:_FILES_SHOWN]]
        for split, paths in inputs.files.items()
        if split not in bare
    }
    listed = ", ".join(f"{split} = {patterns}" for split, patterns in names.items())
    raise BuildError(
        f"pipeline '{pipeline.name}', split '{bare[0]}': found no mention in "
        f"{counts[bare[0]].written:,} documents, beside {counts[full[0]].given_mentions:,} in "
        f"split '{full[0]}'; if they are masked, leave the split out with [source] splits, such "
        f"as splits = {{ {listed} }}, else accept it with --set source.max_loss=1"
    )


def _columns(inputs: Inputs) -> str:
    """Return the column names of the first files, for a message; "" if there are none."""
    paths = next(iter(inputs.files.values()), [])
    names = dict.fromkeys(
        name
        for path in paths[:_FILES_SHOWN]
        for name in inputs.source.list_columns(path)
        if cells.can_be_shown(name)
    )
    return f", {inputs.source.columns_noun} there are {', '.join(names)}" if names else ""


def _check_doc_labels(pipeline: Pipeline, whole: Outcome) -> None:
    """Check that a document has a label, if the pipeline reads labels of documents."""
    if pipeline.has_doc_labels and not whole.doc_labels:
        column = pipeline.source.options["doc_label"]
        raise BuildError(
            f"pipeline '{pipeline.name}', [source] doc_label: no document has a label in column "
            f"'{column}'; check its name"
        )


def _warn_of_absent_labels(pipeline: Pipeline, whole: Outcome) -> None:
    """Log a warning for labels of the pipeline that no mention in the rows has."""
    absent = {*pipeline.annotate.labels}.difference(whole.labels)
    if absent:
        unwanted = show_labels(whole.unwanted, whole.counts.given_mentions)
        LOGGER.warning(
            "pipeline '%s': no mention that is kept has the label %s; %scheck annotate.labels and "
            "annotate.rename",
            pipeline.name,
            _list(absent),
            f"mentions that are left out have {unwanted}; " if unwanted else "",
            extra=TO_KEEP,
        )


# Labels -------------------------------------------------------------------------------------------


def check_labels(
    pipeline: Pipeline,
    *,
    labels: Collection[str] = (),
    mentions: float = math.inf,
    doc_labels: Collection[str] = (),
    documents: float = math.inf,
) -> None:
    """Check that labels are not texts, for example because the option names the wrong column.

    They must also be few enough for the columns. Long labels, or labels that hardly repeat, are
    probably texts. Labels of mentions are not checked for this if the pipeline lists them in
    `annotate.labels`, or does not use gold mentions.

    Args:
        pipeline: The pipeline.
        labels: Labels of mentions, without duplicates.
        mentions: Number of mentions with a label. Default: infinite, for unknown.
        doc_labels: Labels of documents, without duplicates.
        documents: Number of documents with a label. Default: infinite, for unknown.

    Raises:
        BuildError: Labels are long, nearly as many as the documents or mentions, or more than
            `MAX_LABELS`.
    """
    where = f"pipeline '{pipeline.name}', [source]"
    if seem_texts(doc_labels, documents) or len(doc_labels) > MAX_LABELS:
        column = plain(str(pipeline.source.options.get("doc_label", "")))
        raise BuildError(
            f"{where} doc_label: expected labels of documents that are short and repeat, at most "
            f"{MAX_LABELS:,}, got {_shape(doc_labels, documents)}; name the column of labels in "
            f"place of '{column}'"
        )
    are_free = pipeline.annotate.use == "gold" and not pipeline.annotate.labels
    if are_free and seem_texts(labels, mentions):
        raise BuildError(
            f"{where}: expected labels of mentions that are short and repeat, got "
            f"{_shape(labels, mentions)}; name the column or field of labels"
            f"{_label_options(pipeline)}, or choose some with --set 'annotate.labels=[...]'"
        )
    if len(labels) > MAX_LABELS:
        raise BuildError(
            f"pipeline '{pipeline.name}': expected at most {MAX_LABELS:,} labels, got "
            f"{len(labels):,}; merge or choose some with [annotate] rename and labels"
        )


def check_all_labels(pipeline: Pipeline, outcomes: Iterable[Outcome]) -> Outcome:
    """Check the labels of a corpus by how often they repeat in it, and return its outcome.

    Raises:
        BuildError: From `check_labels`.
    """
    whole = add_up(outcomes)
    check_labels(
        pipeline,
        labels=whole.labels,
        mentions=whole.counts.given_mentions,
        doc_labels=whole.doc_labels,
        documents=whole.counts.written,
    )
    return whole


def show_labels(labels: Collection[str], items: float) -> str:
    """Return labels for a message, or their number if they seem to be texts; see `seem_texts`."""
    if seem_texts(labels, items):
        return f"labels that are not shown, as they seem to be texts ({_shape(labels, items)})"
    return _list(labels)


def _list(labels: Collection[str]) -> str:
    return few([f"'{plain(label)}'" for label in sorted(labels)], _LABELS_SHOWN)


def seem_texts(labels: Collection[str], items: float) -> bool:
    """Return whether labels seem to be texts: long, or hardly ever repeated.

    Args:
        labels: Labels, without duplicates.
        items: Number of documents or mentions with a label.
    """
    longest = max(map(len, labels), default=0)
    if longest > _LONGEST_LABEL:
        return True
    must_repeat = len(labels) >= _MANY or (len(labels) > 1 and longest > _LONG_LABEL)
    return must_repeat and len(labels) >= _NEARLY_ALL * items


def _shape(labels: Collection[str], items: float) -> str:
    """Describe the number and maximum length of labels, without showing one."""
    places = "" if math.isinf(items) else f" in {items:,} places"
    return f"{len(labels):,}{places}, of up to {max(map(len, labels)):,} characters"


def _label_options(pipeline: Pipeline) -> str:
    """Return the label options set for the source, for a message."""
    given = {
        name: value
        for name, value in pipeline.source.options.items()
        if ("label" in name or "tag" in name) and isinstance(value, str | int) and value
    }
    listed = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    return f" in place of {plain(listed)}" if listed else ""
