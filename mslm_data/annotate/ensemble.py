"""Combines the mentions of several annotators, and counts their agreement.

Votes are on whole mentions. Votes on single words would give mentions that no annotator found.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta, field

from mslm_data.annotate import ANNOTATORS, Annotations, Annotator, FoundBy
from mslm_data.annotate.overlaps import OVERLAPS, flatten
from mslm_data.annotate.relabel import UNWANTED, relabel
from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.ragged import count_up, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.io.files import canonical_json
from mslm_data.registry import Options, from_options

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

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

    def __post_init__(self) -> None:
        if self.use == "ensemble":
            raise ValueError("use: expected a single annotator, got 'ensemble'")


class EnsembleMember(NamedTuple):
    """An annotator of an ensemble, with its shared options."""

    options: MemberOptions
    annotator: Annotator

    def labels(self) -> tuple[str, ...]:
        """Return the possible labels, after renaming; empty if unknown."""
        rename = self.options.rename
        wanted = self.options.labels
        renamed = [rename.get(label, label) for label in self.annotator.labels()]
        if not renamed:
            return wanted
        return tuple(label for label in renamed if not wanted or label in wanted)


class Ensemble(Options, frozen=True, kw_only=True, dict=True):
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
            "mention that more than half of the annotators with its label found. Its score is the "
            "sum of their scores, divided by the number of annotators with this label."
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

    @cached_property
    def members(self) -> dict[str, EnsembleMember]:
        """Name -> annotator, by priority or by name.

        Raises:
            PipelineError: An annotator or option is unknown, or a value is wrong.
        """
        names = self.priority or sorted(self.annotators)
        return {name: _member(name, self.annotators[name]) for name in names}

    @property
    def slow(self) -> bool:
        """Whether one of the annotators is slow."""
        return any(member.annotator.slow for member in self.members.values())

    def digest(self) -> str:
        """Return a digest of the digests of all annotators."""
        digests = {name: member.annotator.digest() for name, member in self.members.items()}
        return hashlib.sha256(canonical_json(digests)).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the distinct labels of all annotators; empty if those of one are unknown."""
        per_member = [member.labels() for member in self.members.values()]
        if not all(per_member):
            return ()
        return tuple(dict.fromkeys(label for labels in per_member for label in labels))

    def start(self) -> LoadedEnsemble:
        """Load all annotators."""
        return LoadedEnsemble(self)


class _Votes(NamedTuple):
    """The votes of A annotators on M distinct mentions.

    Attributes:
        mentions: int64 `[M, 3]`, first character on the line, character after the last, and label;
            sorted.
        names: Sorted labels.
        found: bool `[M, A]`, whether the annotator found the mention.
        scores: float64 `[M, A]`, its score, 0 if it did not.
        concepts: `[M]`, concept of the first annotator that knows it, "" for none.
    """

    mentions: Ints
    names: list[str]
    found: Bools
    scores: Floats
    concepts: list[str]


class LoadedEnsemble:
    """An ensemble with its models in memory."""

    def __init__(self, options: Ensemble) -> None:
        """Load all annotators."""
        self._combine = options.combine
        self._members = options.members
        self._labels = [member.labels() for member in options.members.values()]
        self._loaded = [member.annotator.start() for member in options.members.values()]

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents; see `LoadedAnnotator`."""
        left_out: dict[Reason, Ints] = {}
        votes = _collect([*self._member_mentions(documents, left_out)])
        if self._combine == "union":
            reason = EARLIER
            kept, scores = _first_by_priority(votes)
        else:
            reason = OUTVOTED
            kept, scores = self._majority(votes)

        # Documents share no characters, so the first character tells the document.
        places = np.searchsorted(documents.starts, votes.mentions[:, 0], side="right") - 1
        _add(left_out, reason, np.bincount(places[~kept], minlength=len(documents)))

        concepts = [votes.concepts[number] for number in np.flatnonzero(kept).tolist()]
        scores = scores[kept]
        mentions = Mentions(
            offsets=make_offsets(np.bincount(places[kept], minlength=len(documents))),
            starts=votes.mentions[kept, 0],
            ends=votes.mentions[kept, 1],
            labels=votes.mentions[kept, 2],
            names=votes.names,
            concepts=concepts if any(concepts) else None,
            scores=scores if (scores != 1).any() else None,
        )
        return Annotations(mentions, left_out, self._count_agreement(votes))

    def _member_mentions(
        self, documents: Documents, left_out: dict[Reason, Ints]
    ) -> Iterator[Mentions]:
        """Yield the non-overlapping mentions of each annotator; update `left_out`."""
        for member, loaded in zip(self._members.values(), self._loaded, strict=True):
            annotations = loaded.annotate(documents)
            for reason, counts in annotations.left_out.items():
                _add(left_out, reason, counts)

            every = annotations.mentions
            wanted, _ = relabel(every, rename=member.options.rename, labels=member.options.labels)
            flat, _ = flatten(wanted)
            _add(left_out, UNWANTED, np.diff(every.offsets) - np.diff(wanted.offsets))
            _add(left_out, OVERLAPS, np.diff(wanted.offsets) - np.diff(flat.offsets))
            yield flat

    def _majority(self, votes: _Votes) -> tuple[Bools, Floats]:
        """Return whether a majority of its voters found each mention, and its score, `[M]`."""
        # Annotators with this label have a vote, and those whose labels are unknown.
        num_voters = [
            sum(not labels or name in labels for labels in self._labels) for name in votes.names
        ]
        voters = np.array(num_voters, np.int64)[votes.mentions[:, 2]]
        kept = 2 * votes.found.sum(axis=1) > voters
        return kept, votes.scores.sum(axis=1) / np.maximum(voters, 1)

    def _count_agreement(self, votes: _Votes) -> Counter[FoundBy]:
        """Count the mentions by label and annotators."""
        rows, row_counts = np.unique(
            np.column_stack([votes.mentions[:, 2], votes.found]), axis=0, return_counts=True
        )
        counts: Counter[FoundBy] = Counter()
        for (label, *found), count in zip(rows.tolist(), row_counts.tolist(), strict=True):
            by = sorted(itertools.compress(self._members, found))
            counts[FoundBy(votes.names[label], tuple(by))] = count
        return counts


def _collect(per_member: Sequence[Mentions]) -> _Votes:
    """Collect the mentions of all annotators, those of each without overlaps."""
    names = sorted({name for mentions in per_member for name in mentions.names})
    keys = []
    for mentions in per_member:
        labels = np.array([names.index(name) for name in mentions.names], np.int64)
        keys.append(np.stack([mentions.starts, mentions.ends, labels[mentions.labels]], axis=1))
    distinct, rows = np.unique(np.concatenate(keys), axis=0, return_inverse=True)

    found = np.zeros((len(distinct), len(per_member)), np.bool_)
    scores = np.zeros(found.shape)
    concepts = [""] * len(distinct)
    past = np.cumsum([len(mentions) for mentions in per_member])
    for number, mentions in enumerate(per_member):
        own = rows.reshape(-1)[past[number] - len(mentions) : past[number]]
        found[own, number] = True
        scores[own, number] = 1 if mentions.scores is None else mentions.scores
        for row, concept in zip(own.tolist(), mentions.concepts or (), strict=False):
            concepts[row] = concepts[row] or concept
    return _Votes(distinct, names, found, scores, concepts)


def _first_by_priority(votes: _Votes) -> tuple[Bools, Floats]:
    """Return whether no kept mention of an earlier annotator overlaps, and the score, `[M]`."""
    starts = votes.mentions[:, 0]
    ends = votes.mentions[:, 1]
    firsts = votes.found.argmax(axis=1)
    kept = np.zeros(len(starts), np.bool_)
    taken = np.zeros(ends.max(initial=0), np.bool_)
    for number in range(votes.found.shape[1]):
        # A mention is free if the number of taken characters does not rise within it. Mentions of
        # the same annotator do not overlap.
        counts = make_offsets(taken)
        is_free = counts[starts] == counts[ends]
        chosen = np.flatnonzero((firsts == number) & is_free)
        kept[chosen] = True
        taken[count_up(starts[chosen], ends[chosen] - starts[chosen])] = True
    return kept, votes.scores[np.arange(len(firsts)), firsts]


def _member(name: str, table: Mapping[str, Any]) -> EnsembleMember:
    """Make an annotator from its table."""
    where = f"[annotate.annotators.{name}]"
    shared = ("use", "rename", "labels")
    options = from_options(
        MemberOptions, {name: table[name] for name in shared if name in table}, where=where
    )
    own_options = {name: value for name, value in table.items() if name not in shared}
    annotator = ANNOTATORS.make(options.use, own_options, where=where, also=shared)
    return EnsembleMember(options, annotator)


def _add(left_out: dict[Reason, Ints], reason: Reason, counts: Ints) -> None:
    """Add the number of mentions left out in each document, int64 `[D]`."""
    if counts.any():
        left_out[reason] = left_out.get(reason, 0) + counts
