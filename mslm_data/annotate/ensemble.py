"""Combines the mentions of several annotators, and counts their agreement."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta, field

from mslm_data.annotate import ANNOTATORS, Annotations, Annotator, FoundBy, LoadedAnnotator
from mslm_data.annotate.overlaps import OVERLAPS, flatten
from mslm_data.annotate.relabel import UNWANTED, relabel
from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.ragged import make_offsets
from mslm_data.data.reason import Reason
from mslm_data.errors import PipelineError
from mslm_data.io.files import canonical_json
from mslm_data.registry import Options, did_you_mean, from_options

EARLIER = Reason("overlaps one of an annotator before")
OUTVOTED = Reason("found by too few annotators")
"""Reasons for mentions left out by an ensemble."""


class MemberOptions(Options, frozen=True, kw_only=True):
    """Options of each annotator in an ensemble, besides those of its kind."""

    use: Annotated[str, Meta(description="Name of the annotator.")]
    rename: Annotated[
        Mapping[str, str], Meta(description="Label of the annotator -> label of the pipeline.")
    ] = field(default_factory=dict)
    labels: Annotated[
        tuple[str, ...], Meta(description="Labels to keep, after renaming. Default: all labels.")
    ] = ()
    weight: Annotated[
        float | Mapping[str, float],
        Meta(
            description="Weight of a vote in a majority: a number, or a number for each label. "
            "Default: 1."
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        if self.use == "ensemble":
            raise ValueError("use: expected a single annotator, got 'ensemble'")
        weights = self.weight.values() if isinstance(self.weight, Mapping) else [self.weight]
        if not all(0 <= weight < float("inf") for weight in weights):
            raise ValueError("weight: expected numbers from 0")

    def vote_weight(self, label: str) -> float:
        """Return the weight of a vote for a label; 0 for a label missing from the weights."""
        if isinstance(self.weight, Mapping):
            return self.weight.get(label, 0.0)
        return self.weight


class Ensemble(Options, frozen=True, kw_only=True):
    """Combine the mentions of several annotators, by priority or by majority.

    Each annotator has a table `[annotate.annotators.NAME]` with `use`, its own options, and those
    of `MemberOptions`. Two annotators find the same mention if its characters and its label are
    equal. Among overlapping mentions of the same annotator, only the longest counts.
    """

    annotators: Annotated[
        Mapping[str, Mapping[str, Any]],
        Meta(description="Name -> table of the annotator, at least two."),
    ] = field(default_factory=dict)
    combine: Annotated[
        Literal["union", "majority"],
        Meta(
            description='"union" keeps all mentions. Among overlapping mentions, it keeps the '
            'mention of the first annotator in `priority`, with its score. "majority" keeps a '
            "mention if the annotators that found it have more than half of the weight of all "
            "annotators with this label. The score is the weighted sum of their scores, divided by "
            "the weight of all annotators with this label."
        ),
    ] = "union"
    priority: Annotated[
        tuple[str, ...],
        Meta(description="Names of all annotators in order of priority, for a union."),
    ] = ()
    weak: Annotated[
        bool, Meta(description="Whether to store concepts and confidences of mentions.")
    ] = True

    def __post_init__(self) -> None:
        if len(self.annotators) < 2:
            raise ValueError(
                "annotators: expected two annotators or more, each in a table "
                f"[annotate.annotators.NAME], got {len(self.annotators)}"
            )
        if self.combine == "union" and sorted(self.priority) != sorted(self.annotators):
            raise ValueError(
                f"priority: expected each of {', '.join(sorted(self.annotators))} once, in order "
                f"of priority, got {', '.join(self.priority) or 'none'}"
            )
        if self.combine == "majority" and self.priority:
            raise ValueError('priority: expected none with combine = "majority", got some')
        _ = self.members  # raises an error for wrong options

    @property
    def members(self) -> dict[str, tuple[MemberOptions, Annotator]]:
        """Name -> options and annotator, by priority or by name.

        Raises:
            PipelineError: An annotator or option is unknown, or a value is wrong.
        """
        names = self.priority or sorted(self.annotators)
        return {name: _member(name, self.annotators[name]) for name in names}

    @property
    def slow(self) -> bool:
        """Whether one of the annotators is slow."""
        return any(annotator.slow for _, annotator in self.members.values())

    def digest(self) -> str:
        """Return a digest of the digests of all annotators."""
        digests = {name: annotator.digest() for name, (_, annotator) in self.members.items()}
        return hashlib.sha256(canonical_json(digests)).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the distinct labels of all annotators; empty if those of one are unknown."""
        per_member = [_possible_labels(*member) for member in self.members.values()]
        if not all(per_member):
            return ()
        return tuple(dict.fromkeys(label for labels in per_member for label in labels))

    def start(self) -> LoadedEnsemble:
        """Load all annotators."""
        return LoadedEnsemble(self)


class _Mention(NamedTuple):
    """A mention found by an annotator; equal mentions of several annotators are combined.

    Attributes:
        document: Index of the document.
        start: First character on the line.
        end: Character after the last.
        label: The label.
    """

    document: int
    start: int
    end: int
    label: str


class _Vote(NamedTuple):
    """The index of an annotator, and its concept and score for a mention."""

    annotator: int
    concept: str
    score: float


class LoadedEnsemble:
    """An ensemble with its models in memory."""

    def __init__(self, options: Ensemble) -> None:
        """Load all annotators."""
        self._combine = options.combine
        self._names = list(options.members)
        self._members = [member for member, _ in options.members.values()]
        self._labels = [_possible_labels(*member) for member in options.members.values()]
        self._loaded: list[LoadedAnnotator] = [
            annotator.start() for _, annotator in options.members.values()
        ]

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents; see `LoadedAnnotator`."""
        # Mentions are in order of annotators, which `_by_priority` relies on.
        left_out: dict[Reason, Ints] = {}
        votes: dict[_Mention, list[_Vote]] = {}
        for number, mentions in enumerate(self._member_mentions(documents, left_out)):
            for mention, vote in _votes(mentions, number):
                votes.setdefault(mention, []).append(vote)

        counts: Counter[FoundBy] = Counter()
        for mention, mention_votes in votes.items():
            by = sorted(self._names[vote.annotator] for vote in mention_votes)
            counts[FoundBy(mention.label, tuple(by))] += 1

        if self._combine == "union":
            kept = _by_priority(votes, left_out, len(documents))
        else:
            kept = self._by_majority(votes, left_out, len(documents))
        return Annotations(_to_columns(kept, len(documents)), left_out, counts)

    def _member_mentions(
        self, documents: Documents, left_out: dict[Reason, Ints]
    ) -> Iterator[Mentions]:
        """Yield the non-overlapping mentions of each annotator; update `left_out`."""
        for member, loaded in zip(self._members, self._loaded, strict=True):
            annotations = loaded.annotate(documents)
            for reason, counts in annotations.left_out.items():
                _add(left_out, reason, counts)

            every = annotations.mentions
            wanted, _ = relabel(every, rename=member.rename, labels=member.labels)
            flat, _ = flatten(wanted)
            _add(left_out, UNWANTED, np.diff(every.offsets) - np.diff(wanted.offsets))
            _add(left_out, OVERLAPS, np.diff(wanted.offsets) - np.diff(flat.offsets))
            yield flat

    def _by_majority(
        self,
        votes: Mapping[_Mention, Sequence[_Vote]],
        left_out: dict[Reason, Ints],
        documents: int,
    ) -> dict[_Mention, _Vote]:
        """Return the mentions found by a majority, with concept and combined score."""
        outvoted = np.zeros(documents, np.int64)
        total_weights: dict[str, float] = {}
        kept: dict[_Mention, _Vote] = {}
        for mention, mention_votes in votes.items():
            # Only annotators with this label have a vote. Without known labels, an annotator has.
            label = mention.label
            if label not in total_weights:
                total_weights[label] = sum(
                    member.vote_weight(label)
                    for member, labels in zip(self._members, self._labels, strict=True)
                    if not labels or label in labels
                )
            weights = [self._members[vote.annotator].vote_weight(label) for vote in mention_votes]
            if 2 * sum(weights) <= total_weights[label]:
                outvoted[mention.document] += 1
                continue

            weighted = zip(weights, mention_votes, strict=True)
            score = sum(weight * vote.score for weight, vote in weighted) / total_weights[label]
            concept = next((vote.concept for vote in mention_votes if vote.concept), "")
            kept[mention] = _Vote(mention_votes[0].annotator, concept, score)
        _add(left_out, OUTVOTED, outvoted)
        return kept


def _by_priority(
    votes: Mapping[_Mention, Sequence[_Vote]], left_out: dict[Reason, Ints], documents: int
) -> dict[_Mention, _Vote]:
    """Return the mentions that overlap no mention of an earlier annotator.

    Args:
        votes: Mentions in order of annotators; those of an annotator do not overlap.
        left_out: Reason -> number of mentions in each document; updated.
        documents: Number of documents.
    """
    earlier = np.zeros(documents, np.int64)
    kept: dict[_Mention, _Vote] = {}
    taken: set[int] = set()  # characters of kept mentions; documents share no characters
    for mention, mention_votes in votes.items():
        characters = range(mention.start, mention.end)
        if taken.isdisjoint(characters):
            taken.update(characters)
            # The first annotator's score, but any annotator's concept.
            concept = next((vote.concept for vote in mention_votes if vote.concept), "")
            kept[mention] = mention_votes[0]._replace(concept=concept)
        else:
            earlier[mention.document] += 1
    _add(left_out, EARLIER, earlier)
    return kept


def _member(name: str, table: Mapping[str, Any]) -> tuple[MemberOptions, Annotator]:
    """Make an annotator and its `MemberOptions` from its table."""
    where = f"[annotate.annotators.{name}]"
    if "use" not in table:
        raise PipelineError(f'{where}: expected a table with use = "NAME", got none')
    if table["use"] not in ANNOTATORS:
        raise PipelineError(
            f"{where}: unknown annotator '{table['use']}'"
            f"{did_you_mean(str(table['use']), ANNOTATORS.names())}"
        )

    shared = ("use", "rename", "labels", "weight")
    member_options = {option: value for option, value in table.items() if option in shared}
    member = from_options(MemberOptions, member_options, where=where)
    own_options = {option: value for option, value in table.items() if option not in shared}
    annotator: Annotator = ANNOTATORS.make(member.use, own_options, where=where, also=shared)
    return member, annotator


def _possible_labels(member: MemberOptions, annotator: Annotator) -> tuple[str, ...]:
    """Return the possible labels of an annotator, after renaming; empty if unknown."""
    renamed = [member.rename.get(label, label) for label in annotator.labels()]
    if not renamed:
        return member.labels
    return tuple(label for label in renamed if not member.labels or label in member.labels)


def _votes(mentions: Mentions, annotator: int) -> Iterator[tuple[_Mention, _Vote]]:
    """Yield the mentions of an annotator with their votes."""
    names = [mentions.names[number] for number in mentions.labels.tolist()]
    keys = map(
        _Mention,
        mentions.documents.tolist(),
        mentions.starts.tolist(),
        mentions.ends.tolist(),
        names,
    )
    concepts = mentions.concepts or [""] * len(mentions)
    scores = [1.0] * len(mentions) if mentions.scores is None else mentions.scores.tolist()
    for mention, concept, score in zip(keys, concepts, scores, strict=True):
        yield mention, _Vote(annotator, concept, score)


def _to_columns(kept: Mapping[_Mention, _Vote], documents: int) -> Mentions:
    """Convert mentions to columns, sorted by document and start."""
    order = sorted(kept)
    names = sorted({mention.label for mention in order})
    concepts = [kept[mention].concept for mention in order]
    scores = np.array([kept[mention].score for mention in order], np.float64)
    counts = np.bincount(
        np.array([mention.document for mention in order], np.int64), minlength=documents
    )
    return Mentions(
        offsets=make_offsets(counts),
        starts=np.array([mention.start for mention in order], np.int64),
        ends=np.array([mention.end for mention in order], np.int64),
        labels=np.array([names.index(mention.label) for mention in order], np.int64),
        names=names,
        concepts=concepts if any(concepts) else None,
        scores=scores if (scores != 1).any() else None,
    )


def _add(left_out: dict[Reason, Ints], reason: Reason, counts: Ints) -> None:
    """Add the number of mentions left out in each document, int64 `[D]`."""
    if counts.any():
        left_out[reason] = left_out.get(reason, 0) + counts
