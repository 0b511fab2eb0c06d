"""Tests of the plug-in: run `pytest` in this folder, with the package installed."""

import numpy as np
import pytest
from mslm_data_beside import Beside

import mslm_data as md
from mslm_data.mask import MaskKind
from mslm_data.testing import check_strategy


def test_beside__keeps_the_laws() -> None:
    check_strategy(Beside(), seed=3, epoch=2)


def test_plan__hides_the_words_on_both_sides() -> None:
    rows = md.examples([8, 4], keys=[0, 1], spans=[[(0, 2), (4, 5)], []])

    kinds = Beside(chance=1).plan(rows).kinds

    assert np.flatnonzero(kinds[0] == MaskKind.BASE).tolist() == [2, 3, 5]
    assert not kinds[1].any()


def test_options__are_checked() -> None:
    with pytest.raises(ValueError, match="chance"):
        md.strategy("beside", chance=2)
