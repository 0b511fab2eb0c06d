"""A callback of Hugging Face's Trainer that tells rows and collator of each new epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mslm_data import _optional

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    TrainerCallback = _optional.load("transformers", wanted_by="MaskEpochCallback").TrainerCallback


class MaskEpochCallback(TrainerCallback):
    """Set the epoch of the training rows' masks: `Trainer(..., callbacks=[MaskEpochCallback()])`.

    Needed because the Trainer tells a dataset of its epoch with one process only, and a collator
    never (accelerate 1.15). It finds the training dataset and the collator itself.
    """

    def __init__(self, *targets: Any) -> None:
        """Choose whom to tell.

        Args:
            *targets: Objects with `set_epoch`; without any, the training dataset and the collator.
        """
        self._targets = targets

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Tell the targets which epoch begins, or which one a checkpoint resumes."""
        # The Trainer counts epochs in steps, as a float: 1.9999999 is the epoch after two passes.
        epoch = int((state.epoch or 0) + 1e-6)
        for target in self._targets or _found(kwargs.get("train_dataloader")):
            if hasattr(target, "set_epoch"):
                target.set_epoch(epoch)


def _found(loader: Any) -> list[Any]:
    """Return the dataset and the collator of a loader, also where the Trainer has wrapped them."""
    collator = getattr(loader, "collate_fn", None)

    return [getattr(loader, "dataset", None), collator, getattr(collator, "data_collator", None)]
