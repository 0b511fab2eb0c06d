"""A callback for Hugging Face's Trainer: sets the epoch of masks and checks the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mslm_data import _optional
from mslm_data.torch.data.collator import MaskingCollator
from mslm_data.torch.data.loader import TrainerBatches
from mslm_data.torch.model.checks import check_shareable, check_training, mark_protected

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    TrainerCallback = _optional.load("transformers", wanted_by="MaskEpochCallback").TrainerCallback


class MaskEpochCallback(TrainerCallback):
    """Set the epoch of the training masks: `Trainer(..., callbacks=[MaskEpochCallback()])`.

    The Trainer does not pass the epoch to a loader's batches or to a collator, which raise an error
    without one. The callback finds both in the Trainer. `MslmTrainer` adds it by default.

    When training begins, it checks that tokenizer and labels of the rows match the model, and that
    flat rows do not attend to each other. It sets `config.protected` of an `MslmModel` that is
    trained on patients' text, which prevents uploads.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Check rows and model, and mark a model that is trained on patients' text.

        Raises:
            ValueError: See `check_training`.
            PushError: See `check_training`.
        """
        loader, model = kwargs.get("train_dataloader"), kwargs.get("model")
        datasets, collator = getattr(loader, "dataset", None), _find_collator(loader)
        check_training(
            "MaskEpochCallback", arguments=args, model=model, datasets=datasets, collator=collator
        )
        mark_protected(model, datasets, [collator])

    def on_push_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Check that a model to upload is not trained on patients' text.

        Raises:
            PushError: The model is trained on patients' text.
        """
        loaders = {name: kwargs.get(f"{name}_dataloader") for name in ("train", "eval")}
        collators = [_find_collator(loader) for loader in loaders.values()]
        check_shareable("Trainer.push_to_hub", kwargs.get("model"), loaders, collators)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Set the epoch, also after resuming from a checkpoint."""
        loader = kwargs.get("train_dataloader")
        for target in (getattr(loader, "dataset", None), _find_collator(loader)):
            if isinstance(target, MaskingCollator | TrainerBatches):
                # The Trainer's epoch is a float, steps / steps per epoch: after two passes it may
                # be 1.9999999.
                target.epoch = int((state.epoch or 0) + 1e-6)


def _find_collator(loader: Any) -> Any:
    """Return the collator of a loader; the Trainer wraps it to remove columns."""
    collator = getattr(loader, "collate_fn", None)
    return getattr(collator, "data_collator", collator)
