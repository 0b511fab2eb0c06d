"""Divide rows into runs of equally masked text, inside and between mentions, for the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged

_CLASSES = ("", "b", "e")
"""CSS class of each `MaskKind`, by number; "" for tokens that are not masked."""


class Shade(NamedTuple):
    """The shade of a token.

    Attributes:
        share: Intensity in `[0, 1]`.
        tip: Tooltip.
    """

    share: float
    tip: str


@dataclass(slots=True)
class TokenRun:
    """Consecutive tokens with equal masking, or a shaded token.

    Attributes:
        text: Text of the tokens.
        kind: CSS class of the kind of mask; "" if not masked.
        differs: Whether the first strategy masks these tokens differently.
        shade: Shade of the token, or None.
    """

    text: str
    kind: str
    differs: bool
    shade: Shade | None = None


@dataclass(slots=True)
class Group:
    """A mention, or the text between two mentions.

    Attributes:
        before: Space before the group, or "".
        label: Label of the mention; None between mentions.
        flags: Context of the mention, such as `negated`; "" for none.
        status: `found`, `missed` or `wrong` beside gold mentions; "" for none.
        runs: Its text.
    """

    before: str
    label: str | None
    flags: str
    status: str = ""
    runs: list[TokenRun] = field(default_factory=list)


class Pieces:
    """Decoded text of each token, without the tokenizer's markers."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Keep the tokenizer. Each token id is decoded once."""
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def __getitem__(self, token: int) -> str:
        text = self._texts.get(token)
        if text is None:
            decoded: str = self._tokenizer.decode([token], skip_special_tokens=False)
            text = decoded.strip().removeprefix("##") or str(self._tokenizer.id_to_token(token))
            self._texts[token] = text
        return text


def draw_lines(
    examples: Examples,
    kinds: Mapping[str, Ragged],
    pieces: Pieces,
    labels: Sequence[str],
    flags: Sequence[str] = (),
    statuses: Sequence[str] = (),
    seen: Mapping[str, Ragged] = MappingProxyType({}),
) -> list[dict[str, list[Group]]]:
    """Divide each row into groups, once for each strategy.

    Args:
        examples: N rows.
        kinds: Name of a strategy -> kinds of all tokens; empty to draw mentions alone.
        pieces: Text of each token.
        labels: Labels, by `span_labels`.
        flags: Context of each mention of all rows, or empty. Default: empty.
        statuses: Status of each mention of all rows beside gold, or empty. Default: empty.
        seen: Name of a strategy -> ids of all tokens to draw, -1 for none. Default: the rows' own.

    Returns:
        For each row, name of the strategy -> groups. The name is "" without strategies.
    """
    lines = []
    for row in range(len(examples)):
        row_kinds: dict[str, Array | None] = {name: plan[row] for name, plan in kinds.items()}
        first = next(iter(row_kinds.values()), None)
        line = {
            name: draw_line(
                examples,
                row,
                own,
                first,
                pieces,
                labels,
                flags,
                statuses=statuses,
                seen=seen[name][row] if name in seen else None,
            )
            for name, own in (row_kinds or {"": None}).items()
        }
        lines.append(line)
    return lines


def draw_line(
    examples: Examples,
    row: int,
    kinds: Array | None,
    first: Array | None,
    pieces: Pieces,
    labels: Sequence[str],
    flags: Sequence[str] = (),
    shades: Mapping[int, Shade] = MappingProxyType({}),
    statuses: Sequence[str] = (),
    seen: Array | None = None,
) -> list[Group]:
    """Divide one row into groups, without special tokens.

    Args:
        examples: N rows.
        row: Index of the row.
        kinds: `[T]`, the kind of each token in the row, or None if nothing is masked.
        first: `[T]`, the kinds of the strategy to compare with, or None.
        pieces: Text of each token.
        labels: Labels, by `span_labels`.
        flags: Context of each mention of all rows, or empty. Default: empty.
        shades: Index of a token in the row -> shade. Default: none.
        statuses: Status of each mention of all rows beside gold, or empty. Default: empty.
        seen: `[T]`, ids of the tokens to draw, -1 for none. Default: the row's own.
    """
    ids = (examples.input_ids[row] if seen is None else seen).tolist()
    words = examples.word_ids[row].tolist()
    token_kinds = [0] * len(ids) if kinds is None else kinds.tolist()
    first_kinds = token_kinds if first is None else first.tolist()
    offset = int(examples.span_starts.offsets[row])
    starts = examples.span_starts[row].tolist()
    ends = examples.span_ends[row].tolist()
    mention_labels = examples.span_labels[row].tolist()
    mention_at = {start: number for number, start in enumerate(starts)}

    groups: list[Group] = []
    group: Group | None = None
    stop = -1
    for t, (id_, word) in enumerate(zip(ids, words, strict=True)):
        if word < 0:
            continue

        # Open a group at the start of a mention and after its end. The space before a word then
        # belongs to the group, so it is not underlined.
        space = " " if groups and word != words[t - 1] else ""
        if t in mention_at:
            number = mention_at[t]
            stop = ends[number]
            context = flags[offset + number] if flags else ""
            status = statuses[offset + number] if statuses else ""
            group = Group(space, labels[mention_labels[number]], context, status)
            groups.append(group)
            space = ""
        elif group is None or t == stop:
            group = Group(space, None, "")
            groups.append(group)
            space = ""

        if id_ < 0:
            continue

        # Extend the last run if the token is masked like it. A shaded token is a run of its own,
        # with its own tooltip.
        kind = token_kinds[t]
        differs = kind != first_kinds[t]
        shade = shades.get(t)
        runs = group.runs
        last = runs[-1] if runs else None
        is_alike = last and (last.kind, last.differs) == (_CLASSES[kind], differs)
        if last and is_alike and not (last.shade or shade):
            last.text += space + pieces[id_]
        else:
            # A space between two marked runs is not marked.
            if space and last:
                if last.kind or last.differs or last.shade:
                    runs.append(TokenRun(space, "", False))
                else:
                    last.text += space
            runs.append(TokenRun(pieces[id_], _CLASSES[kind], differs, shade))
    return groups
