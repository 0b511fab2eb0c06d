"""Decides when lost data is an error: above the pipeline's maximum, or when no mention is left.

All losses are counted by `Reason`, made by the code that loses a document or mention. A reason says
whether a rule of the pipeline asks for the loss, and which option helps.

Labels that seem to be texts are errors too, because labels are written to the manifest, the card
and messages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple, Protocol

from mslm_data.builds.stages import Inputs, make_source
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER, TO_KEEP, plain
from mslm_data.pipeline import Pipeline
from mslm_data.source.reading import cells

_IN_ASIDE = "in documents set aside: "
"""Prefix of the reason for mentions in documents set aside."""
_FILES_SHOWN = 3
"""Maximum number of files whose columns a message lists."""
_SHOWN = 3
"""Maximum number of reasons in a message."""
_LONGEST_LABEL = 256
"""Maximum number of characters of a label. The longest titles of ICD-10-CM have about 230."""
_LONG_LABEL = 64
"""Labels with more characters must repeat, however few there are."""
_MANY = 20
"""With at least this number of different labels, they must repeat, however short they are."""
_NEARLY_ALL = 0.8
"""Labels repeat if their number is below this share of the documents or mentions that have them."""


class CommandWords(NamedTuple):
    """The words of a command in messages.

    Attributes:
        begin: Prefix of each message. Default: none.
        set: Option that sets an option of the pipeline. Default: `--set`.
        input: Option for the input. Default: `--input`.
        again: How to run the command again.
    """

    begin: str = ""
    set: str = "--set"
    input: str = "--input"
    again: str = "run the same command again"


_BUILD = CommandWords()


class Accounted(Protocol):
    """Counts of documents and mentions, such as the receipt of a work unit."""

    @property
    def read(self) -> int:
        """Number of documents read."""

    @property
    def not_chosen(self) -> Mapping[str, int]:
        """Reason -> number of records outside the corpus."""

    @property
    def set_aside(self) -> Sequence[SetAside]:
        """Unusable documents."""

    @property
    def given_mentions(self) -> int:
        """Number of mentions from the source or annotator."""

    @property
    def lost_mentions(self) -> Counter[Reason]:
        """Reason -> number of mentions in no row."""

    @property
    def labels(self) -> Sequence[str]:
        """Labels of all mentions, including those left out."""

    @property
    def unwanted(self) -> Sequence[str]:
        """Labels whose mentions were left out because the pipeline does not name them."""

    @property
    def doc_labels(self) -> Sequence[str]:
        """Labels of documents."""


def check_losses(
    inputs: Inputs, receipts: Mapping[str, Sequence[Accounted]], *, words: CommandWords = _BUILD
) -> None:
    """Check that the data loss is acceptable, and that documents and mentions are left.

    In each split, at most the share `source.max_loss` of the documents may be set aside, and of the
    source's mentions left out. Losses by a rule of the pipeline do not count. The mentions of
    documents set aside count; if their number is unknown, the mean per document is used.

    Args:
        inputs: The pipeline and its files.
        receipts: Split -> counts of its documents, such as receipts of work units.
        words: Words of the command in messages.

    Raises:
        BuildError: A split lost too much, or no document or no mention is left.
    """
    pipeline = inputs.pipeline
    all_receipts = [receipt for split_receipts in receipts.values() for receipt in split_receipts]
    for split, split_receipts in receipts.items():
        where = f"pipeline '{pipeline.name}', split '{split}'"
        read = sum(receipt.read for receipt in split_receipts)
        aside = check_set_aside(pipeline, split, split_receipts, words=words)

        # Gold mentions are lost with their documents. What an annotator would have found there is
        # unknown.
        if pipeline.annotate.use == "gold":
            given = sum(receipt.given_mentions for receipt in split_receipts)
            in_aside = _mentions_in(aside, given, read=read)
            lost = _lost_mentions(split_receipts) + in_aside
            given += in_aside.total()
            check_share(lost, given, "mentions left out", pipeline, where, words=words)
    _check_documents(all_receipts, words)
    _check_mentions(inputs, all_receipts, words)
    _check_doc_labels(pipeline, all_receipts, words)
    _warn_of_absent_labels(pipeline, all_receipts)


def check_set_aside(
    pipeline: Pipeline, split: str, receipts: Sequence[Accounted], *, words: CommandWords = _BUILD
) -> list[SetAside]:
    """Check the share of documents set aside in a split, and return these documents.

    Args:
        pipeline: The pipeline, with `max_loss`.
        split: Name of the split.
        receipts: Counts of its documents.
        words: Words of the command in messages.

    Raises:
        BuildError: More than the share `source.max_loss` was set aside.
    """
    aside = [document for receipt in receipts for document in receipt.set_aside]
    first: dict[Reason, str] = {}
    for document in aside:
        first.setdefault(document.reason, document.place)
    check_share(
        Counter(document.reason for document in aside),
        sum(receipt.read for receipt in receipts),
        "documents set aside",
        pipeline,
        f"pipeline '{pipeline.name}', split '{split}'",
        first=first,
        words=words,
    )
    return aside


def check_share(
    reasons: Mapping[Reason, int],
    total: int,
    what: str,
    pipeline: Pipeline,
    where: str,
    *,
    first: Mapping[Reason, str] | None = None,
    words: CommandWords = _BUILD,
) -> None:
    """Check that at most the share `source.max_loss` was lost, without losses by rule.

    Args:
        reasons: Reason -> number of losses.
        total: Total number, including losses.
        what: The noun for the message, such as "documents set aside".
        pipeline: The pipeline, with `max_loss`. Its source's options decide the advice.
        where: Prefix of the message.
        first: Reason -> place of its first loss, if known.
        words: Words of the command in messages.

    Raises:
        BuildError: The share is larger. The message has the most frequent reasons, with advice.
    """
    lost = Counter({reason: count for reason, count in reasons.items() if not reason.is_rule})
    # Divide, because a product such as 0.29 * 100 is less than 29.
    if not lost.total() or lost.total() / total <= pipeline.max_loss:
        return

    lines = [
        f"{words.begin}{where}: expected at most {100 * pipeline.max_loss:g}% of the {what} "
        f"(source.max_loss), got {lost.total():,} of {total:,}"
    ]
    # Reasons that differ only in offsets or other numbers share a line.
    alike = _by_code(lost)
    for same in alike[:_SHOWN]:
        reason = next(iter(same))
        line = f"  {same.total():,}: {reason}"
        if len(same) > 1:
            line += ", or other numbers"
        if first and reason in first:
            line += f", first at {plain(first[reason])}"
        helps = _advice(reason, pipeline, words)
        if helps:
            line += f"; {helps}"
        lines.append(line)
    if len(alike) > _SHOWN:
        lines.append(f"  and {len(alike) - _SHOWN} other reason(s)")
    lines.append(
        f"mend it and {words.again}; {words.set} source.max_loss=1 goes on with what is left"
    )
    raise BuildError("\n".join(lines))


def _by_code(reasons: Counter[Reason]) -> list[Counter[Reason]]:
    """Group reasons that differ only in numbers, such as offsets; most frequent first."""
    groups: dict[str, Counter[Reason]] = {}
    for reason, count in reasons.items():
        groups.setdefault(reason.code or reason.text, Counter())[reason] = count
    return sorted(groups.values(), key=Counter.total, reverse=True)


def _advice(reason: Reason, pipeline: Pipeline, words: CommandWords) -> str:
    """Return advice against a loss, if the source has the option for it; otherwise ""."""
    options = {option.name for option in fields(make_source(pipeline))}
    helps = [advice for option, advice in reason.advice.items() if option in options]
    return helps[0].replace("{set}", words.set) if helps else ""


def _lost_mentions(receipts: Iterable[Accounted]) -> Counter[Reason]:
    return sum((receipt.lost_mentions for receipt in receipts), Counter[Reason]())


def _mentions_in(set_aside: Sequence[SetAside], given: int, *, read: int) -> Counter[Reason]:
    """Return reason -> number of mentions in documents set aside for it, without rules.

    Args:
        set_aside: The documents set aside.
        given: Number of mentions in all other documents.
        read: Number of all documents.
    """
    # A record that cannot be read has an unknown number of mentions, given as -1.
    usual = given / max(read - len(set_aside), 1)
    counts: dict[Reason, float] = {}
    for document in set_aside:
        if not document.reason.is_rule:
            mentions = usual if document.mentions < 0 else document.mentions
            counts[document.reason] = counts.get(document.reason, 0) + mentions
    return +Counter(
        {
            replace(reason, text=f"{_IN_ASIDE}{reason}"): math.ceil(count)
            for reason, count in counts.items()
        }
    )


def check_labels(
    pipeline: Pipeline,
    *,
    labels: Collection[str] = (),
    mentions: float = math.inf,
    doc_labels: Collection[str] = (),
    documents: float = math.inf,
    words: CommandWords = _BUILD,
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
        words: Words of the command in messages.

    Raises:
        BuildError: Labels are long, nearly as many as the documents or mentions, or more than
            `MAX_LABELS`.
    """
    where = f"{words.begin}pipeline '{pipeline.name}', [source]"
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
            f"{_label_options(pipeline)}, or choose some with "
            f"{words.set} 'annotate.labels=[...]'"
        )
    if len(labels) > MAX_LABELS:
        raise BuildError(
            f"{words.begin}pipeline '{pipeline.name}': expected at most {MAX_LABELS:,} labels, got "
            f"{len(labels):,}; merge or choose some with [annotate] rename and labels"
        )


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


def _check_documents(receipts: Sequence[Accounted], words: CommandWords) -> None:
    """Check for at least one remaining document, whatever `max_loss` is."""
    aside = [document for receipt in receipts for document in receipt.set_aside]
    read = sum(receipt.read for receipt in receipts)
    if read > len(aside):
        return
    why = f"; the first is {plain(aside[0].place)}: {aside[0].reason}" if aside else ""
    not_chosen = Counter[str]()
    for receipt in receipts:
        not_chosen.update(receipt.not_chosen)
    if not_chosen:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in not_chosen.items())
        why += f"; {not_chosen.total():,} were not chosen: {reasons}"
    raise BuildError(
        f"{words.begin}source: found no usable documents, of {read} read{why}; check {words.input} "
        "and the pipeline's [source]"
    )


def _check_mentions(inputs: Inputs, receipts: Sequence[Accounted], words: CommandWords) -> None:
    """Check for at least one remaining mention, unless the pipeline needs none."""
    pipeline = inputs.pipeline
    annotate = pipeline.annotate
    may_be_bare = inputs.source.without_mentions or pipeline.has_doc_labels
    none_wanted = annotate.use == "none" or (annotate.use == "gold" and may_be_bare)
    given = sum(receipt.given_mentions for receipt in receipts)
    lost = _lost_mentions(receipts)
    read = sum(receipt.read - len(receipt.set_aside) for receipt in receipts)
    if none_wanted or not read or given > lost.total():
        return

    where = f"{words.begin}pipeline '{pipeline.name}'"
    none = f"{words.set} annotate.use=none if none are wanted"
    if not given:
        searched = "in the source" if annotate.use == "gold" else f"by '{annotate.use}'"
        raise BuildError(
            f"{where}: expected mentions, found none {searched} in {read:,} documents; check "
            f"[source]{_columns(inputs)}, or {none}"
        )
    present = _unwanted(receipts)
    if present:
        raise BuildError(
            f"{where}: none of the {given:,} mentions has a label of {_listed(annotate.labels)}; "
            f"they have {present}; choose with {words.set} 'annotate.labels=[...]', or {none}"
        )
    reason, _ = lost.most_common(1)[0]
    raise BuildError(
        f"{where}: all of the {given:,} mentions were left out, most of them for the reason "
        f"'{reason}'; {_advice(reason, pipeline, words) or 'check [source]'}, or {none}"
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


def _check_doc_labels(
    pipeline: Pipeline, receipts: Sequence[Accounted], words: CommandWords
) -> None:
    """Check that a document has a label, if the pipeline reads labels of documents."""
    if pipeline.has_doc_labels and not any(receipt.doc_labels for receipt in receipts):
        column = pipeline.source.options["doc_label"]
        raise BuildError(
            f"{words.begin}pipeline '{pipeline.name}', [source] doc_label: no document has a label "
            f"in column '{column}'; check its name"
        )


def _warn_of_absent_labels(pipeline: Pipeline, receipts: Sequence[Accounted]) -> None:
    """Log a warning for labels of the pipeline that no mention has: they may be misspelt."""
    present = {label for receipt in receipts for label in receipt.labels}
    absent = [label for label in pipeline.annotate.labels if label not in present]
    if absent:
        unwanted = _unwanted(receipts)
        LOGGER.warning(
            "pipeline '%s': no mention has the label %s; %scheck annotate.labels and "
            "annotate.rename",
            pipeline.name,
            _listed(absent),
            f"mentions that are left out have {unwanted}; " if unwanted else "",
            extra=TO_KEEP,
        )


def _unwanted(receipts: Sequence[Accounted]) -> str:
    """Return the labels missing in the pipeline, for a message."""
    unwanted = {label for receipt in receipts for label in receipt.unwanted}
    given = sum(receipt.given_mentions for receipt in receipts)
    if seem_texts(unwanted, given):
        return f"labels that are not shown, as they seem to be texts ({_shape(unwanted, given)})"
    return _listed(unwanted)


def _listed(labels: Iterable[str]) -> str:
    """Return labels for a message, sorted and without duplicates."""
    return ", ".join(f"'{plain(label)}'" for label in sorted(set(labels)))
