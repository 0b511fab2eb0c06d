"""Combines the mentions of several annotators, and counts how far they agree."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from mslm_data.annotate import ANNOTATORS, Annotations, Annotator, FoundBy, LoadedAnnotator
from mslm_data.annotate.overlaps import OVERLAPS, flatten
from mslm_data.annotate.relabel import UNWANTED, relabel
from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.ragged import make_offsets
from mslm_data.data.reason import Reason
from mslm_data.errors import PipelineError
from mslm_data.io.files import canonical_json
from mslm_data.registry import Help, did_you_mean, from_options

EARLIER = Reason("overlaps one of an annotator before")
OUTVOTED = Reason("found by too few annotators")
"""Reasons for which mentions are left out here."""


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """Describe a member of an ensemble, besides the options of its annotator."""

    use: Annotated[str, Help("The annotator.")]
    rename: Annotated[Mapping[str, str], Help("Its label -> ours.")] = field(default_factory=dict)
    labels: Annotated[
        tuple[str, ...], Help("Labels that are combined, after renaming; empty for all.")
    ] = ()
    weight: Annotated[
        float | Mapping[str, float],
        Help("How much its vote counts in a majority: a number, or one for each label."),
    ] = 1.0

    def __post_init__(self) -> None:
        if self.use == "ensemble":
            raise ValueError("use: expected a single annotator, got 'ensemble'")
        weights = self.weight.values() if isinstance(self.weight, Mapping) else [self.weight]
        if not all(0 <= weight < float("inf") for weight in weights):
            raise ValueError("weight: expected numbers from 0")

    def vote_weight(self, label: str) -> float:
        """Return the weight of a vote for a label; 0 for one that the weights do not name."""
        if isinstance(self.weight, Mapping):
            return self.weight.get(label, 0.0)
        return self.weight


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Combines the mentions of several annotators, by priority or by majority.

    Each has a table of its own, `[annotate.of.NAME]`, with `use`, its options, and those of
    `MemberOptions`. Two annotators find the same mention if its characters and its label are the
    same. Of one annotator's mentions that overlap each other, the longest counts.
    """

    of: Annotated[Mapping[str, Mapping[str, Any]], Help("Name -> table of an annotator.")] = field(
        default_factory=dict
    )
    combine: Annotated[
        Literal["union", "majority"],
        Help(
            '"union" gives every mention. Of those that overlap it gives the one of the annotator '
            'that comes first in `priority`, with that one\'s score. "majority" gives a mention if '
            "the annotators that found it have more than half the weight of those that could; "
            "these are the ones whose labels include it. Its score is the sum of their scores by "
            "weight, divided by the weight of all that could."
        ),
    ] = "union"
    priority: Annotated[tuple[str, ...], Help("Every name, for a union.")] = ()
    weak: Annotated[bool, Help("Whether mentions carry concepts and confidences.")] = True

    def __post_init__(self) -> None:
        if len(self.of) < 2:
            raise ValueError(
                f"of: expected two annotators or more, each in a table [annotate.of.NAME], got "
                f"{len(self.of)}"
            )
        if self.combine == "union" and sorted(self.priority) != sorted(self.of):
            raise ValueError(
                f"priority: expected each of {', '.join(sorted(self.of))} once, whose mentions "
                f"count first, got {', '.join(self.priority) or 'none'}"
            )
        if self.combine == "majority" and self.priority:
            raise ValueError('priority: expected none with combine = "majority", got some')
        _ = self.members  # refuses wrong options

    @property
    def members(self) -> dict[str, tuple[MemberOptions, Annotator]]:
        """Return name -> an annotator, by priority or by name.

        Raises:
            PipelineError: An unknown annotator or option, or a wrong value.
        """
        names = self.priority or sorted(self.of)
        return {name: _member(name, self.of[name]) for name in names}

    @property
    def slow(self) -> bool:
        """Return whether one of the annotators is slow."""
        return any(annotator.slow for _, annotator in self.members.values())

    def digest(self) -> str:
        """Return a digest of those of all annotators."""
        digests = {name: annotator.digest() for name, (_, annotator) in self.members.items()}
        return hashlib.sha256(canonical_json(digests)).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels of all annotators, each once."""
        every = [_labels_of(*member) for member in self.members.values()]
        return tuple(dict.fromkeys(label for labels in every for label in labels))

    def start(self) -> LoadedEnsemble:
        """Load all annotators."""
        return LoadedEnsemble(self)


class _Found(NamedTuple):
    """A mention that some annotators found, as places on the line.

    Attributes:
        document: Number of its document.
        start: First character.
        end: Half open.
        label: Its label.
    """

    document: int
    start: int
    end: int
    label: str


class _Vote(NamedTuple):
    """One annotator's word on a mention: its number, a concept and a score."""

    annotator: int
    concept: str
    score: float


class LoadedEnsemble:
    """An ensemble with its models in memory."""

    def __init__(self, options: Ensemble) -> None:
        """Load them."""
        self._combine = options.combine
        self._names = list(options.members)
        self._members = [member for member, _ in options.members.values()]
        self._labels = [_labels_of(*member) for member in options.members.values()]
        self._loaded: list[LoadedAnnotator] = [
            annotator.start() for _, annotator in options.members.values()
        ]

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents; see `LoadedAnnotator`."""
        left_out: dict[Reason, Ints] = {}
        votes: dict[_Found, list[_Vote]] = {}
        for number, mentions in enumerate(self._each(documents, left_out)):
            for found, vote in _votes(mentions, number):
                votes.setdefault(found, []).append(vote)

        counts: Counter[FoundBy] = Counter()
        for found, of_mention in votes.items():
            by = sorted(self._names[vote.annotator] for vote in of_mention)
            counts[FoundBy(found.label, tuple(by))] += 1

        if self._combine == "union":
            kept = _first(votes, left_out, len(documents))
        else:
            kept = self._elected(votes, left_out, len(documents))
        return Annotations(_columns(kept, len(documents)), left_out, counts)

    def _each(self, documents: Documents, left_out: dict[Reason, Ints]) -> Iterator[Mentions]:
        """Give the flat mentions of each annotator, and add those that it leaves out."""
        for member, loaded in zip(self._members, self._loaded, strict=True):
            found = loaded.annotate(documents)
            for reason, numbers in found.left_out.items():
                _add(left_out, reason, numbers)

            wanted, _ = relabel(found.mentions, rename=member.rename, labels=member.labels)
            flat, _ = flatten(wanted)
            _add(left_out, UNWANTED, np.diff(found.mentions.offsets) - np.diff(wanted.offsets))
            _add(left_out, OVERLAPS, np.diff(wanted.offsets) - np.diff(flat.offsets))
            yield flat

    def _elected(
        self, votes: Mapping[_Found, Sequence[_Vote]], left_out: dict[Reason, Ints], documents: int
    ) -> dict[_Found, _Vote]:
        """Return the mentions that a majority found, each with a concept and its score."""
        outvoted = np.zeros(documents, np.int64)
        could: dict[str, float] = {}
        kept: dict[_Found, _Vote] = {}
        for found, of_mention in votes.items():
            label = found.label
            if label not in could:
                could[label] = sum(
                    member.vote_weight(label)
                    for member, labels in zip(self._members, self._labels, strict=True)
                    if not labels or label in labels
                )
            weights = [self._members[vote.annotator].vote_weight(label) for vote in of_mention]
            if 2 * sum(weights) <= could[label]:
                outvoted[found.document] += 1
                continue

            by_weight = zip(weights, of_mention, strict=True)
            score = sum(weight * vote.score for weight, vote in by_weight) / could[label]
            concept = next((vote.concept for vote in of_mention if vote.concept), "")
            kept[found] = _Vote(of_mention[0].annotator, concept, score)
        _add(left_out, OUTVOTED, outvoted)
        return kept


def _first(
    votes: Mapping[_Found, Sequence[_Vote]], left_out: dict[Reason, Ints], documents: int
) -> dict[_Found, _Vote]:
    """Return the mentions that overlap none of an annotator before, with what the first one said.

    Args:
        votes: Those of an annotator before those of the next one, and flat among themselves.
        left_out: Reason -> number in each document; added to.
        documents: Number of documents.
    """
    earlier = np.zeros(documents, np.int64)
    kept: dict[_Found, _Vote] = {}
    taken: set[int] = set()
    for found, of_mention in votes.items():
        characters = range(found.start, found.end)
        if taken.isdisjoint(characters):
            taken.update(characters)
            concept = next((vote.concept for vote in of_mention if vote.concept), "")
            kept[found] = of_mention[0]._replace(concept=concept)
        else:
            earlier[found.document] += 1
    _add(left_out, EARLIER, earlier)
    return kept


def _member(name: str, table: Mapping[str, Any]) -> tuple[MemberOptions, Annotator]:
    """Make a member of an ensemble from its table."""
    where = f"[annotate.of.{name}]"
    if "use" not in table:
        raise PipelineError(f'{where}: expected a table with use = "NAME", got none')
    if table["use"] not in ANNOTATORS:
        raise PipelineError(
            f"{where}: unknown annotator '{table['use']}'"
            f"{did_you_mean(str(table['use']), ANNOTATORS.names())}"
        )

    shared = ("use", "rename", "labels", "weight")
    ours = {option: value for option, value in table.items() if option in shared}
    member = from_options(MemberOptions, ours, where=where)
    own = {option: value for option, value in table.items() if option not in shared}
    annotator: Annotator = ANNOTATORS.make(member.use, own, where=where, also=shared)
    return member, annotator


def _labels_of(member: MemberOptions, annotator: Annotator) -> tuple[str, ...]:
    """Return the labels that an annotator can give, renamed and chosen; empty if not known."""
    renamed = [member.rename.get(label, label) for label in annotator.labels()]
    if not renamed:
        return member.labels
    return tuple(label for label in renamed if not member.labels or label in member.labels)


def _votes(mentions: Mentions, annotator: int) -> Iterator[tuple[_Found, _Vote]]:
    """Give the mentions of one annotator, each with what it says of it."""
    names = [mentions.names[number] for number in mentions.labels.tolist()]
    found = map(
        _Found,
        mentions.documents.tolist(),
        mentions.starts.tolist(),
        mentions.ends.tolist(),
        names,
    )
    concepts = mentions.concepts or [""] * len(mentions)
    scores = [1.0] * len(mentions) if mentions.scores is None else mentions.scores.tolist()
    for mention, concept, score in zip(found, concepts, scores, strict=True):
        yield mention, _Vote(annotator, concept, score)


def _columns(kept: Mapping[_Found, _Vote], documents: int) -> Mentions:
    """Return mentions in columns, those of a document by their start."""
    order = sorted(kept)
    names = sorted({found.label for found in order})
    concepts = [kept[found].concept for found in order]
    scores = np.array([kept[found].score for found in order], np.float64)
    counts = np.bincount(
        np.array([found.document for found in order], np.int64), minlength=documents
    )
    return Mentions(
        offsets=make_offsets(counts),
        starts=np.array([found.start for found in order], np.int64),
        ends=np.array([found.end for found in order], np.int64),
        labels=np.array([names.index(found.label) for found in order], np.int64),
        names=names,
        concepts=concepts if any(concepts) else None,
        scores=scores if (scores != 1).any() else None,
    )


def _add(left_out: dict[Reason, Ints], reason: Reason, numbers: Ints) -> None:
    """Add the numbers of mentions of each document that are left out for a reason."""
    if numbers.any():
        left_out[reason] = left_out.get(reason, 0) + numbers
