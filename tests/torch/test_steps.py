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

import mslm_data as md  # noqa: E402
from mslm_data.torch import MslmModel, MslmTrainer, count_tokens, loss_weights  # noqa: E402
from tests import made as made_shards  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch.families import batch, masked_lm  # noqa: E402

ROWS = 32
PARTS = ("mslm_loss", "detection_loss", "classification_loss")
ONLY_MASKS = ("input_ids", "attention_mask", "labels", "mask_kinds", "bio")
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


WEIGHTS = {"w_elm": 0.6, "w_blm": 0.4, "w_mslm": 3.0, "w_classification": 5.0}


def wrapped(**options: Any) -> Any:
    """Return a fixed model in training mode, without dropout."""
    options = {"labels": ["Drug", "Gene"], **WEIGHTS, **options}
    model = MslmModel.wrap(masked_lm(), dropout=0.0, **options)
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
def exact(names: tuple[str, ...] = tuple(GIVEN)) -> dict[str, Any]:
    """Return the gradients of all rows in one batch, without a trainer."""
    model = wrapped()
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


@pytest.mark.parametrize("names", [tuple(GIVEN), ONLY_TAGS, ONLY_MASKS])
def test_mslm_trainer__takes_the_same_step_with_32_batches(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    whole, whole_log = trained(MslmTrainer, tmp_path, ROWS, names=names)

    parts, parts_log = trained(MslmTrainer, tmp_path, 1, names=names)

    assert_same(parts, whole)
    assert_same(whole, exact(names))
    assert parts_log[0]["loss"] == pytest.approx(whole_log[0]["loss"], rel=1e-5)


def test_mslm_trainer__logs_the_parts_of_the_loss(tmp_path: Path) -> None:
    with torch.no_grad():
        out = wrapped()(**GIVEN)

    _, log = trained(MslmTrainer, tmp_path, 8, steps=2)

    assert {name: log[0][name] for name in PARTS} == pytest.approx(
        {name: out[name].item() for name in PARTS}, rel=1e-4
    )
    assert sum(log[0][name] for name in PARTS) == pytest.approx(log[0]["loss"], rel=1e-4)


def test_trainer__takes_the_mean_of_the_batches_of_a_step(tmp_path: Path) -> None:
    """Hugging Face's Trainer counts masked tokens, which are no divisor here, and is not asked."""
    model = wrapped()
    for one in cut(1):
        (model(**one).loss / ROWS).backward()

    found, _ = trained(Trainer, tmp_path, 1)

    assert_same(found, gradients_of(model))
    assert_same(trained(Trainer, tmp_path, ROWS)[0], exact())


def evaluation(folder: Path, size: int) -> Any:
    return TrainingArguments(
        output_dir=str(folder),
        per_device_eval_batch_size=size,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )


def evaluator(folder: Path, size: int, **options: Any) -> Any:
    """Return a trainer that evaluates in batches of a size."""
    arguments = evaluation(folder, size)
    model = options.pop("model", None) or wrapped().eval()
    return MslmTrainer(model=model, args=arguments, data_collator=default_data_collator, **options)


@pytest.mark.parametrize("size", [3, 32])
def test_mslm_trainer__evaluates_the_parts_of_the_loss_over_all_rows(
    size: int, tmp_path: Path
) -> None:
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(ROWS)]
    trainer = evaluator(tmp_path, size)

    found = trainer.evaluate(rows)
    tested = trainer.predict(rows)

    with torch.no_grad():
        out = trainer.model(**GIVEN)
    for name in ("loss", *PARTS):
        assert found[f"eval_{name}"] == pytest.approx(out[name].item(), rel=1e-5)
        assert tested.metrics[f"test_{name}"] == found[f"eval_{name}"]


def test_compute_metrics__gets_the_logits_of_tags_with_the_tags(tmp_path: Path) -> None:
    seen: list[Any] = []
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(ROWS)]
    trainer = evaluator(tmp_path, 8, compute_metrics=lambda given: seen.append(given) or {})

    trainer.evaluate(rows)

    with torch.no_grad():
        out = trainer.model(**GIVEN)
    assert seen[0].predictions == pytest.approx(out.logits.numpy(), abs=1e-5)
    assert seen[0].label_ids.tolist() == GIVEN["bio"].tolist()
    with pytest.raises(ValueError, match="compute_metrics needs logits, which a model without"):
        evaluator(tmp_path, 8, model=wrapped(labels=[]), compute_metrics=lambda _: {})


def test_mslm_trainer__refuses_processes_that_train_separate_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CPUs, the Trainer ignores torchrun without `use_cpu`."""
    arguments = evaluation(tmp_path, 8)
    assert arguments.world_size == 1
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(ValueError, match=r"2 processes were started.* pass use_cpu=True"):
        MslmTrainer(model=wrapped(), args=arguments)


def test_count_tokens__makes_plain_torch_exact() -> None:
    model, batches = wrapped(), cut(1)

    tokens = count_tokens(batches)
    for one in batches:
        model(**one, num_items_in_batch=tokens).loss.backward()

    assert_same(gradients_of(model), exact())


@pytest.mark.parametrize("size", [1, 8])
def test_count_tokens__makes_accelerate_exact(size: int) -> None:
    whole = exact()
    batches = cut(size)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=len(batches))
    model = accelerator.prepare(wrapped())

    tokens = count_tokens(batches, averaged_over=len(batches))
    for one in batches:
        with accelerator.accumulate(model):
            accelerator.backward(model(**one, num_items_in_batch=tokens).loss)

    assert_same(gradients_of(accelerator.unwrap_model(model)), whole)


def test_count_tokens__counts_tokens_that_are_not_special() -> None:
    tokens = int((GIVEN["bio"] != -100).sum())

    assert count_tokens([GIVEN, GIVEN]).item() == 2 * tokens
    assert count_tokens([GIVEN], averaged_over=4).item() == tokens / 4
    assert count_tokens([]).item() == 1
    with pytest.raises(ValueError, match="the batch has no 'bio', which marks the tokens"):
        count_tokens([{"input_ids": GIVEN["input_ids"]}])


@pytest.mark.parametrize("tensors", [False, True])
def test_loss_weights__are_those_of_the_counts(tensors: bool) -> None:
    batches = cut(8) if tensors else [{n: x.numpy() for n, x in one.items()} for one in cut(8)]

    weights = loss_weights(batches)

    n_elm, n_blm = (int((GIVEN["mask_kinds"] == kind).sum()) for kind in (2, 1))
    tokens = int((GIVEN["bio"] != -100).sum())
    assert (weights["w_elm"], weights["w_blm"]) == md.mask_specific_weights(n_elm, n_blm)
    assert weights["w_mslm"] == tokens / (n_elm + n_blm)
    assert weights["w_classification"] == tokens / int((GIVEN["span_labels"] >= 0).sum())


def test_loss_weights__of_steps_take_several_passes() -> None:
    first, second = cut(16)

    assert loss_weights([first, second], steps=3) == loss_weights([first, second, first])
    assert loss_weights([first, second], steps=1) == loss_weights([first])
    with pytest.raises(ValueError, match="steps: expected 3 batches, got 2"):
        loss_weights(iter([first, second]), steps=3)


def test_loss_weights__of_steps_follow_a_schedule(tmp_path: Path) -> None:
    made_shards.built(tmp_path / "out")
    train = md.load(tmp_path / "out")["train"]
    falling = {"shape": "linear", "start": 0.4, "stop": 0.0, "over": 20, "per": "step"}
    strategy = md.strategy("joint", elm=0.0, blm=falling)

    few, many = (
        loss_weights(md.Batches(train, strategy, batch_size=8), steps=steps) for steps in (5, 40)
    )

    assert len(md.Batches(train, strategy, batch_size=8)) < 40
    assert many["w_mslm"] > 2 * few["w_mslm"] > 4


def test_loss_weights__make_the_parts_means_over_their_items() -> None:
    out = wrapped(**loss_weights([GIVEN]))(**GIVEN)

    masked = int((GIVEN["labels"] != -100).sum())
    plain = MslmModel.wrap(masked_lm(), w_elm=0.5, w_blm=0.5).train(mode=False)
    tokens = torch.tensor(float(masked))
    expected = plain(**{name: GIVEN[name] for name in ONLY_MASKS}, num_items_in_batch=tokens)
    assert loss_weights([GIVEN])["w_elm"] == 0.5
    torch.testing.assert_close(out.mslm_loss, expected.mslm_loss)


def test_loss_weights__without_masks_and_mentions_are_1() -> None:
    nothing = {
        "bio": torch.zeros(1, 4),
        "mask_kinds": torch.zeros(1, 4),
        "span_labels": torch.full((1, 0), -1),
    }

    assert loss_weights([nothing]) == {
        "w_elm": 0.5,
        "w_blm": 0.5,
        "w_mslm": 1.0,
        "w_classification": 1.0,
    }


def test_set_loss_weights__changes_the_loss_and_is_saved(tmp_path: Path) -> None:
    weights = {"w_elm": 0.7, "w_blm": 0.3, "w_mslm": 2.0, "w_classification": 9.0}
    model = wrapped().eval()

    model.set_loss_weights(**weights)
    model.save_pretrained(tmp_path)

    expected = wrapped(**weights).eval()(**GIVEN)
    for changed in (model, MslmModel.from_pretrained(tmp_path)):
        for name in PARTS:
            torch.testing.assert_close(changed(**GIVEN)[name], expected[name])
    with pytest.raises(ValueError, match="expected w_mslm to be 0 or more, got -1"):
        model.set_loss_weights(w_elm=0.5, w_blm=0.5, w_mslm=-1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def sharded(model: Any) -> Any:
    """Shard the weights of a model over ranks (FSDP)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (2,)))


def gathered(model: Any) -> dict[str, Any]:
    """Return the whole gradients of a model on all ranks."""
    whole = getattr(model, "module", model)
    return {
        name: getattr(gradient, "full_tensor", lambda gradient=gradient: gradient)()
        for name, gradient in gradients_of(whole).items()
    }


def rank(number: int, port: int, folder: str) -> None:
    """Train one step as one of two ranks, in several ways, and save the gradients of each."""
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    kept = {}

    # Trainers start the process group and distribute the rows.
    kept["Trainer"] = trained(Trainer, Path(folder), 16, ranks=2)[0]
    kept["MslmTrainer"], log = trained(MslmTrainer, Path(folder), 4, ranks=2)
    kept["log"] = {name: log[0][name] for name in ("loss", *PARTS)}
    rows = [{name: GIVEN[name][i] for name in GIVEN} for i in range(ROWS)]
    kept["evaluated"] = evaluator(Path(folder), 4).evaluate(rows)

    # Without a trainer, with 8 and 24 rows per rank.
    mine = {name: x[:8] if number == 0 else x[8:] for name, x in GIVEN.items()}
    for around in (DistributedDataParallel, sharded):
        model = around(wrapped())
        model(**mine).loss.backward()
        kept[f"plain, {around.__name__}"] = gathered(model)

        model = around(wrapped())
        batches = cut(len(mine["input_ids"]) // 4, mine)
        tokens = count_tokens(batches)
        for one in batches:
            model(**one, num_items_in_batch=tokens).loss.backward()
        kept[f"accumulated, {around.__name__}"] = gathered(model)

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
    with torch.no_grad():
        out = wrapped()(**GIVEN)
    for number in range(2):
        kept = torch.load(tmp_path / f"{number}.pt", weights_only=False)
        for name in ("loss", *PARTS):
            assert kept["log"][name] == pytest.approx(out[name].item(), rel=1e-4)
            assert kept["evaluated"][f"eval_{name}"] == pytest.approx(out[name].item(), rel=1e-5)
        ways = [name for name in kept if name not in ("log", "evaluated")]
        assert len(ways) == 6
        for way in ways:
            assert_same(kept[way], exact())
