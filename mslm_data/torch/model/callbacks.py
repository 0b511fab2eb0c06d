"""A callback for Hugging Face's Trainer: sets the epoch of masks and checks the options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mslm_data import _optional
from mslm_data.torch.data.epoch import FollowsEpoch
from mslm_data.torch.model.checks import (
    check_shareable,
    check_training,
    mark_protected,
    unwrap_datasets,
)

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    TrainerCallback = _optional.load("transformers", wanted_by="MaskEpochCallback").TrainerCallback


class MaskEpochCallback(TrainerCallback):
    """Set the epoch of the training rows' masks: `Trainer(..., callbacks=[MaskEpochCallback()])`.

    `MslmTrainer` has one already.

    Needed because the Trainer does not tell its rows and their collator which epoch begins: they
    refuse to mask rows before they know. It finds the training dataset and the collator itself.

    Where training begins it refuses rows of another tokenizer or with other labels than the
    model's, and packed rows in a model that lets them see each other. `MslmTrainer` does so by
    itself. An `MslmModel` that is to learn from patients'
    text is marked as one (`config.protected`), so that it is not uploaded later on.
    """

    def __init__(self, *targets: Any) -> None:
        """Choose whom to tell.

        Args:
            *targets: Masked rows, collators, or objects with `set_epoch`; without any, the training
                dataset, the collator, and what deals out batches.

        Raises:
            TypeError: One has no epoch, such as a split.
        """
        for target in targets:
            if not (isinstance(target, FollowsEpoch) or hasattr(target, "set_epoch")):
                raise TypeError(
                    "MaskEpochCallback: expected masked rows, a loader or a collator, got "
                    f"{type(target).__name__}, which has no epoch"
                )
        self._targets = targets

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Check rows and model, and mark a model that is trained on patients' text.

        Raises:
            ValueError: See `check_training`.
            PushError: The same.
        """
        loader, model = kwargs.get("train_dataloader"), kwargs.get("model")
        datasets, collator = getattr(loader, "dataset", None), _find_collator(loader)
        check_training(
            "MaskEpochCallback", arguments=args, model=model, datasets=datasets, collator=collator
        )
        mark_protected(model, datasets, [collator])

    def on_push_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Raise an error before a model trained on patients' text is uploaded.

        Raises:
            PushError: It does.
        """
        loaders = {name: kwargs.get(f"{name}_dataloader") for name in ("train", "eval")}
        collators = [_find_collator(loader) for loader in loaders.values()]
        check_shareable("Trainer.push_to_hub", kwargs.get("model"), loaders, collators)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Set the epoch of all targets, also when training resumes from a checkpoint."""
        # The Trainer counts epochs in steps, as a float: 1.9999999 is the epoch after two passes.
        epoch = int((state.epoch or 0) + 1e-6)
        for target in self._targets or _found(kwargs.get("train_dataloader")):
            if isinstance(target, FollowsEpoch):
                target.epoch = epoch
            elif hasattr(target, "set_epoch"):
                target.set_epoch(epoch)


def _found(loader: Any) -> list[Any]:
    """Return the datasets, collator and samplers of a loader that follow the epoch."""
    return [*_below(loader), _find_collator(loader), getattr(loader, "batch_sampler", None)]


def _below(rows: Any) -> Iterator[Any]:
    """Yield a dataset and the datasets inside it, of subsets and concatenations too."""
    for inner in unwrap_datasets(rows):
        yield inner
        yield from _below(inner)


def _find_collator(loader: Any) -> Any:
    """Return the collator of a loader, unwrapped from the one of the Trainer."""
    collator = getattr(loader, "collate_fn", None)
    return getattr(collator, "data_collator", collator)
