"""Sentences with their mentions and masks as HTML: how often each token is hidden, and by whom."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.mask.plan import MaskKind
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.report.charts import text

EPOCHS = 100
"""Epochs that the shades of tokens are of."""
_LOOKED_AT = 256
_WORDS = (6, 60)


def choose_rows(split: Split, count: int) -> npt.NDArray[np.int64]:
    """Return rows to show, rising and spread over the split.

    Each is the next one that has a mention and is of usual length.

    Args:
        split: The rows.
        count: How many; fewer where there are not so many.
    """
    count = min(count, len(split))
    starts = [len(split) * k // count for k in range(count + 1)] if count else []
    chosen = []
    for start, stop in itertools.pairwise(starts):
        examples = split.examples(start, min(stop, start + _LOOKED_AT))
        lengths = examples.input_ids.lengths
        good = (examples.span_starts.lengths > 0) & (lengths >= _WORDS[0]) & (lengths <= _WORDS[1])
        chosen.append(start + int(np.argmax(good)))
    return np.array(chosen, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Rows that are shown.

    Attributes:
        rows: Their numbers in the split.
        examples: The rows.
        tokenizer: The folder's.
        labels: The names that `span_labels` index.
    """

    rows: Sequence[int]
    examples: Examples
    tokenizer: tokenizers.Tokenizer
    labels: Sequence[str]

    def heat(self, strategy: Strategy, *, seed: int) -> str:
        """Return the rows, each token shaded by how many of `EPOCHS` epochs hide it."""
        times = np.zeros((3, len(self.examples.input_ids.values)), np.int64)
        for epoch in range(EPOCHS):
            kinds = strategy.plan(self.examples, seed=seed, epoch=epoch).kinds.values
            times[MaskKind.ENTITY] += kinds == MaskKind.ENTITY
            times[MaskKind.BASE] += kinds == MaskKind.BASE
        offsets = self.examples.input_ids.offsets

        def shade(row: int) -> Callable[[int], str]:
            elm, blm = (times[kind, offsets[row] : offsets[row + 1]].tolist() for kind in (2, 1))

            def attributes(t: int) -> str:
                share = (elm[t] + blm[t]) / EPOCHS
                return f' style="--f:{share:.2f}" title="hidden in {share:.0%}: as ELM {elm[t]}, as BLM {blm[t]}"'

            return attributes

        shades = [shade(row) for row in range(len(self.rows))]
        return self.shaded(lambda row, token: shades[row](token))

    def shaded(self, attributes: Callable[[int, int], str]) -> str:
        """Return the rows, each token with attributes of its own.

        Args:
            attributes: Of a row's place among these and a token's in the row; "" for none. Escaped
                already.
        """
        lines = (
            self._line(i, functools.partial(attributes, i), "t") for i in range(len(self.rows))
        )
        return "".join(f'<div class="row">{line}</div>' for line in lines)

    def side_by_side(self, strategies: Mapping[str, Strategy], *, seed: int) -> str:
        """Return the rows, each once for each strategy, with what it hides in the first epoch."""
        plans = {
            name: way.plan(self.examples, seed=seed, epoch=0).kinds
            for name, way in strategies.items()
        }
        blocks = []
        for i in range(len(self.rows)):
            lines = [
                f"<b>{text(name)}</b>{self._line(i, _by_kind(kinds[i]))}"
                for name, kinds in plans.items()
            ]
            blocks.append(f'<div class="row ways">{"".join(lines)}</div>')
        return "".join(blocks)

    def _line(self, row: int, attributes: Callable[[int], str], name: str = "") -> str:
        """Return one row: a space before each word, mentions underlined, specials left out."""
        examples = self.examples
        ids, words = examples.input_ids[row].tolist(), examples.word_ids[row].tolist()
        spans = zip(
            examples.span_starts[row],
            examples.span_ends[row],
            examples.span_labels[row],
            strict=True,
        )
        opens = {int(start): (int(end), self.labels[label]) for start, end, label in spans}
        stop, out, first = -1, [], True
        for t, (id_, word) in enumerate(zip(ids, words, strict=True)):
            if word < 0:
                continue
            if not first and word != words[t - 1]:
                out.append(" ")
            first = False
            if t in opens:
                stop, label = opens[t]
                out.append(f'<span class="m" data-label="{text(label)}">')
            given = attributes(t)
            classed = f' class="{name}"' if name else ""
            piece = text(self._people(id_))
            out.append(f"<span{classed}{given}>{piece}</span>" if given else piece)
            if t + 1 == stop:
                out.append("</span>")
        return f'<p class="s" dir="auto">{"".join(out)}</p>'

    def _people(self, token: int) -> str:
        """Return a piece as people read it: without its tokenizer's marks, bytes as characters."""
        piece: str = (
            self.tokenizer.decode([token], skip_special_tokens=False).strip().removeprefix("##")
        )
        return piece or str(self.tokenizer.id_to_token(token))


def _by_kind(kinds: Array) -> Callable[[int], str]:
    marks = {MaskKind.ENTITY: ' class="e" title="ELM"', MaskKind.BASE: ' class="b" title="BLM"'}
    return lambda t: marks.get(kinds[t], "")
