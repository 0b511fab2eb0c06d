from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.lexicon.ngrams.stream import Scratch


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=5), st.integers(0, 99))
def test_scratch__holds_what_was_added_in_memory_or_on_disk(parts, in_memory) -> None:
    scratch = Scratch(np.int32, in_memory=in_memory)
    for part in parts:
        scratch.append(np.array(part, np.int32))

    array = scratch.array()

    assert array.tolist() == [item for part in parts for item in part]
    assert array.dtype == np.int32
    assert array.flags.writeable == (4 * len(array) <= in_memory)
