"""A step does not depend on the number of batches and ranks: 32 batches of one row equal one batch of 32."""

from __future__ import annotations

import functools
import multiprocessing
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from accelerate import Accelerator  # noqa: E402
from accelerate.state import AcceleratorState, GradientState  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from transformers import (  # noqa: E402
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)

from mslm_data.torch import MslmModel, MslmTrainer, count_items  # noqa: E402
from tests.reference import loss as twin  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch.families import batch, masked_lm  # noqa: E402

ROWS = 32
PARTS = ("mslm_loss", "detection_loss", "classification_loss")
ONLY_MASKS = ("input_ids", "attention_mask", "labels", "mask_kinds")
ONLY_TAGS = ("input_ids", "attention_mask", "bio", "span_starts", "span_ends", "span_labels")


def made() -> dict[str, Any]:
    """Return a batch of rows; row 0 has no mention, rows 3 and 4 no masks."""
    given = batch(ROWS)
    given["labels"][3:5] = -100
    given["mask_kinds"][3:5] = 0
    return given


GIVEN = made()


def cut(size: int, given: dict[str, Any] = GIVEN) -> list[dict[str, Any]]:
    """Split rows into batches of a size."""
    rows = len(given["input_ids"])
    return [
        {name: x[first : first + size] for name, x in given.items()}
        for first in range(0, rows, size)
    ]


def wrapped(types: int = 2, **options: Any) -> Any:
    """Return a fixed model in training mode, without dropout."""
    model = MslmModel.wrap(
        masked_lm(), labels=["Drug", "Gene"][:types], w_elm=0.6, w_blm=0.4, dropout=0.0, **options
    )
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


def gradients_of(model: Any) -> dict[str, Any]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        torch.testing.assert_close(x, other[name], rtol=1e-5, atol=1e-5, msg=name)


@functools.cache
def exact(balance: str = "means", names: tuple[str, ...] = tuple(GIVEN)) -> dict[str, Any]:
    """Return the gradients of all rows in one batch, without a trainer."""
    model = wrapped(balance=balance)
    model(**{name: GIVEN[name] for name in names}).loss.backward()
    return gradients_of(model)


class Keep(TrainerCallback):
    """Records the gradients before the optimizer's step."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.gradients = gradients_of(given["model"])


def trained(
    kind: Any,
    folder: Path,
    size: int,
    *,
    names: tuple[str, ...] = tuple(GIVEN),
    ranks: int = 1,
    steps: int = 1,
    **options: Any,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train with batches of a size, all rows per step; return the last gradients and the log."""
    keep = Keep()
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=size,
        gradient_accumulation_steps=ROWS // size // ranks,
        max_steps=steps,
        optim="sgd",
        learning_rate=0.0,
        max_grad_norm=0.0,
        logging_steps=steps,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = kind(
        model=wrapped(**options),
        args=arguments,
        train_dataset=[{name: GIVEN[name][i] for name in names} for i in range(ROWS)],
        data_collator=default_data_collator,
        callbacks=[keep],
    )
    trainer.train()
    return keep.gradients, trainer.state.log_history


@pytest.fixture(autouse=True)
def no_accelerator() -> Iterator[None]:
    """Reset the state that accelerate keeps per process, also from other tests."""
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.mark.parametrize("balance", ["means", "sums"])
def test_mslm_trainer__takes_the_same_step_with_32_batches(balance: str, tmp_path: Path) -> None:
    whole, whole_log = trained(MslmTrainer, tmp_path, ROWS, balance=balance)

    parts, parts_log = trained(MslmTrainer, tmp_path, 1, balance=balance)

    assert_same(parts, whole)
    assert_same(whole, exact(balance))
    assert parts_log[0]["loss"] == pytest.approx(whole_log[0]["loss"], rel=1e-5)


def test_mslm_trainer__is_exact_without_masks(tmp_path: Path) -> None:
    parts, _ = trained(MslmTrainer, tmp_path, 1, names=ONLY_TAGS)

    assert_same(parts, exact(names=ONLY_TAGS))


def test_mslm_trainer__logs_the_parts_of_the_loss(tmp_path: Path) -> None:
    with torch.no_grad():
        out = wrapped()(**GIVEN)

    _, log = trained(MslmTrainer, tmp_path, 8, steps=2)

    assert {name: log[0][name] for name in PARTS} == pytest.approx(
        {name: out[name].item() for name in PARTS}, rel=1e-4
    )
    assert sum(log[0][name] for name in PARTS) == pytest.approx(log[0]["loss"], rel=1e-4)


def test_trainer__is_exact_with_the_balance_of_the_paper(tmp_path: Path) -> None:
    parts, _ = trained(Trainer, tmp_path, 1, balance="sums")

    assert_same(parts, exact("sums"))


def test_trainer__is_exact_with_masks_only(tmp_path: Path) -> None:
    parts, log = trained(Trainer, tmp_path, 4, names=ONLY_MASKS)

    with torch.no_grad():
        logits = masked_lm()(GIVEN["input_ids"], attention_mask=GIVEN["attention_mask"]).logits
    arrays = (GIVEN["labels"].numpy(), GIVEN["mask_kinds"].numpy())
    total, items = twin.mask_specific(logits.numpy(), *arrays, 0.6, 0.4)
    assert_same(parts, exact(names=ONLY_MASKS))
    assert log[0]["loss"] == pytest.approx(total / items, rel=1e-4)


def test_trainer__with_one_batch_per_step_is_exact(tmp_path: Path) -> None:
    whole, _ = trained(Trainer, tmp_path, ROWS)

    assert_same(whole, exact())


@pytest.mark.parametrize("size", [1, 16])
def test_trainer__with_several_batches_is_refused_if_inexact(size: int, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"of masked tokens \(\d+\) of several batches.*MslmTrainer.*balance='sums'",
    ):
        trained(Trainer, tmp_path, size)


def test_trainer__with_several_batches_without_masks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="accelerate accumulates gradients of several batches"):
        trained(Trainer, tmp_path, 1, names=ONLY_TAGS)


def test_trainer__with_masks_in_one_of_several_batches_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GIVEN, "labels", GIVEN["labels"].clone())
    GIVEN["labels"][16:] = -100

    with pytest.raises(ValueError, match=r"number of masked tokens \(\d+\) of several batches"):
        trained(Trainer, tmp_path, 16)


def test_trainer__evaluates_and_returns_only_tag_logits(tmp_path: Path) -> None:
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(8)]
    model = wrapped().eval()
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_eval_batch_size=8,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )

    found = Trainer(model=model, args=arguments).predict(rows)

    with torch.no_grad():
        out = model(**cut(8)[0])
    assert found.metrics["test_loss"] == pytest.approx(out.loss.item(), rel=1e-5)
    assert found.predictions == pytest.approx(out.tag_logits.numpy(), abs=1e-5)


@pytest.mark.parametrize("balance", ["means", "sums"])
@pytest.mark.parametrize("size", [3, 32])
def test_mslm_trainer__evaluates_the_parts_of_the_loss_over_all_rows(
    size: int, balance: str, tmp_path: Path
) -> None:
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(ROWS)]
    model = wrapped(balance=balance).eval()
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_eval_batch_size=size,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = MslmTrainer(model=model, args=arguments, data_collator=default_data_collator)

    found = trainer.evaluate(rows)
    tested = trainer.predict(rows)

    with torch.no_grad():
        out = model(**GIVEN)
    for name in ("loss", *PARTS):
        assert found[f"eval_{name}"] == pytest.approx(out[name].item(), rel=1e-5)
        assert tested.metrics[f"test_{name}"] == found[f"eval_{name}"]
    assert tested.predictions.shape == out.tag_logits.shape


@pytest.mark.parametrize("balance", ["means", "sums"])
def test_count_items__makes_plain_torch_exact(balance: str) -> None:
    model, batches = wrapped(balance=balance), cut(1)

    items = count_items(batches)
    for one in batches:
        model(**one, num_items_in_batch=items).loss.backward()

    assert_same(gradients_of(model), exact(balance))


@pytest.mark.parametrize("size", [1, 8])
def test_count_items__makes_accelerate_exact(size: int) -> None:
    whole = exact()
    batches = cut(size)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=len(batches))
    model = accelerator.prepare(wrapped())

    items = count_items(batches, averaged_over=len(batches))
    for one in batches:
        with accelerator.accumulate(model):
            accelerator.backward(model(**one, num_items_in_batch=items).loss)

    assert_same(gradients_of(accelerator.unwrap_model(model)), whole)


def test_forward__is_refused_if_accelerate_accumulates_without_counts() -> None:
    Accelerator(cpu=True, gradient_accumulation_steps=4)

    with pytest.raises(ValueError, match=r"count_items\(batches, averaged_over=N\)"):
        wrapped()(**GIVEN)
    assert wrapped().eval()(**GIVEN).loss > 0


@pytest.mark.parametrize("types", [1, 2])
def test_forward__is_refused_if_plain_torch_accumulates_without_counts(types: int) -> None:
    # With one type, the gradient of its bias (the smallest parameter) is always 0.
    model, (first, second) = wrapped(types), cut(16, batch(ROWS, types=types))

    model(**first).loss.backward()
    loss = model(**second).loss  # Lightning resets gradients only after this call
    model.zero_grad(set_to_none=False)
    loss.backward()

    with pytest.raises(ValueError, match=r"pass num_items_in_batch=count_items\(batches\)"):
        model(**second).loss.backward()
    model(**second, num_items_in_batch=count_items([second])).loss.backward()


def test_lightning__is_refused_with_accumulation(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = wrapped()

        def training_step(self, given: dict[str, Any]) -> Any:
            return self.model(**given).loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    def fit(**options: Any) -> None:
        lightning.Trainer(
            accelerator="cpu",
            default_root_dir=tmp_path,
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **options,
        ).fit(Module(), torch.utils.data.DataLoader(cut(16), batch_size=None))

    with pytest.raises(
        ValueError, match="leave out accumulate_grad_batches and use larger batches"
    ):
        fit(accumulate_grad_batches=2)
    fit()


def test_count_items__counts_the_terms_of_each_sum() -> None:
    counts = count_items([GIVEN, {"input_ids": GIVEN["input_ids"][:3]}])

    masked, tagged = (int((GIVEN[name] >= 0).sum()) for name in ("labels", "bio"))
    mentions = int((GIVEN["span_labels"] >= 0).sum())
    assert counts.tolist() == [masked, tagged, mentions, len(GIVEN["keys"])]
    assert count_items([]).tolist() == [0, 0, 0, 0]
    assert count_items([GIVEN], averaged_over=4).tolist() == (counts / 4).tolist()


@pytest.mark.parametrize("num_items", [None, torch.tensor([0.0, 40.0, 5.0, 8.0]), 0])
def test_forward__with_the_balance_of_the_paper_keeps_its_scale_without_masks(
    num_items: Any,
) -> None:
    given = dict(GIVEN, labels=torch.full_like(GIVEN["labels"], -100))
    model = wrapped(balance="sums").eval()

    out = model(**given, num_items_in_batch=num_items)

    tagged = 40 if isinstance(num_items, torch.Tensor) else int((given["bio"] >= 0).sum())
    total, _ = twin.cross_entropy(out.tag_logits.detach().numpy(), given["bio"].numpy())
    assert out.detection_loss.item() == pytest.approx(total / tagged, rel=1e-4)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def rank(number: int, port: int, folder: str) -> None:
    """Train one step as one of two ranks, in several ways, and save the gradients of each."""
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    kept = {}

    # Trainers start the process group and distribute the rows.
    kept["Trainer"] = trained(Trainer, Path(folder), 16, ranks=2)[0]
    kept["MslmTrainer"] = trained(MslmTrainer, Path(folder), 4, ranks=2)[0]

    # Without a trainer, with 8 and 24 rows per rank.
    mine = {name: x[:8] if number == 0 else x[8:] for name, x in GIVEN.items()}
    model = DistributedDataParallel(wrapped())
    model(**mine).loss.backward()
    kept["plain"] = gradients_of(model.module)

    model = DistributedDataParallel(wrapped())
    batches = cut(len(mine["input_ids"]) // 4, mine)
    items = count_items(batches)
    with model.no_sync():
        for one in batches[:-1]:
            model(**one, num_items_in_batch=items).loss.backward()
    model(**batches[-1], num_items_in_batch=items).loss.backward()
    kept["accumulated"] = gradients_of(model.module)

    torch.save(kept, f"{folder}/{number}.pt")
    torch.distributed.barrier()
    # A normal exit would wait for threads that were not copied by the fork.
    os._exit(0)


@pytest.mark.long
def test_ranks__take_the_step_of_one_process(tmp_path: Path) -> None:
    port = free_port()

    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=rank, args=(number, port, str(tmp_path))) for number in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(PATIENCE_S)

    assert [process.exitcode for process in ranks] == [0, 0]
    for number in range(2):
        kept = torch.load(tmp_path / f"{number}.pt")
        assert kept.keys() == {"Trainer", "MslmTrainer", "plain", "accumulated"}
        for gradients in kept.values():
            assert_same(gradients, exact())
