"""The batches of a loader in Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import TrainerCallback, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, MslmTrainer
from tests import made
from tests.torch.families import masked_lm
from tests.torch.shards import JOINT
from tests.torch.test_steps import no_accelerator  # noqa: F401 - a fixture of these tests too

EPOCHS = 4
SHAPES: dict[str, dict[str, Any]] = {
    "buckets": {"batch_size": 8, "bucketed": True},
    "tokens": {"batch_tokens": 128},
    "packed": {"batch_size": 1, "row_tokens": 64},
    "flat": {"batch_tokens": 128, "flat": True},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(encode={"max_tokens": 48}))
    return out


def dataset_of(folder: Path, *, static: bool = False, epoch: int | None = None) -> MaskedDataset:
    return MaskedDataset(md.load(folder)["train"], JOINT, seed=3, static=static, epoch=epoch)


def of_loader(folder: Path, shape: dict[str, Any]) -> Iterator[list[int]]:
    """Yield the keys of each batch of a loader, epoch after epoch."""
    loader = dataset_of(folder).loader(**shape)
    for epoch in range(EPOCHS + 2):
        loader.set_epoch(epoch)
        for batch in loader:
            yield batch["keys"].tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_even_epochs__include_every_row(shape: str, folder: Path) -> None:
    batches = dataset_of(folder).loader(**SHAPES[shape]).for_trainer()
    wanted = of_loader(folder, SHAPES[shape])

    for epoch in range(EPOCHS):
        batches.batch_sampler.set_epoch(epoch)
        found = [batch["keys"].tolist() for batch in batches]

        assert len(found) == len(batches)
        assert found == [next(wanted) for _ in found]


def test_even_epochs__all_have_the_length_of_the_first(folder: Path) -> None:
    loader = dataset_of(folder).loader(**SHAPES["tokens"])
    lengths = []
    for epoch in range(12):
        loader.set_epoch(epoch)
        lengths.append(len(loader))

    assert len(set(lengths)) > 1
    assert len(loader.for_trainer()) == lengths[0]


def test_even_epochs__do_not_depend_on_the_loaders_position(folder: Path) -> None:
    loader = dataset_of(folder).loader(batch_size=8)
    wanted = [batch["keys"].tolist() for batch in dataset_of(folder).loader(batch_size=8)]
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)

    assert [batch["keys"].tolist() for batch in loader.for_trainer()] == wanted
    assert loader.state_dict() == state


def test_even_epochs__read_rows_with_masks_of_a_later_epoch(folder: Path) -> None:
    batches = dataset_of(folder, static=True, epoch=5).loader(batch_size=8).for_trainer()

    for _ in range(2):
        assert len(list(batches)) == len(batches)


class Seen(TrainerCallback):
    """Records the keys of each training batch."""

    def __init__(self, model: Any) -> None:
        self.keys: list[list[int]] = []
        model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(self, model: Any, _: Any, given: dict[str, Any]) -> None:
        if model.training:
            self.keys.append(given["keys"].tolist())


def trained(folder: Path, out: Path, shape: str, *, resume: bool = False, **options: Any) -> Any:
    """Train with a loader; return the keys seen, and the log."""
    dataset = dataset_of(folder)
    ids = dataset.split.token_ids
    model = MslmModel.wrap(masked_lm(vocab_size=ids.size, pad_token_id=ids.pad), labels=["Disease"])
    seen = Seen(model)
    arguments = TrainingArguments(
        str(out), num_train_epochs=2, use_cpu=True, report_to=[], disable_tqdm=True, **options
    )
    trainer = MslmTrainer(
        model,
        arguments,
        train_dataset=dataset.loader(**SHAPES[shape]),
        eval_dataset=dataset_of(folder, static=True).loader(**SHAPES[shape], shuffle=False),
        callbacks=[seen],
    )
    trainer.train(resume_from_checkpoint=resume)
    return seen.keys, trainer


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_mslm_trainer__uses_a_loaders_batches_unchanged(
    shape: str, folder: Path, tmp_path: Path
) -> None:
    seen, trainer = trained(folder, tmp_path, shape, save_strategy="no")

    wanted = of_loader(folder, SHAPES[shape])
    assert seen == [next(wanted) for _ in seen]
    assert len(seen) == 2 * len(trainer.train_dataset.for_trainer())
    assert trainer.evaluate()["eval_loss"] > 0


@pytest.mark.long
@pytest.mark.parametrize("shape", ["buckets", "flat"])
def test_mslm_trainer__resumes_in_mid_epoch(shape: str, folder: Path, tmp_path: Path) -> None:
    options = {"save_steps": 3, "save_total_limit": 9, "gradient_accumulation_steps": 2}
    whole, trainer = trained(folder, tmp_path, shape, **options)
    steps = trainer.state.global_step
    checkpoints = sorted(
        tmp_path.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])
    )
    middle = checkpoints[len(checkpoints) // 2]
    for later in checkpoints[len(checkpoints) // 2 + 1 :]:
        later.rename(tmp_path / f"gone-{later.name}")

    rest, again = trained(folder, tmp_path, shape, resume=True, **options)

    assert again.state.global_step == steps
    assert middle.is_dir()
    assert rest == whole[len(whole) - len(rest) :]
    assert 0 < len(rest) < len(whole)


@pytest.mark.long
def test_mslm_trainer__scores_a_loader_like_its_rows(folder: Path, tmp_path: Path) -> None:
    _, trainer = trained(folder, tmp_path, "flat", save_strategy="no", max_steps=1)

    flat = trainer.evaluate()
    padded = trainer.evaluate(dataset_of(folder, static=True).loader(batch_size=8, shuffle=False))

    assert flat["eval_loss"] == pytest.approx(padded["eval_loss"], rel=1e-4)
