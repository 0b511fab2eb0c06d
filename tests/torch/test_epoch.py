from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

from mslm_data.torch.data.epoch import Epoch

HOW = "call set_epoch"


def watched(epoch: Epoch, batches: list[list[int]]) -> list[int]:
    """Return the numbers of the batches that issue a warning."""
    warned = []
    for number, keys in enumerate(batches):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            epoch.watch(np.array(keys, np.uint64), HOW)
        warned += [number] * len(said)

    return warned


def test_watch__warns_at_the_second_batch_of_a_repeated_pass() -> None:
    batches = [[1, 2], [3, 4], [5, 6]]

    assert watched(Epoch(0), batches * 3) == [4]


def test_watch__finds_rows_of_the_second_batch_in_any_order() -> None:
    shuffled = [[4, 9], [1, 6], [2, 5], [3, 8]]

    assert watched(Epoch(), [[1, 2], [3, 4], [5, 6], *shuffled]) == [6]


def test_watch__warns_of_two_exchanged_batches() -> None:
    assert watched(Epoch(), [[1, 2], [3, 4], [3, 1], [4, 2]]) == [3]


def test_watch__ignores_rows_that_fill_the_last_batch() -> None:
    """Distributed samplers repeat rows to give all ranks the same number."""
    filled_up = [[1, 2], [3, 4], [5, 1], [2, 1]]

    assert watched(Epoch(), filled_up) == []


def test_watch__restarts_with_each_epoch() -> None:
    epoch = Epoch()
    batches = [[1, 2], [3, 4], [5, 6]]
    warned = []
    for number in range(3):
        epoch.set(number)
        warned += watched(epoch, batches)

    assert warned == []


def test_watch__forgets_the_rows_seen_in_an_earlier_epoch() -> None:
    """One of the two marked rows is seen again in each epoch."""
    epoch = Epoch(0)
    warned = watched(epoch, [[1, 2], [3, 4], [3, 5]])

    epoch.set(1)
    warned += watched(epoch, [[1, 2], [3, 4], [4, 5]])

    assert warned == []


def test_watch__remembers_the_rows_of_a_small_second_batch() -> None:
    assert watched(Epoch(), [[1], [2], [3], [1], [2]]) == [4]
    assert watched(Epoch(), [[1], [2], [], [3]]) == []


def test_set__to_the_current_epoch_changes_nothing() -> None:
    epoch = Epoch(3)
    batches = [[1, 2], [3, 4]]

    warned = watched(epoch, batches)
    epoch.set(3)

    assert warned + watched(epoch, batches) == [1]
    assert epoch.now == 3


@pytest.mark.parametrize("wrong", [-1, 1.0, "1", 2**63])
def test_set__refuses_invalid_epochs(wrong: object) -> None:
    with pytest.raises(ValueError, match="epoch: expected an integer"):
        Epoch().set(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epoch: expected an integer"):
        Epoch(wrong)  # type: ignore[arg-type]


def test_known__refuses_an_unset_epoch() -> None:
    epoch = Epoch()

    assert epoch.now is None
    with pytest.raises(ValueError, match=r"epoch: not set, .*; call set_epoch"):
        epoch.require(HOW)
    epoch.set(0)
    assert epoch.require(HOW) == epoch.now == 0
