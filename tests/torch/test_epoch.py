from __future__ import annotations

import pytest

pytest.importorskip("torch")

from mslm_data.torch.data.epoch import Epoch

HOW = "set collator.epoch"


@pytest.mark.parametrize("wrong", [-1, 1.0, "1", 2**63])
def test_set__refuses_invalid_epochs(wrong: object) -> None:
    with pytest.raises(ValueError, match="epoch: expected an integer"):
        Epoch().set(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epoch: expected an integer"):
        Epoch(wrong)  # type: ignore[arg-type]


def test_require__refuses_an_unset_epoch() -> None:
    epoch = Epoch()

    assert epoch.now is None
    with pytest.raises(ValueError, match=r"epoch: not set, .*; set collator.epoch"):
        epoch.require(HOW)
    epoch.set(0)
    assert epoch.require(HOW) == epoch.now == 0
