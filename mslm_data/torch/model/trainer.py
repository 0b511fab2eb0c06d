"""Hugging Face's Trainer for an `MslmModel`: exact gradient accumulation, a log of each loss."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.kernels.pad import IGNORED
from mslm_data.torch.data.loader import MaskedLoader, TrainerBatches
from mslm_data.torch.model.callbacks import MaskEpochCallback
from mslm_data.torch.model.checks import check_training, is_mslm
from mslm_data.torch.model.steps import PARTS, tags

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = _optional.load("transformers", wanted_by="MslmTrainer").Trainer


class MslmTrainer(Trainer):
    """Train an `MslmModel` with Hugging Face's Trainer, with four differences.

    * It counts all non-special tokens of an optimizer step, not only masked tokens, so the loss is
      exact for any `gradient_accumulation_steps` and number of ranks: 32 batches of one row give
      the same step as one batch of 32 rows.
    * Next to `loss`, it logs `mslm_loss` (Eq. 6), `detection_loss` (Eq. 8) and
      `classification_loss` (Eq. 11), which add up to it; in evaluation `eval_mslm_loss` and so on.
      Evaluation losses are divided once, by the tokens of all batches, so they do not depend on the
      batch size. With several ranks, the Trainer may repeat a few rows to fill the last batches.
      `compute_metrics` gets the logits of the tags with the tags of the rows, `bio`.
      For a `MaskedLoader`, `compute_metrics` gets all rows, and needs a single rank.
    * `train_dataset`, `eval_dataset` and the argument of `predict` may be a `MaskedLoader`, whose
      batches are used as they are. `per_device_train_batch_size` is then ignored.
    * It sets the epoch of a loader or a `MaskingCollator`, like `MaskEpochCallback` in other
      Trainers.

    Tokenizer and labels of the rows must match those of the model.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments of Hugging Face's Trainer.

        Raises:
            TypeError: The model is not an `MslmModel`, or rows have no collator.
            ValueError: See `check_training`; or a model without labels is given `compute_metrics`,
                or several processes train separate models.
            PushError: See `check_training`.
        """
        super().__init__(*args, **options)
        if not is_mslm(self.model):
            raise TypeError(
                f"MslmTrainer: expected an MslmModel, got {type(self.model).__name__}; pass "
                "MslmModel.wrap(model), or train it with transformers.Trainer"
            )

        _check_processes(self.args.world_size)
        wrapped: Any = self.model
        if self.compute_metrics is not None and not wrapped.config.labels:
            raise ValueError(
                "MslmTrainer: compute_metrics needs logits, which a model without labels does not "
                "return; wrap the model with labels=..., or use eval_loss"
            )

        # The model divides by the tokens of the step, and its logits are those of `bio`.
        self.model_accepts_loss_kwargs = True
        if self.args.label_names is None:
            self.label_names = ["bio"]

        # The Trainer has set a default collator of its own by now, so look at the arguments.
        collator = args[2] if len(args) > 2 else options.get("data_collator")
        if collator is None and not isinstance(self.train_dataset, MaskedLoader | None):
            raise TypeError(
                "MslmTrainer: expected a loader, MaskedDataset(split, strategy).loader(...), got "
                f"{type(self.train_dataset).__name__}; for other rows pass "
                "data_collator=MaskingCollator(strategy, tokenizer) too"
            )

        for datasets in (self.train_dataset, self.eval_dataset):
            check_training(
                "MslmTrainer",
                arguments=self.args,
                model=self.model,
                datasets=datasets,
                collator=self.data_collator,
            )
        callbacks = self.callback_handler.callbacks
        if not any(isinstance(callback, MaskEpochCallback) for callback in callbacks):
            self.add_callback(MaskEpochCallback)
        # Sums of the parts since the last log, and of the evaluation that is running.
        self._logged: dict[str, Tensor] = {}
        self._evaluated: dict[str, Tensor] = {}

    def train(self, *args: Any, **options: Any) -> Any:
        """Train. Sums of losses for the log start at zero."""
        self._logged = {}
        return super().train(*args, **options)

    def get_train_dataloader(self) -> Any:
        """Return the training batches; a `MaskedLoader` is already sharded over ranks."""
        if isinstance(self.train_dataset, MaskedLoader):
            return self.train_dataset.for_trainer()
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the evaluation batches; those of a `MaskedLoader` are the same each time."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str):  # a key of several datasets
            datasets: Any = self.eval_dataset
            dataset = datasets[dataset]
        if isinstance(dataset, MaskedLoader):
            return dataset.for_trainer(epoch=0)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Return the batches for `predict`."""
        if isinstance(test_dataset, MaskedLoader):
            return test_dataset.for_trainer(epoch=0)
        return super().get_test_dataloader(test_dataset)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute a batch's share of the step's loss, and sum its parts for the log."""
        if num_items_in_batch is None:
            num_items_in_batch = self._get_num_items_in_batch([inputs], self.args.device)
        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )

        parts = {name: outputs[name].detach().sum() for name in PARTS if name in outputs}
        if model.training:
            _add(self._logged, parts)
        else:
            # Undo the division: the whole evaluation has one divisor.
            divisor = torch.as_tensor(num_items_in_batch).flatten()[0]
            sums = {name: part * divisor for name, part in parts.items()}
            _add(self._evaluated, sums | {"tokens": (tags(inputs) != IGNORED).sum()})
        return (loss, outputs) if return_outputs else loss

    def evaluation_loop(self, dataloader: Any, *args: Any, **options: Any) -> Any:
        """Evaluate; the metrics include each loss, divided by the tokens of all batches.

        Raises:
            ValueError: `compute_metrics` or `predict` with a `MaskedLoader` on several ranks.
        """
        if isinstance(getattr(dataloader, "dataset", None), TrainerBatches):
            loss_only = options.get("prediction_loss_only")
            if loss_only is None:
                loss_only = self.args.prediction_loss_only
            if not loss_only and self.accelerator.num_processes > 1:
                raise ValueError(
                    "MslmTrainer: compute_metrics and predict cannot be used with a MaskedLoader "
                    "on several ranks, whose batches differ in size; run them on one, or pass "
                    "prediction_loss_only=True"
                )
            # The default `gather_for_metrics` would cut the last batch to the remainder of the
            # training rows.
            self.gather_function = self.accelerator.gather
        self._evaluated = {}
        output: Any = super().evaluation_loop(dataloader, *args, **options)
        if not self._evaluated:
            return output

        sums = self._sum_over_ranks(self._evaluated)
        tokens = sums.pop("tokens")
        losses = {name: total / tokens for name, total in sums.items()}

        prefix = options.get("metric_key_prefix", "eval")
        output.metrics.update({f"{prefix}_{name}": loss for name, loss in losses.items()})
        output.metrics[f"{prefix}_loss"] = sum(losses.values())
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the loss with its parts."""
        if "loss" in logs and self._logged:
            # Shares of the loss: ranks, accumulation and the number of steps cancel.
            sums = self._sum_over_ranks(self._logged)
            total = max(sum(sums.values()), sys.float_info.min)
            logs |= {name: logs["loss"] * part / total for name, part in sums.items()}
            self._logged = {}
        super().log(logs, start_time)

    def _sum_over_ranks(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Sum scalars over ranks, whose batches have the same columns, and so the same losses."""
        totals = self.accelerator.reduce(torch.stack(list(sums.values())), reduction="sum")
        return dict(zip(sums, totals.tolist(), strict=True))

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Mapping[str, Tensor]], device: torch.device
    ) -> Any:
        """Count the non-special tokens of a step, where Hugging Face's Trainer counts labels."""
        tagged = [{"labels": tags(batch)} for batch in batch_samples]
        return super()._get_num_items_in_batch(tagged, device)


def _add(sums: dict[str, Tensor], parts: Mapping[str, Tensor]) -> None:
    for name, part in parts.items():
        sums[name] = sums.get(name, 0) + part


def _check_processes(processes: int) -> None:
    """Check that processes started together train one model.

    Raises:
        ValueError: `torchrun` started several, and the Trainer knows of one.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > 1 and processes == 1:
        raise ValueError(
            f"MslmTrainer: {started} processes were started, but each would train a model of its "
            "own; on CPUs, pass use_cpu=True in TrainingArguments"
        )
