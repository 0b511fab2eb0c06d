from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.ngrams.stream import Scratch, read_words
from tests.generate import Row, examples_of


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=5), st.integers(0, 99))
def test_scratch__returns_added_arrays_from_memory_or_disk(parts, in_memory) -> None:
    scratch = Scratch(np.int32, in_memory=in_memory)
    for part in parts:
        scratch.append(np.array(part, np.int32))

    array = scratch.array()

    assert array.tolist() == [item for part in parts for item in part]
    assert array.dtype == np.int32
    assert array.flags.writeable == (4 * len(array) <= in_memory)


def test_read_words__a_joined_row_equals_its_sentences() -> None:
    row = Row(
        key=0, ids=[2, 5, 6, 7, 5, 6, 3], word_ids=[-1, 0, 0, 1, 2, 3, -1], mentions=((4, 6, 0),)
    )
    joined = replace(examples_of([row]), sentence_starts=Ragged.from_rows([[1, 4]], np.int32))
    one = Row(key=0, ids=[2, 5, 6, 7, 3], word_ids=[-1, 0, 0, 1, -1])
    other = Row(key=0, ids=[2, 5, 6, 3], word_ids=[-1, 0, 1, -1], mentions=((1, 3, 0),))

    apart = read_words([examples_of([one, other])])
    together = read_words([joined])

    assert together.numbers.tolist() == apart.numbers.tolist() == [0, 1, -1, 2, 3, -1]
    assert together.positions == apart.positions
    assert read_words([joined], across=True).positions == (0, 4, 3, 2, 1, 0)
