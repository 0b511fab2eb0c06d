"""A sample sentence, to draw strategies without a corpus."""

from __future__ import annotations

from functools import cache

import numpy as np
import tokenizers
from tokenizers import models

from mslm_data.data.bio import paint
from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged
from mslm_data.draw.sentences import Sentences

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (
    "Warfarin raised the risk of intracranial hae|##morr|##hage in patients with chronic "
    "atrial fib|##rill|##ation , and vitamin K lowered it within a day ."
)
"""Words, separated by spaces. Bars separate the pieces of a word."""
_MENTIONS = (("Warfarin", 1, 0), ("intracranial", 2, 1), ("atrial", 2, 1), ("vitamin", 2, 0))
"""First word, number of words and label index of each mention."""
_LABELS = ("Chemical", "Disease")


@cache
def sample() -> Sentences:
    """Return one row of invented text with four mentions."""
    words = [word.split("|") for word in _WORDS.split()]
    pieces = [piece for word in words for piece in word]
    vocabulary = {piece: id_ for id_, piece in enumerate(dict.fromkeys((*_SPECIAL, *pieces)))}

    numbers = [number for number, word in enumerate(words) for _ in word]
    ids = [vocabulary["[CLS]"], *(vocabulary[piece] for piece in pieces), vocabulary["[SEP]"]]
    word_ids = [-1, *numbers, -1]

    starts, ends, labels = [], [], []
    for first, count, label in _MENTIONS:
        number = [word[0] for word in words].index(first)
        starts.append(word_ids.index(number))
        ends.append(word_ids.index(number + count))
        labels.append(label)

    tokens = Ragged.from_rows([ids], np.int32)
    span_starts = Ragged.from_rows([starts], np.int32)
    span_ends = Ragged.from_rows([ends], np.int32)
    span_labels = Ragged.from_rows([labels], np.int16)
    tags = paint(span_starts, span_ends, span_labels, tokens.offsets)
    examples = Examples(
        keys=np.array([5], np.uint64),
        input_ids=tokens,
        word_ids=Ragged.from_rows([word_ids], np.int32),
        bio=Ragged(tags, tokens.offsets),
        span_starts=span_starts,
        span_ends=span_ends,
        span_labels=span_labels,
        ids=TokenIds(
            size=len(vocabulary), pad=0, unk=1, mask=4, special=tuple(range(len(_SPECIAL)))
        ),
    )
    names = models.WordLevel(vocabulary, unk_token="[UNK]")
    return Sentences(examples, tokenizers.Tokenizer(names), _LABELS)
