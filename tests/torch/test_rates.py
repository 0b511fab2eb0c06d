"""The loss of masked diffusion in models and trainers: divided by rates and by tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from transformers import TrainingArguments, default_data_collator  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import (  # noqa: E402
    MaskedDataset,
    MaskingCollator,
    MaskSpecificLoss,
    MslmModel,
    MslmTrainer,
    count_tokens,
)
from tests import made as made_shards  # noqa: E402
from tests.torch.families import batch, masked_lm  # noqa: E402

ROWS = 8


def given() -> dict[str, Any]:
    made = batch(ROWS)
    return {**made, "mask_rates": torch.linspace(0.1, 1, ROWS)}


def wrapped(**options: Any) -> Any:
    """Return a fixed model in training mode, without dropout."""
    model = MslmModel.wrap(masked_lm(), w_elm=0.6, w_blm=0.4, dropout=0.0, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


def test_forward__divides_by_rates_and_once_by_the_tokens() -> None:
    made = given()
    model = wrapped(per_rate=True)

    loss = model(**made).loss

    logits = model.masked_lm(made["input_ids"], made["attention_mask"]).logits
    by_rate = MaskSpecificLoss(0.6, 0.4, per_rate=True)
    total = by_rate(logits, made["labels"], made["mask_kinds"], made["mask_rates"])
    torch.testing.assert_close(loss, total / (made["bio"] != -100).sum())


def test_count_tokens__adds_up_batches_to_the_loss_of_the_step() -> None:
    made = given()
    halves = [{name: x[i : i + 4] for name, x in made.items()} for i in (0, 4)]
    model = wrapped(per_rate=True)

    tokens = count_tokens(halves)
    losses = [model(**half, num_items_in_batch=tokens).loss for half in halves]

    torch.testing.assert_close(sum(losses), model(**made).loss)


def test_forward__names_missing_arguments() -> None:
    made = given()
    model = wrapped(per_rate=True)

    with pytest.raises(ValueError, match="expected mask_rates with per_rate=True"):
        model(**{name: x for name, x in made.items() if name != "mask_rates"})
    with pytest.raises(ValueError, match="the batch has no 'bio', which marks the tokens"):
        model(**{name: x for name, x in made.items() if name != "bio"})


@pytest.mark.parametrize("size", [2, 8])
def test_mslm_trainer__loss_does_not_depend_on_the_batch_size(size: int, tmp_path: Path) -> None:
    made = given()
    rows = [{name: x[i] for name, x in made.items()} for i in range(ROWS)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=size,
        per_device_eval_batch_size=size,
        gradient_accumulation_steps=ROWS // size,
        max_steps=1,
        learning_rate=0.0,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = MslmTrainer(
        model=wrapped(per_rate=True),
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=default_data_collator,
    )

    trainer.train()

    expected = wrapped(per_rate=True).eval()(**made).loss.item()
    logged = [log["mslm_loss"] for log in trainer.state.log_history if "mslm_loss" in log]
    assert logged == [pytest.approx(expected, rel=1e-4)]
    assert trainer.evaluate()["eval_mslm_loss"] == pytest.approx(expected, rel=1e-5)


def at_epoch_2(loader: Any) -> Any:
    loader.set_epoch(2)
    return loader


def test_collator__and_loader_return_the_rates_of_the_plan(tmp_path: Path) -> None:
    made_shards.built(tmp_path / "out")
    train = md.load(tmp_path / "out")["train"]
    strategy = md.strategy("diffusion", units="mentions")
    plan = strategy.plan(train.examples(0, 6), seed=3, epoch=2)
    data = MaskedDataset(train, strategy, seed=3)
    of_rows, packed = (
        next(iter(at_epoch_2(data.loader(6, shuffle=False, flat=flat)))) for flat in (False, True)
    )
    collator = MaskingCollator(strategy, train, seed=3, epoch=2)
    of_dicts = collator([train[row] for row in range(6)])

    assert plan.rates is not None
    assert of_rows["mask_rates"].dtype == torch.float32
    assert of_rows["mask_rates"].tolist() == of_dicts["mask_rates"].tolist() == plan.rates.tolist()
    rates = packed["mask_rates"][packed["sequence_ids"] >= 0].tolist()
    assert rates == plan.rates.repeat(train.examples(0, 6).input_ids.lengths).tolist()
