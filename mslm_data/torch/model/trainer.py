"""Hugging Face's Trainer for an `MslmModel`: exact gradient accumulation, separate loss logs."""

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
from mslm_data.torch.model.checks import check_training, is_mslm, unwrap_datasets
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
    """Train an `MslmModel` as Hugging Face's Trainer does, with five differences.

    * It counts all items of an optimizer step, not masked tokens alone. So each part of Eq. 12 is
      exact for any `gradient_accumulation_steps` and any number of ranks: 32 batches of one row
      take the step of one batch of 32.
    * Beside `loss` it logs `mslm_loss` (Eq. 6), `detection_loss` (Eq. 8) and `classification_loss`
      (Eq. 11), which add up to it; beside `eval_loss`, `eval_mslm_loss` and so on. Losses of an
      evaluation are divided once, by the items of all its batches, so that they do not depend on
      how rows fall into batches. With several ranks the Trainer may repeat a few rows to fill up
      the last batches. `compute_metrics` gets all rows of a `MaskedLoader`, on one rank.
    * `train_dataset`, `eval_dataset` and what `predict` gets may be a `MaskedLoader`, whose batches
      it takes as they are: filled by tokens, packed, in buckets. `per_device_train_batch_size` is
      unused then.
    * It tells rows and collator of each epoch, as `MaskEpochCallback` does in any other Trainer.
    * Without a `data_collator` it takes `MaskingCollator()`, for rows of a `MaskedDataset`; tensors
      that are masked already need `transformers.default_data_collator`.

    It refuses rows of another tokenizer, or with other labels, than the model's.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take what Hugging Face's Trainer takes.

        Raises:
            TypeError: The model is not an `MslmModel`.
            ValueError: See `check_training`; or nobody says when the masks of the rows to evaluate
                change.
            PushError: See `check_training`.
        """
        super().__init__(*args, **options)
        if not is_mslm(self.model):
            raise TypeError(
                f"MslmTrainer: expected an MslmModel, got {type(self.model).__name__}; pass "
                "MslmModel.wrap(model), or train it with transformers.Trainer"
            )

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
        if not any(
            isinstance(known, MaskEpochCallback) for known in self.callback_handler.callbacks
        ):
            self.add_callback(MaskEpochCallback)
        _check_epochs(self.eval_dataset, besides=self.train_dataset)
        self._part_sums: dict[str, Tensor] = {}
        self._summed_from_step = 0
        self._evaluated: dict[str, LossSum] = {}

    def train(self, *args: Any, **options: Any) -> Any:
        """Train. Logged parts of the loss start from zero."""
        self._part_sums = {}
        return super().train(*args, **options)

    def get_train_dataloader(self) -> Any:
        """Return the training batches; a `MaskedLoader` is already sharded over ranks."""
        if isinstance(self.train_dataset, MaskedLoader):
            return self.train_dataset.for_trainer()
        # A sampler by length reads all rows before the callback says which epoch begins.
        for rows in _masked_rows(self.train_dataset):
            if rows.epoch is None:
                rows.epoch = 0
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the evaluation batches."""
        chosen: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(chosen, str):  # one of several by name
            named: Any = self.eval_dataset
            chosen = named[chosen]
        if isinstance(chosen, MaskedLoader):
            return chosen.for_trainer()
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Return the batches to predict; predictions have the order of their rows."""
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
        """Compute a batch's share of the loss of its step, and keep its parts for the log.

        In evaluation the loss is that of the batch alone.
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
                share = part.detach().mean() * self._times
                self._part_sums[name] = self._part_sums.get(name, 0) + share

        return (loss, outputs) if return_outputs else loss

    def evaluation_loop(self, dataloader: Any, *args: Any, **options: Any) -> Any:
        """Evaluate, and add each part of the loss over all batches to the metrics.

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
            # The usual function cuts the last batch as that of the training rows is to be cut.
            self.gather_function = self.accelerator.gather
        self._evaluated = {}
        output: Any = super().evaluation_loop(dataloader, *args, **options)
        if not self._evaluated:
            return output

        # Over all ranks. These have the same parts, as they have batches of the same columns.
        own_P2 = torch.stack([torch.stack(part) for part in self._evaluated.values()])
        if self.accelerator.num_processes > 1:
            own_P2 = own_P2.to(self.args.device)  # NCCL wants a GPU
        totals_P, items_P = self.accelerator.gather(own_P2[None]).sum(0).unbind(-1)
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
        """Return the loss and outputs of a batch, and add its sums to those of the evaluation."""
        # Divided by 1, the parts are sums.
        undivided = torch.ones_like(count_batch_items(inputs), dtype=torch.float32).to(
            self.args.device
        )
        if self.args.n_gpu > 1:
            undivided = undivided.expand(self.args.n_gpu, -1)
        _, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=undivided
        )

        batch = {}
        for name, counted in zip(PARTS, count_batch_items(inputs), strict=False):
            part = outputs.get(name)
            if part is None:
                continue
            is_first = name == PARTS[0]
            items = count_normaliser(inputs, self._normaliser) if is_first else counted
            # Added up in float64 on the CPU, as Apple's GPUs have none.
            batch[name] = LossSum(part.detach().cpu().double().sum(), items.cpu().double())
            before = self._evaluated.get(name)
            if before is None:
                self._evaluated[name] = batch[name]
            else:
                total = before.total + batch[name].total
                self._evaluated[name] = LossSum(total, before.items + batch[name].items)

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
        """What the model divides Eq. 6 by."""
        model: Any = self.model
        return str(model.config.normaliser)

    @property
    def _times(self) -> int:
        """Factor by which the Trainer compensates for the average of gradients over ranks."""
        if not self.args.average_tokens_across_devices:
            return 1
        if self.args.n_gpu > 1:
            return int(self.args.n_gpu)
        return int(self.accelerator.num_processes // self.get_tp_size())

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Mapping[str, Tensor]], device: torch.device
    ) -> Tensor:
        """Count all items of a step, not only its masked tokens."""
        counts = count_items(batch_samples, device=device) * self._times
        # DataParallel gives each of its GPUs one row.
        return counts.expand(self.args.n_gpu, -1) if self.args.n_gpu > 1 else counts


def _masked_rows(rows: Any) -> list[FollowsEpoch]:
    """Return the masked datasets below rows, whose epoch must be set."""
    if isinstance(rows, MaskedLoader):  # it knows the epoch
        return []

    inner = [masked for part in unwrap_datasets(rows) for masked in _masked_rows(part)]
    return [rows, *inner] if isinstance(rows, FollowsEpoch) else inner


def _check_epochs(datasets: Any, *, besides: Any) -> None:
    """Check before training that the epoch of the evaluation rows will be known.

    Raises:
        ValueError: Their epoch is not known, and they are not among the rows that are trained on.
    """
    trained = _masked_rows(besides)
    every = datasets.values() if isinstance(datasets, Mapping) else [datasets]
    for rows in [masked for given in every for masked in _masked_rows(given)]:
        if rows.epoch is None and rows not in trained:
            raise ValueError(
                "MslmTrainer: the masks of eval_dataset depend on an epoch that is never set; pass "
                "MaskedDataset(..., static=True)"
            )
