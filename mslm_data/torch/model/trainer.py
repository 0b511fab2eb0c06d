"""Hugging Face's Trainer for an `MslmModel`: exact gradient accumulation, a log of each loss.

Dimensions: P losses of Eq. 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.torch.data.collator import MaskingCollator
from mslm_data.torch.data.epoch import FollowsEpoch
from mslm_data.torch.data.loader import MaskedLoader
from mslm_data.torch.data.sampler import EvenEpochs
from mslm_data.torch.model.callbacks import MaskEpochCallback
from mslm_data.torch.model.checks import check_training, is_mslm, iter_datasets
from mslm_data.torch.model.loss import LossSum
from mslm_data.torch.model.steps import (
    PARTS,
    count_batch_items,
    count_items,
    count_normaliser,
    divide,
)

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = _optional.load("transformers", wanted_by="MslmTrainer").Trainer


class MslmTrainer(Trainer):
    """Train an `MslmModel` with Hugging Face's Trainer, with five differences.

    * It counts all items of an optimizer step, not only masked tokens, so each loss of Eq. 12 is
      exact for any `gradient_accumulation_steps` and number of ranks: 32 batches of one row give
      the same step as one batch of 32 rows.
    * Next to `loss`, it logs `mslm_loss` (Eq. 6), `detection_loss` (Eq. 8) and
      `classification_loss` (Eq. 11), which add up to it; in evaluation `eval_mslm_loss` and so on.
      Evaluation losses are divided once, by the items of all batches, so they do not depend on the
      batch size. With several ranks, the Trainer may repeat a few rows to fill the last batches.
      For a `MaskedLoader`, `compute_metrics` gets all rows, and needs a single rank.
    * `train_dataset`, `eval_dataset` and the argument of `predict` may be a `MaskedLoader`, whose
      batches are used as they are: filled by tokens, packed or bucketed.
      `per_device_train_batch_size` is then ignored.
    * It sets the epoch of rows and collator, like `MaskEpochCallback` in other Trainers.
    * The default `data_collator` is `MaskingCollator()`, for rows of a `MaskedDataset`. Use
      `transformers.default_data_collator` for rows that are already masked tensors.

    Tokenizer and labels of the rows must match those of the model.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments of Hugging Face's Trainer.

        Raises:
            TypeError: The model is not an `MslmModel`.
            ValueError: See `check_training`; or the evaluation rows have no epoch.
            PushError: See `check_training`.
        """
        super().__init__(*args, **options)
        if not is_mslm(self.model):
            raise TypeError(
                f"MslmTrainer: expected an MslmModel, got {type(self.model).__name__}; pass "
                "MslmModel.wrap(model), or train it with transformers.Trainer"
            )

        # The Trainer has set a default collator of its own by now, so look at the arguments.
        if (args[2] if len(args) > 2 else options.get("data_collator")) is None:
            self.data_collator = MaskingCollator()
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
        _check_epochs(self.eval_dataset, training_rows=self.train_dataset)
        self._part_sums: dict[str, Tensor] = {}
        self._summed_from_step = 0
        self._evaluated: dict[str, LossSum] = {}

    def train(self, *args: Any, **options: Any) -> Any:
        """Train. Sums of losses for the log start at zero."""
        self._part_sums = {}
        return super().train(*args, **options)

    def get_train_dataloader(self) -> Any:
        """Return the training batches; a `MaskedLoader` is already sharded over ranks."""
        if isinstance(self.train_dataset, MaskedLoader):
            return self.train_dataset.for_trainer()
        # A sampler by length reads all rows before the callback sets the epoch.
        for rows in _find_masked_datasets(self.train_dataset):
            if rows.epoch is None:
                rows.epoch = 0
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the evaluation batches."""
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str):  # a key of several datasets
            datasets: Any = self.eval_dataset
            dataset = datasets[dataset]
        if isinstance(dataset, MaskedLoader):
            return dataset.for_trainer()
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Return the batches for `predict`, in the order of the rows."""
        if isinstance(test_dataset, MaskedLoader):
            return test_dataset.for_trainer()
        return super().get_test_dataloader(test_dataset)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute a batch's share of the step's loss, and sum the parts for the log.

        In evaluation, returns the loss of the batch alone.
        """
        if not model.training:
            loss, outputs = self._evaluation_loss(model, inputs)
            return (loss, outputs) if return_outputs else loss

        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )
        if not self._part_sums:
            self._summed_from_step = self.state.global_step
        for name in PARTS:
            part = outputs.get(name)
            if part is not None:
                share = part.detach().mean() * self._loss_scale
                self._part_sums[name] = self._part_sums.get(name, 0) + share

        return (loss, outputs) if return_outputs else loss

    def evaluation_loop(self, dataloader: Any, *args: Any, **options: Any) -> Any:
        """Evaluate; the metrics include each loss, divided by the items of all batches.

        Raises:
            ValueError: `compute_metrics` or `predict` with a `MaskedLoader` on several ranks.
        """
        if isinstance(getattr(dataloader, "batch_sampler", None), EvenEpochs):
            loss_only = options.get("prediction_loss_only")
            if loss_only is None:
                loss_only = self.args.prediction_loss_only
            if not loss_only and self.accelerator.num_processes > 1:
                raise ValueError(
                    "MslmTrainer: compute_metrics and predict cannot be used with a MaskedLoader "
                    "on several ranks, whose batches differ in size; pass MaskedDataset(..., "
                    "static=True) instead"
                )
            # The default `gather_for_metrics` would cut the last batch to the remainder of the
            # training rows.
            self.gather_function = self.accelerator.gather
        self._evaluated = {}
        output: Any = super().evaluation_loop(dataloader, *args, **options)
        if not self._evaluated:
            return output

        # Sum over ranks. All ranks have the same losses, since their batches have the same columns.
        rank_P2 = torch.stack([torch.stack(part) for part in self._evaluated.values()])
        if self.accelerator.num_processes > 1:
            rank_P2 = rank_P2.to(self.args.device)  # NCCL wants a GPU
        totals_P, items_P = self.accelerator.gather(rank_P2[None]).sum(0).unbind(-1)
        sums = {
            name: LossSum(total, items)
            for name, total, items in zip(self._evaluated, totals_P, items_P, strict=True)
        }

        losses = divide(sums, balance=self._balance)
        prefix = options.get("metric_key_prefix", "eval")
        output.metrics.update({f"{prefix}_{name}": loss.item() for name, loss in losses.items()})
        output.metrics[f"{prefix}_loss"] = torch.stack(list(losses.values())).sum().item()
        return output

    def _evaluation_loss(self, model: Any, inputs: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return loss and outputs of a batch, and add its sums to `_evaluated`."""
        # With all counts 1, the model returns sums.
        ones = torch.ones_like(count_batch_items(inputs), dtype=torch.float32).to(self.args.device)
        if self.args.n_gpu > 1:
            ones = ones.expand(self.args.n_gpu, -1)
        _, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=ones
        )

        batch = {}
        for name, count in zip(PARTS, count_batch_items(inputs), strict=False):
            part = outputs.get(name)
            if part is None:
                continue
            is_first = name == PARTS[0]
            items = count_normaliser(inputs, self._normaliser) if is_first else count
            # Summed in float64 on the CPU, since Apple GPUs lack float64.
            batch[name] = LossSum(part.detach().cpu().double().sum(), items.cpu().double())
            previous = self._evaluated.get(name)
            if previous is None:
                self._evaluated[name] = batch[name]
            else:
                total = previous.total + batch[name].total
                self._evaluated[name] = LossSum(total, previous.items + batch[name].items)

        losses = divide(batch, balance=self._balance)
        loss = torch.stack(list(losses.values())).sum().to(torch.float32)
        return loss.to(self.args.device), outputs

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the loss with its parts."""
        if "loss" in logs and self._part_sums:
            steps = max(self.state.global_step - self._summed_from_step, 1)
            sums_P = torch.stack(list(self._part_sums.values()))
            means_P = self.accelerator.gather(sums_P).view(-1, len(sums_P)).mean(0) / steps
            logs |= dict(zip(self._part_sums, means_P.tolist(), strict=True))
            self._part_sums = {}
        super().log(logs, start_time)

    @property
    def _balance(self) -> str:
        model: Any = self.model
        return str(model.config.balance)

    @property
    def _normaliser(self) -> str:
        """The divisor of Eq. 6."""
        model: Any = self.model
        return str(model.config.normaliser)

    @property
    def _loss_scale(self) -> int:
        """The Trainer's factor to undo the averaging of gradients over ranks."""
        if not self.args.average_tokens_across_devices:
            return 1
        if self.args.n_gpu > 1:
            return int(self.args.n_gpu)
        return int(self.accelerator.num_processes // self.get_tp_size())

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Mapping[str, Tensor]], device: torch.device
    ) -> Tensor:
        """Count all items of a step; the Trainer's own method counts only masked tokens."""
        counts = count_items(batch_samples, device=device) * self._loss_scale
        # DataParallel splits the first dimension over GPUs: give each GPU a row of counts.
        return counts.expand(self.args.n_gpu, -1) if self.args.n_gpu > 1 else counts


def _find_masked_datasets(rows: Any) -> list[FollowsEpoch]:
    """Return the datasets in `rows` whose epoch must be set."""
    if isinstance(rows, MaskedLoader):  # it knows the epoch
        return []
    return [inner for inner in iter_datasets(rows) if isinstance(inner, FollowsEpoch)]


def _check_epochs(datasets: Any, *, training_rows: Any) -> None:
    """Check before training that the epoch of the evaluation rows will be set.

    Raises:
        ValueError: They have no epoch, and are not training rows, whose epoch the callback sets.
    """
    trained = _find_masked_datasets(training_rows)
    every = datasets.values() if isinstance(datasets, Mapping) else [datasets]
    for rows in [masked for dataset in every for masked in _find_masked_datasets(dataset)]:
        if rows.epoch is None and rows not in trained:
            raise ValueError(
                "MslmTrainer: the masks of eval_dataset depend on an epoch that is never set; pass "
                "MaskedDataset(..., static=True)"
            )
