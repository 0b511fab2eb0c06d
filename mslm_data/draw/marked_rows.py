"""Makes of rows of tokens what templates draw: runs of masked text within mentions and between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged

_CLASSES = ("", "b", "e")
"""The class of each kind of mask, as `MaskKind` numbers them; "" for a token that is not masked."""


class Shade(NamedTuple):
    """How dark a token is.

    Attributes:
        share: In `[0, 1]`.
        tip: What a pointer over it shows.
    """

    share: float
    tip: str


@dataclass(slots=True)
class Run:
    """Tokens side by side that are masked alike, or a token that is shaded.

    Attributes:
        text: What is read.
        kind: Class of the kind of mask; "" where nothing is masked.
        differs: Whether the first strategy masks these tokens in another way.
        shade: How dark the token is; None for tokens that are not shaded.
    """

    text: str
    kind: str
    differs: bool
    shade: Shade | None = None


@dataclass(slots=True)
class Group:
    """A mention, or what stands between two of them.

    Attributes:
        before: The space before it, or "".
        label: Label of the mention; None for what is no mention.
        flags: The mention's context in words, such as `negated`; "" for none.
        runs: Its text.
    """

    before: str
    label: str | None
    flags: str
    runs: list[Run] = field(default_factory=list)


class Pieces:
    """Text of each token, without the marks of its tokenizer."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Keep the tokenizer; each token is decoded once."""
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
) -> list[dict[str, list[Group]]]:
    """Return each row as each strategy masks it.

    Args:
        examples: N rows.
        kinds: Name of a strategy -> the kinds of all tokens; empty for rows with mentions alone.
        pieces: The text of each token.
        labels: The names that `span_labels` index.
        flags: The context of each mention of all rows, in words; empty where there are none.

    Returns:
        Name of the strategy -> the groups of the row, for each row; "" for rows without strategies.
    """
    lines = []
    for row in range(len(examples)):
        first = None
        line = {}
        for name, of_strategy in kinds.items():
            own = of_strategy[row]
            first = own if first is None else first
            line[name] = draw_line(examples, row, own, first, pieces, labels, flags)
        if not kinds:
            line[""] = draw_line(examples, row, None, None, pieces, labels, flags)
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
) -> list[Group]:
    """Return one row in groups; special tokens are left out.

    Args:
        examples: N rows.
        row: Its place among them.
        kinds: `[T]`, the kind of each of its tokens; None where nothing is masked.
        first: `[T]`, the kinds of the strategy that this one is compared with.
        pieces: The text of each token.
        labels: The names that `span_labels` index.
        flags: The context of each mention of all rows; empty where there are none.
        shades: The token's place in the row -> its shade.
    """
    ids = examples.input_ids[row].tolist()
    words = examples.word_ids[row].tolist()
    of_tokens = [0] * len(ids) if kinds is None else kinds.tolist()
    compared = of_tokens if first is None else first.tolist()
    offset = int(examples.span_starts.offsets[row])
    starts = examples.span_starts[row].tolist()
    ends = examples.span_ends[row].tolist()
    of_mentions = examples.span_labels[row].tolist()
    mention_at = {start: number for number, start in enumerate(starts)}

    groups: list[Group] = []
    group: Group | None = None
    stop = -1
    for t, (id_, word) in enumerate(zip(ids, words, strict=True)):
        if word < 0:
            continue

        space = " " if groups and word != words[t - 1] else ""
        if t in mention_at:
            number = mention_at[t]
            stop = ends[number]
            context = flags[offset + number] if flags else ""
            group = Group(space, labels[of_mentions[number]], context)
            groups.append(group)
            space = ""
        elif group is None or t == stop:
            group = Group(space, None, "")
            groups.append(group)
            space = ""

        kind = of_tokens[t]
        differs = kind != compared[t]
        shade = shades.get(t)
        runs = group.runs
        last = runs[-1] if runs else None
        # Each token that is shaded can be pointed at.
        is_alike = last and (last.kind, last.differs) == (_CLASSES[kind], differs)
        if last and is_alike and not (last.shade or shade):
            last.text += space + pieces[id_]
        else:
            if space and last:
                if last.kind or last.differs or last.shade:
                    runs.append(Run(space, "", False))
                else:
                    last.text += space
            runs.append(Run(pieces[id_], _CLASSES[kind], differs, shade))
    return groups
