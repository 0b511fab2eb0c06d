"""Refuses a build that loses more of its input than the pipeline allows, or finds no mention.

It also refuses labels that are texts: labels stand in the manifest, the card and messages.

Every loss is counted anyway. Here is decided which losses nobody can have wanted, and which option
would help.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple, Protocol

from mslm_data.annotate import overlaps, relabel
from mslm_data.builds import duplicates, leave_out
from mslm_data.builds.stages import Inputs
from mslm_data.data import context
from mslm_data.data.document import SetAside
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER, TO_KEEP, plain
from mslm_data.pipeline import Pipeline
from mslm_data.source import Source
from mslm_data.source.reading import cells, standoff
from mslm_data.source.reading.records import WITHDRAWN

RULES = frozenset(
    {
        relabel.UNWANTED,
        *overlaps.REASONS,
        *standoff.BY_RULE,
        *leave_out.RULES,
        *duplicates.RULES,
        *context.REASONS.values(),
        WITHDRAWN,
    }
)
"""Reasons that are not losses: rules of the pipeline, or of the corpus itself."""
_IN_ASIDE = "in documents set aside: "
"""Stands before the reason of a document in that of its mentions."""
_FILES_SHOWN = 3
"""Files whose columns a message names."""
_SHOWN = 3
"""Reasons that a message names."""
_NUMBER = re.compile(r"\d+")
_LONGEST_LABEL = 256
"""Most characters of a label: the longest titles of ICD-10-CM have some 230."""
_LONG_LABEL = 64
"""Labels that are longer have to repeat, however few there are."""
_MANY = 20
"""So many labels and more have to repeat, however short they are."""
_NEARLY_ALL = 0.8
"""Labels repeat where there are fewer than this share of what has them."""


class Accounted(Protocol):
    """An account of documents that were read, such as the receipt of a work unit."""

    @property
    def read(self) -> int:
        """Documents of the corpus that was asked for."""

    @property
    def not_chosen(self) -> Mapping[str, int]:
        """Reason -> records outside that corpus."""

    @property
    def set_aside(self) -> Sequence[SetAside]:
        """Documents that cannot be used."""

    @property
    def given_mentions(self) -> int:
        """Mentions that the source or the annotator gave."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Reason -> mentions that are in no row."""

    @property
    def labels(self) -> Sequence[str]:
        """The labels of its mentions, before any was left out."""

    @property
    def unwanted(self) -> Sequence[str]:
        """The labels of mentions that were left out because of them."""

    @property
    def doc_labels(self) -> Sequence[str]:
        """The labels of its documents."""


class _Advice(NamedTuple):
    """The options that help against a loss.

    Attributes:
        begins: How the reasons begin.
        option: An option of those sources that the advice is for.
        words: What to do.
    """

    begins: tuple[str, ...]
    option: str
    words: str


_ADVICE = (
    _Advice(
        (
            "expected an id that no document before it has",
            "expected an id in column",
            "expected an id of at most",
        ),
        "id_column",
        "name the column of the id with source.id_column, or number documents with "
        "--set source.id_column=''",
    ),
    _Advice(
        ("expected an id that no document before it has",),
        "ids",
        "--set source.ids=line if they are different documents of one PMID",
    ),
    _Advice(
        ("expected a text in column", "expected columns tokens", "expected a task whose data"),
        "text_column",
        "name the column of the text with source.text_column",
    ),
    _Advice(
        (standoff.OTHER_TEXT,),
        "text_column",
        "choose the text that is read with source.text_column",
    ),
    _Advice(
        ("expected UTF-8",),
        "encoding",
        "say the encoding, such as --set source.encoding=latin-1",
    ),
    _Advice(
        ("expected a record with as many columns",),
        "separator",
        "say what stands between columns with source.separator",
    ),
    _Advice(
        ("expected an error flag",),
        "error_column",
        "name the column of the flag with source.error_column, or --set source.error_column='' "
        "if notes have none",
    ),
    _Advice(
        ("expected a note that says whose it is",),
        "patient_column",
        "name the column of the patient with source.patient_column, or --set "
        "source.patient_column='' and source.patient_pattern to find the patient in the id",
    ),
    _Advice(
        ("expected a tag in column", "expected a token and a tag"),
        "tag_column",
        "say which column has the tags with source.tag_column",
    ),
    _Advice(
        ("expected a list of mentions in column",),
        "mentions_column",
        "--set source.doc_label=… with that name if it holds a label of each document, or say "
        "where mentions stand with source.mentions_column",
    ),
    _Advice(
        ("expected integers from 0",),
        "tag_names",
        "say what tags are called with source.tag_names",
    ),
    _Advice(
        ("expected a file of annotations (.ann) beside the text",),
        "without_annotations",
        "--set source.without_annotations=empty if such texts have no mentions",
    ),
    _Advice(
        (standoff.NO_LABEL,),
        "label_feature",
        "name the feature that holds the label with source.label_feature",
    ),
    _Advice(
        (standoff.NO_LABEL,),
        "label",
        "name what holds the label with source.label",
    ),
    _Advice(
        (standoff.MISMATCH,),
        "ends",
        "--set source.ends=inclusive, source.offsets=utf-16 or bytes, or source.newlines=one, as "
        "the corpus has them",
    ),
)
"""Advice for reasons that do not say themselves which option helps."""


def refuse_losses(inputs: Inputs, receipts: Mapping[str, Sequence[Accounted]]) -> None:
    """Refuse to finish a build that lost too much.

    In each split, at most `source.max_loss` of the documents may be set aside, and of the source's
    mentions left out without a rule of the pipeline that asks for it. Mentions of documents that
    are set aside count too; where nobody has counted them, a document has as many as others.

    Args:
        inputs: The pipeline, which says how much may be lost, and the files.
        receipts: Split -> accounts of its documents, such as receipts of work units.

    Raises:
        BuildError: A split lost more, or no mention at all is left though some are wanted.
    """
    pipeline = inputs.pipeline
    every = [receipt for of_split in receipts.values() for receipt in of_split]
    for split, of_split in receipts.items():
        aside = [one for receipt in of_split for one in receipt.set_aside]
        refuse_set_aside(inputs, split, aside, read=sum(receipt.read for receipt in of_split))

        if pipeline.annotate.use == "gold":
            given = sum(receipt.given_mentions for receipt in of_split)
            left_out = sum((Counter(receipt.left_out) for receipt in of_split), Counter[str]())
            in_aside = _mentions_in(aside, given, read=sum(receipt.read for receipt in of_split))
            given += in_aside.total()
            _refuse(inputs, split, "mentions left out", given, left_out + in_aside, {})
    _refuse_no_document(every)
    _refuse_no_mention(inputs, every)
    _refuse_no_doc_label(pipeline, every)
    _warn_of_absent_labels(pipeline, every)


def refuse_texts(
    pipeline: Pipeline,
    *,
    labels: Collection[str] = (),
    mentions: float = math.inf,
    doc_labels: Collection[str] = (),
    documents: float = math.inf,
) -> None:
    """Refuse labels that seem to be texts, as where a column of texts was named for that of labels.

    A label is short and repeats. Labels of mentions that the pipeline names are what somebody
    wanted.

    Args:
        pipeline: Says where labels stand.
        labels: Labels of mentions, each once.
        mentions: Mentions that have them; infinite as long as it is not known.
        doc_labels: Labels of documents, each once.
        documents: Documents that have them; infinite as long as it is not known.

    Raises:
        BuildError: Labels are long, or nearly as many as the documents or mentions that have them.
    """
    where = f"pipeline '{pipeline.name}', [source]"
    if seem_texts(doc_labels, documents):
        column = plain(str(pipeline.source.options.get("doc_label", "")))
        raise BuildError(
            f"{where} doc_label: expected labels of documents that are short and repeat, got "
            f"{_shape(doc_labels, documents)}; name the column of labels in place of '{column}'"
        )
    are_free = pipeline.annotate.use == "gold" and not pipeline.annotate.labels
    if are_free and seem_texts(labels, mentions):
        raise BuildError(
            f"{where}: expected labels of mentions that are short and repeat, got "
            f"{_shape(labels, mentions)}; say where labels stand{_label_options(pipeline)}, "
            "or choose some with --set 'annotate.labels=[...]'"
        )


def seem_texts(labels: Collection[str], items: float) -> bool:
    """Return whether labels seem to be texts: long, or nearly as many as what has them.

    Args:
        labels: Labels, each once.
        items: Documents or mentions that they are of.
    """
    longest = max(map(len, labels), default=0)
    if longest > _LONGEST_LABEL:
        return True
    must_repeat = len(labels) >= _MANY or (len(labels) > 1 and longest > _LONG_LABEL)
    return must_repeat and len(labels) >= _NEARLY_ALL * items


def _shape(labels: Collection[str], items: float) -> str:
    """Describe labels by their number and the length of the longest, without showing any."""
    of = "" if math.isinf(items) else f" in {items:,} places"
    return f"{len(labels):,}{of}, of up to {max(map(len, labels)):,} characters"


def _label_options(pipeline: Pipeline) -> str:
    """Return the options of the source that were set and speak of labels, for a message."""
    given = {
        name: value
        for name, value in pipeline.source.options.items()
        if ("label" in name or "tag" in name) and isinstance(value, str | int) and value
    }
    listed = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    return f" in place of {plain(listed)}" if listed else ""


def refuse_set_aside(
    inputs: Inputs, split: str, set_aside: Sequence[SetAside], *, read: int
) -> None:
    """Refuse to go on with a split of which more than `source.max_loss` was set aside.

    Args:
        inputs: The pipeline, which says how much may be lost, and the files.
        split: Its name.
        set_aside: What was set aside of it.
        read: Its documents, those that were set aside included.

    Raises:
        BuildError: More was set aside.
    """
    reasons = Counter(one.reason for one in set_aside)
    places: dict[str, str] = {}
    for one in set_aside:
        places.setdefault(one.reason, one.place)
    _refuse(inputs, split, "documents set aside", read, reasons, places)


def _mentions_in(set_aside: Sequence[SetAside], given: int, *, read: int) -> Counter[str]:
    """Return reason -> mentions of the documents that were set aside for it, by no rule.

    Args:
        set_aside: The documents.
        given: The mentions of all others.
        read: Number of documents, those that were set aside included.
    """
    usual = given / max(read - len(set_aside), 1)
    found: Counter[str] = Counter()
    for reason, alike in itertools.groupby(sorted(set_aside, key=_reason_of), _reason_of):
        if reason not in RULES:
            count = sum(usual if one.mentions < 0 else one.mentions for one in alike)
            found[f"{_IN_ASIDE}{reason}"] = math.ceil(count)
    return +found


def _reason_of(aside: SetAside) -> str:
    return aside.reason


def _refuse_no_document(receipts: Sequence[Accounted]) -> None:
    """Raise if no document at all can be used, whatever may be lost."""
    aside = [one for receipt in receipts for one in receipt.set_aside]
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
        f"source: expected documents, got none that can be used of {read} read{why}; "
        "check --input and the pipeline's [source]"
    )


def _refuse(
    inputs: Inputs,
    split: str,
    what: str,
    of: int,
    reasons: Counter[str],
    places: Mapping[str, str],
) -> None:
    """Raise if more is lost than may be.

    Args:
        inputs: The pipeline says how much may be lost, the source which options could help.
        split: Its name.
        what: What is lost.
        of: How many there were.
        reasons: Reason -> how many there are; those of `RULES` do not count.
        places: Reason -> where the first stands.
    """
    lost = Counter({reason: count for reason, count in reasons.items() if reason not in RULES})
    max_loss = inputs.pipeline.max_loss
    if lost.total() <= max_loss * of:
        return

    lines = [
        f"pipeline '{inputs.pipeline.name}', split '{split}': expected at most {max_loss:.0%} of "
        f"the {what} (source.max_loss), got {lost.total():,} of {of:,}"
    ]
    alike = _but_for_numbers(lost)
    for same in alike[:_SHOWN]:
        reason = next(iter(same))
        also = ", or other numbers" if len(same) > 1 else ""
        first = f", first at {plain(places[reason])}" if reason in places else ""
        helps = advice(inputs.source, reason)
        lines.append(f"  {same.total():,}: {reason}{also}{first}{f'; {helps}' if helps else ''}")
    if len(alike) > _SHOWN:
        lines.append(f"  and {len(alike) - _SHOWN} other reason(s)")
    lines.append(
        "mend it and run the same command again; --set source.max_loss=1 goes on with what is left"
    )
    raise BuildError("\n".join(lines))


def _but_for_numbers(reasons: Counter[str]) -> list[Counter[str]]:
    """Return reasons in groups that differ in numbers alone, such as offsets; most first."""
    groups: dict[str, Counter[str]] = {}
    for reason, count in reasons.items():
        groups.setdefault(_NUMBER.sub("0", reason), Counter())[reason] = count
    return sorted(groups.values(), key=Counter.total, reverse=True)


def advice(source: Source, reason: str) -> str:
    """Return what helps against a loss where the source has options for it, else ""."""
    options = {option.name for option in fields(source)}
    for one in _ADVICE:
        if reason.removeprefix(_IN_ASIDE).startswith(one.begins) and one.option in options:
            return one.words
    return ""


def _refuse_no_mention(inputs: Inputs, receipts: Sequence[Accounted]) -> None:
    """Raise if documents were read and no mention is left, unless none are wanted."""
    pipeline = inputs.pipeline
    annotate = pipeline.annotate
    may_be_bare = inputs.source.without_mentions or pipeline.has_doc_labels
    none_wanted = annotate.use == "none" or (annotate.use == "gold" and may_be_bare)
    given = sum(receipt.given_mentions for receipt in receipts)
    left_out = sum(sum(receipt.left_out.values()) for receipt in receipts)
    read = sum(receipt.read - len(receipt.set_aside) for receipt in receipts)
    if none_wanted or not read or given > left_out:
        return

    where = f"pipeline '{pipeline.name}'"
    none = "--set annotate.use=none if none are wanted"
    if not given:
        looked = "in the source" if annotate.use == "gold" else f"by '{annotate.use}'"
        raise BuildError(
            f"{where}: expected mentions, found none {looked} in {read:,} documents; check "
            f"[source]{_columns(inputs)}, or {none}"
        )
    there = _unwanted(receipts)
    if there:
        raise BuildError(
            f"{where}: expected mentions with the labels {_listed(annotate.labels)}, got "
            f"{given:,} of which none is left; the labels there are {there}; choose with "
            f"--set 'annotate.labels=[...]', or {none}"
        )
    reasons = sum((Counter(receipt.left_out) for receipt in receipts), Counter[str]())
    most, _ = reasons.most_common(1)[0]
    raise BuildError(
        f"{where}: expected mentions, got {given:,} of which none is left, most of them for the "
        f"reason '{most}'; {advice(inputs.source, most) or 'check [source]'}, or {none}"
    )


def _columns(inputs: Inputs) -> str:
    """Return which columns the first files have, where their records have named ones."""
    paths = next(iter(inputs.files.values()), [])
    names = dict.fromkeys(
        name
        for path in paths[:_FILES_SHOWN]
        for name in inputs.source.columns_of(path)
        if cells.can_be_shown(name)
    )
    return f", {inputs.source.columns_are} there are {', '.join(names)}" if names else ""


def _refuse_no_doc_label(pipeline: Pipeline, receipts: Sequence[Accounted]) -> None:
    """Raise if documents should have labels of their own and none has."""
    if pipeline.has_doc_labels and not any(receipt.doc_labels for receipt in receipts):
        column = pipeline.source.options["doc_label"]
        raise BuildError(
            f"pipeline '{pipeline.name}', [source] doc_label: expected labels of documents in "
            f"column '{column}', found none in any document; check its name"
        )


def _warn_of_absent_labels(pipeline: Pipeline, receipts: Sequence[Accounted]) -> None:
    """Log a warning if no mention has a label that is wanted, as where it is misspelt."""
    there = {label for receipt in receipts for label in receipt.labels}
    absent = [label for label in pipeline.annotate.labels if label not in there]
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
    """Return the labels of mentions that were left out because of them, for a message."""
    unwanted = {label for receipt in receipts for label in receipt.unwanted}
    given = sum(receipt.given_mentions for receipt in receipts)
    if seem_texts(unwanted, given):
        return f"not shown, as they seem to be texts ({_shape(unwanted, given)})"
    return _listed(unwanted)


def _listed(labels: Iterable[str]) -> str:
    """Return labels as a list for a message, each once, sorted."""
    return ", ".join(f"'{plain(label)}'" for label in sorted(set(labels)))
