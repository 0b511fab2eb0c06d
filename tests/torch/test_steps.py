"""Gradient accumulation with Hugging Face's own Trainer: a step is a step, however many batches it sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from transformers import Trainer, TrainingArguments  # noqa: E402

from mslm_data.torch import CountedSteps, MslmModel  # noqa: E402
from mslm_data.torch.steps import counts_of  # noqa: E402
from tests.reference import loss as twin  # noqa: E402
from tests.torch.families import batch, masked_lm  # noqa: E402

GIVEN = batch(8)
ONLY_MASKS = ("input_ids", "attention_mask", "labels", "mask_kinds")


class JointTrainer(CountedSteps, Trainer):
    """What the docstring of `CountedSteps` says to write."""


def step(
    kind: Any, folder: Path, batches: int, names: tuple[str, ...], reduction: str = "mean"
) -> tuple[float, dict[str, Any]]:
    """Train one step of eight rows in so many batches; return its loss and the weights after it."""
    model = MslmModel.wrap(
        masked_lm(), labels=["Drug", "Gene"], w_elm=0.6, w_blm=0.4, reduction=reduction, dropout=0.0
    )
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows = [{name: GIVEN[name][i] for name in names} for i in range(8)]
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8 // batches, gradient_accumulation_steps=batches,
        max_steps=1, optim="sgd", learning_rate=0.5, lr_scheduler_type="constant", max_grad_norm=0.0, logging_steps=1,
        save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = kind(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    return trainer.state.log_history[0]["loss"], {
        k: x.clone() for k, x in model.state_dict().items()
    }


def assert_same_step(
    one: tuple[float, dict[str, Any]], other: tuple[float, dict[str, Any]]
) -> None:
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    for name, x in one[1].items():
        torch.testing.assert_close(x, other[1][name], rtol=1e-4, atol=1e-6)


def test_trainer__takes_the_same_step_for_any_accumulation(tmp_path: Path) -> None:
    whole = step(Trainer, tmp_path, 1, ONLY_MASKS)

    parts = [step(Trainer, tmp_path, batches, ONLY_MASKS) for batches in (4, 8)]

    with torch.no_grad():
        logits = masked_lm()(
            GIVEN["input_ids"], attention_mask=GIVEN["attention_mask"]
        ).logits.numpy()
    by_hand = twin.mask_specific(
        logits, GIVEN["labels"].numpy(), GIVEN["mask_kinds"].numpy(), 0.6, 0.4, "mean"
    )
    assert whole[0] == pytest.approx(by_hand, rel=1e-4)
    for part in parts:
        assert_same_step(part, whole)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_counted_steps__make_the_joint_loss_exact(reduction: str, tmp_path: Path) -> None:
    whole = step(JointTrainer, tmp_path, 1, tuple(GIVEN), reduction)

    parts = step(JointTrainer, tmp_path, 4, tuple(GIVEN), reduction)

    assert_same_step(parts, whole)
    assert_same_step(step(Trainer, tmp_path, 1, tuple(GIVEN), reduction), whole)


def test_trainer__keeps_the_joint_losses_in_proportion(tmp_path: Path) -> None:
    # without CountedSteps Eq. 8 and 11 have each batch's share of masked tokens: near, and never times the batches
    whole = step(Trainer, tmp_path, 1, tuple(GIVEN))

    parts = step(Trainer, tmp_path, 4, tuple(GIVEN))

    assert parts[0] == pytest.approx(whole[0], rel=0.02)


def test_counts_of__counts_what_the_losses_divide_by() -> None:
    counts = counts_of([GIVEN, {"input_ids": GIVEN["input_ids"][:3]}])

    tagged, mentions = (GIVEN["bio"] >= 0).sum(), (GIVEN["span_labels"] >= 0).sum()
    assert counts.tolist() == [int((GIVEN["labels"] >= 0).sum()), int(tagged), int(mentions), 8 + 3]


def test_trainer__evaluates_and_gives_tag_logits_alone(tmp_path: Path) -> None:
    model = MslmModel.wrap(masked_lm(), labels=["Drug", "Gene"], w_elm=0.6, w_blm=0.4)
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(8)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_eval_batch_size=8,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )

    found = Trainer(model=model, args=arguments).predict(rows)

    with torch.no_grad():
        out = model(**GIVEN)
    assert found.metrics["test_loss"] == pytest.approx(out.loss.item(), rel=1e-5)
    assert found.predictions == pytest.approx(out.tag_logits.numpy(), abs=1e-5)
