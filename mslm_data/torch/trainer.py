"""Hugging Face's Trainer for an `MslmModel`: exact steps, and parts of the loss logged apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.torch.steps import PARTS, count_items

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = _optional.load("transformers", wanted_by="MslmTrainer").Trainer


class MslmTrainer(Trainer):
    """Train an `MslmModel` as Hugging Face's Trainer does, with two differences.

    * It counts all items of an optimizer step, not masked tokens alone. So each part of Eq. 12 is
      exact for any `gradient_accumulation_steps` and any number of ranks: 32 batches of one row
      take the step of one batch of 32.
    * Beside `loss` it logs `mslm_loss` (Eq. 6), `detection_loss` (Eq. 8) and `classification_loss`
      (Eq. 11), which add up to it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take what Hugging Face's Trainer takes."""
        super().__init__(*args, **options)
        self._part_sums: dict[str, Tensor] = {}
        self._summed_from_step = 0

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute a batch's share of the loss of its step, and remember its parts for the log."""
        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )

        if model.training:
            if not self._part_sums:
                self._summed_from_step = self.state.global_step
            for name in PARTS:
                part = outputs.get(name)
                if part is not None:
                    share = part.detach().mean() * self._times
                    self._part_sums[name] = self._part_sums.get(name, 0) + share

        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the parts of the loss beside the loss."""
        if "loss" in logs and self._part_sums:
            steps = max(self.state.global_step - self._summed_from_step, 1)
            sums_P = torch.stack(list(self._part_sums.values()))
            means_P = self.accelerator.gather(sums_P).view(-1, len(sums_P)).mean(0) / steps
            logs |= dict(zip(self._part_sums, means_P.tolist(), strict=True))
            self._part_sums = {}
        super().log(logs, start_time)

    @property
    def _times(self) -> int:
        """The factor by which the Trainer makes up for gradients being averaged over ranks."""
        if not self.args.average_tokens_across_devices:
            return 1
        if self.args.n_gpu > 1:
            return int(self.args.n_gpu)
        return int(self.accelerator.num_processes // self.get_tp_size())

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Mapping[str, Tensor]], device: torch.device
    ) -> Tensor:
        """Count the items of a step, in place of its masked tokens alone."""
        counts = count_items(batch_samples, device=device) * self._times
        # DataParallel gives each of its GPUs one row.
        return counts.expand(self.args.n_gpu, -1) if self.args.n_gpu > 1 else counts
