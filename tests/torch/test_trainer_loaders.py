"""A `MaskedLoader` in the Trainer: the rows of metrics, and the log of each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from transformers import Trainer, TrainerState, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MaskEpochCallback, MslmModel, MslmTrainer
from tests import made
from tests.torch.families import masked_lm
from tests.torch.shards import JOINT, all_lists
from tests.torch.test_steps import PARTS, no_accelerator  # noqa: F401 - a fixture of these tests


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return md.load(out)


def model_of(shards: Any) -> Any:
    ids = shards["train"].token_ids
    return masked_lm(vocab_size=ids.size, pad_token_id=ids.pad, max_position_embeddings=512)


SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"batch_size": 7},
    "tokens": {"batch_tokens": 128, "bucketed": False},
    "flat": {"batch_tokens": 256, "flat": True},
}


def trainer(shards: Any, folder: Path, **options: Any) -> Any:
    """Return a trainer whose last training batch is incomplete, but no evaluation batch."""
    return MslmTrainer(
        model=MslmModel.wrap(model_of(shards), labels=shards.labels),
        args=TrainingArguments(
            str(folder),
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=5,
            num_train_epochs=1,
        ),
        train_dataset=MaskedDataset(shards["train"], JOINT).loader(7),
        **options,
    )


@pytest.mark.parametrize("rows", ["dataset", "loader"])
def test_loader__error_in_a_plain_trainer_names_the_line_to_write(
    shards: Any, tmp_path: Path, rows: str
) -> None:
    dataset = MaskedDataset(shards["train"], JOINT)
    given: Any = dataset if rows == "dataset" else dataset.loader(4)
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], max_steps=1)

    plain = Trainer(model=model_of(shards), args=args, train_dataset=given)

    with pytest.raises(TypeError, match=r"loader as train_dataset to MslmTrainer, or return"):
        plain.train()


@pytest.mark.parametrize("shape", SHAPES)
def test_trainer_batches__include_every_row(shards: Any, shape: str) -> None:
    """Filled by tokens, epochs differ in length, and the Trainer skips what is left of a longer one."""
    dataset = MaskedDataset(shards["train"], JOINT, seed=3)
    loader = dataset.loader(**SHAPES[shape])
    lengths = []
    wanted = []
    for epoch in range(12):
        loader.set_epoch(epoch)
        lengths.append(len(loader))
        wanted += all_lists(loader)

    batches = dataset.loader(**SHAPES[shape]).for_trainer()
    found = []
    for epoch in range(8):
        batches.dataset.epoch = epoch
        found += all_lists(batches)

    assert len(batches) == lengths[0]
    assert len(found) == 8 * len(batches)
    assert found == wanted[: len(found)]
    assert shape != "tokens" or len(set(lengths)) > 1


def test_trainer_batches__do_not_move_the_loader(shards: Any) -> None:
    dataset = MaskedDataset(shards["train"], JOINT, seed=3)
    loader = dataset.loader(8)
    loader.set_epoch(1)
    next(iter(loader))
    state = loader.state_dict()

    batches = loader.for_trainer(epoch=0)

    assert all_lists(batches) == all_lists(dataset.loader(8))
    assert loader.state_dict() == state


def test_trainer_batches__need_the_epoch(shards: Any) -> None:
    batches = MaskedDataset(shards["train"], JOINT).loader(8).for_trainer()

    with pytest.raises(ValueError, match=r"epoch: not set, .*; pass callbacks=\[MaskEpochCall"):
        next(iter(batches))


@pytest.mark.parametrize(("epoch", "expected"), [(None, 0), (0.5, 0), (1.0, 1), (1.9999999, 2)])
def test_callback__sets_the_epoch(shards: Any, epoch: Any, expected: int) -> None:
    batches: Any = MaskedDataset(shards["train"], JOINT).loader(8).for_trainer()
    state = TrainerState(epoch=epoch)

    MaskEpochCallback().on_epoch_begin(None, state, None, train_dataloader=batches)

    assert batches.dataset.epoch == expected


def test_mslm_trainer__makes_batches_in_its_own_process(shards: Any, tmp_path: Path) -> None:
    loader = MaskedDataset(shards["train"], JOINT).loader(7)
    one = trainer(shards, tmp_path, eval_dataset=loader)
    one.args.dataloader_num_workers = 2

    one.train()
    evaluated = [one.evaluate()["eval_loss"] for _ in range(2)]

    assert one.state.global_step == len(loader)
    assert evaluated[0] == evaluated[1]  # the masks of epoch 0
    assert loader.state_dict()["epoch"] == 0


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


@pytest.mark.parametrize("shape", SHAPES)
def test_trainer__scores_a_loader_whatever_its_batches(
    shards: Any, tmp_path: Path, shape: str
) -> None:
    rows = MaskedDataset(shards["test"], JOINT, static=True)
    one = trainer(shards, tmp_path)

    found = one.evaluate(rows.loader(**SHAPES[shape]))["eval_loss"]

    assert found == pytest.approx(one.evaluate(rows.loader(1))["eval_loss"], rel=1e-4)


def test_trainer__predicts_the_rows_of_a_loader(shards: Any, tmp_path: Path) -> None:
    rows = MaskedDataset(shards["test"], JOINT, static=True)

    found = trainer(shards, tmp_path).predict(rows.loader(batch_tokens=512))

    assert len(found.predictions) == len(found.label_ids) == len(rows)


def test_trainer__refuses_metrics_of_a_loader_on_several_ranks(
    shards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = MaskedDataset(shards["test"], JOINT, static=True).loader(8)
    one = trainer(shards, tmp_path, eval_dataset=loader, compute_metrics=lambda _: {})
    monkeypatch.setattr(type(one.accelerator), "num_processes", 2)

    with pytest.raises(ValueError, match="compute_metrics and predict cannot be used"):
        one.evaluation_loop(loader.for_trainer(epoch=0), "Evaluation")


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
