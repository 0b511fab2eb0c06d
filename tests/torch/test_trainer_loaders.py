"""A `MaskedLoader` in the Trainer: the rows of metrics, and the log of each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from transformers import Trainer, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MaskingCollator, MslmModel, MslmTrainer
from tests import made
from tests.torch.families import masked_lm
from tests.torch.shards import JOINT
from tests.torch.test_steps import PARTS, no_accelerator  # noqa: F401 - a fixture of these tests


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return md.load(out)


def trainer(shards: Any, folder: Path, **options: Any) -> Any:
    """Return a trainer whose last training batch is incomplete, but no evaluation batch."""
    ids = shards["train"].token_ids
    model = MslmModel.wrap(
        masked_lm(vocab_size=ids.size, pad_token_id=ids.pad, max_position_embeddings=512),
        labels=shards.labels,
    )
    return MslmTrainer(
        model=model,
        args=TrainingArguments(
            str(folder),
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            per_device_train_batch_size=7,
            logging_steps=5,
            num_train_epochs=1,
        ),
        train_dataset=MaskedDataset(shards["train"], JOINT),
        data_collator=MaskingCollator(),
        **options,
    )


def test_loader__error_in_a_plain_trainer_names_mslm_trainer(shards: Any, tmp_path: Path) -> None:
    rows = MaskedDataset(shards["train"], JOINT)
    ids = shards["train"].token_ids
    model = masked_lm(vocab_size=ids.size, pad_token_id=ids.pad, max_position_embeddings=512)
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], max_steps=1)

    plain = Trainer(model=model, args=args, train_dataset=rows.loader(batch_size=4))

    with pytest.raises(TypeError, match="MslmTrainer takes a loader as train_dataset"):
        plain.train()


def test_trainer__computes_metrics_over_all_rows_of_a_loader(shards: Any, tmp_path: Path) -> None:
    rows = MaskedDataset(shards["test"], JOINT, static=True)
    seen: list[int] = []

    def count(evaluated: Any) -> dict[str, float]:
        seen.append(len(evaluated.predictions))
        return {}

    one = trainer(shards, tmp_path, eval_dataset=rows.loader(batch_size=8), compute_metrics=count)
    one.train()
    one.evaluate()

    assert len(shards["train"]) % 7
    assert seen == [len(rows)]


def test_trainer__predicts_the_rows_of_a_loader(shards: Any, tmp_path: Path) -> None:
    rows = MaskedDataset(shards["test"], JOINT, static=True)
    one = trainer(shards, tmp_path)

    by_tokens = one.predict(rows.loader(batch_tokens=512))
    by_rows = one.predict(rows)

    assert len(by_tokens.predictions) == len(by_tokens.label_ids) == len(rows)
    assert by_tokens.metrics["test_loss"] == pytest.approx(by_rows.metrics["test_loss"], rel=1e-4)


def test_trainer__refuses_metrics_of_a_loader_on_several_ranks(
    shards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = MaskedDataset(shards["test"], JOINT, static=True)
    loader = rows.loader(batch_size=8)
    one = trainer(shards, tmp_path, eval_dataset=loader, compute_metrics=lambda _: {})
    monkeypatch.setattr(type(one.accelerator), "num_processes", 2)

    with pytest.raises(ValueError, match="compute_metrics and predict cannot be used"):
        one.evaluation_loop(loader.for_trainer(), "Evaluation")


def test_compute_loss__parts_for_the_log_keep_no_graph(shards: Any, tmp_path: Path) -> None:
    """Otherwise the graphs of all steps between two logs stay in memory."""
    one = trainer(shards, tmp_path)
    one.model.train()
    batch = next(iter(MaskedDataset(shards["train"], JOINT).loader(batch_size=4)))

    loss = one.compute_loss(one.model, batch)

    assert loss.requires_grad
    assert one._logged.keys() == {*PARTS}
    assert not any(part.requires_grad for part in one._logged.values())


def test_trainer__logs_parts_of_each_run_separately(shards: Any, tmp_path: Path) -> None:
    one = trainer(shards, tmp_path)

    for _ in range(2):
        one.train()
        (logged,) = [entry for entry in one.state.log_history if "loss" in entry]
        assert sum(logged[name] for name in PARTS) == pytest.approx(logged["loss"], rel=1e-3)
