"""The manual's Trainer with loss weights: its steps are exact, with accumulation and on two processes."""

from __future__ import annotations

import os
import runpy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MaskEpochCallback, MaskingCollator, weighted_loss
from tests import made
from tests.support.waiting import PATIENCE_S
from tests.torch import processes
from tests.torch.test_steps import free_port, no_accelerator  # noqa: F401 - a fixture

WEIGHTS = (3.0, 0.5)
ROWS = 8
"""Rows of a step."""
STEPS = 2
WeightedTrainer = runpy.run_path(str(processes.SHOWN / "weighted_decoder.py"))["WeightedTrainer"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("folder") / "shards"
    made.built(out)
    return out


def decoder(folder: Path) -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=md.load(folder).manifest.token_ids.size,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
    )


def loader_of(folder: Path, rows: int) -> Any:
    data = MaskedDataset(md.load(folder)["train"], "causal")
    return data.loader(rows, shuffle=False, weights=WEIGHTS)


def trained(folder: Path, rows: int, accumulated: int) -> Tensor:
    """Train for two steps; return all parameters."""
    model = decoder(folder)
    arguments = TrainingArguments(
        str(folder.parent / "out"),
        max_steps=STEPS,
        gradient_accumulation_steps=accumulated,
        optim="sgd",
        learning_rate=0.5,
        lr_scheduler_type="constant",
        max_grad_norm=0,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    WeightedTrainer(
        model=model,
        args=arguments,
        train_dataset=loader_of(folder, rows),
        callbacks=[MaskEpochCallback()],
    ).train()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def expected(folder: Path) -> Tensor:
    """Train by a loop over single tokens, which shares no code with the loss."""
    model = decoder(folder)
    for batch in islice(loader_of(folder, ROWS), STEPS):
        log_probs = model(batch["input_ids"], batch["attention_mask"]).logits.log_softmax(-1)
        total, targets = torch.zeros(()), 0
        for row, place in (batch["labels"] != -100).nonzero().tolist():
            weight = batch["loss_weights"][row, place]
            assert weight in WEIGHTS
            total = total - weight * log_probs[row, place - 1, batch["labels"][row, place]]
            targets += 1
        (total / targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.5 * parameter.grad)
        model.zero_grad()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def train_rank(rank: int, port: int, folder: Path, out: Path) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.save(trained(folder, ROWS // 4, 2), out / f"{rank}.pt")


def test_trainer__steps_do_not_depend_on_batches_and_processes(
    folder: Path,
    tmp_path: Path,
    no_accelerator: None,  # noqa: F811
) -> None:
    parameters = expected(folder)
    assert not torch.allclose(
        parameters, torch.cat([p.flatten() for p in decoder(folder).parameters()]), atol=1e-3
    )

    port = free_port()
    ranks = [processes.start(train_rank, rank, port, folder, tmp_path) for rank in range(2)]
    for process in ranks:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in ranks] == [0, 0]

    for found in (
        trained(folder, ROWS, 1),
        trained(folder, ROWS // 4, 4),
        *(torch.load(tmp_path / f"{rank}.pt") for rank in range(2)),
    ):
        torch.testing.assert_close(found, parameters, atol=1e-5, rtol=1e-4)


def test_model__trains_without_weights_if_it_gets_the_batch(folder: Path) -> None:
    """The failure that the manual shows: models of transformers ignore columns they do not know."""
    model, batch = decoder(folder), next(iter(loader_of(folder, ROWS)))
    labels, weights = batch["labels"], batch["loss_weights"]
    logits = model(batch["input_ids"], batch["attention_mask"]).logits
    targets = (labels != -100).sum()

    plain = weighted_loss(logits, labels, torch.ones_like(weights), causal=True) / targets
    weighed = weighted_loss(logits, labels, weights, causal=True) / targets

    assert float(model(**batch).loss) == pytest.approx(float(plain), rel=1e-5)
    assert float(weighed) != pytest.approx(float(plain), rel=1e-2)


@pytest.mark.parametrize("name", ["labels", "weights"])
def test_weighted_loss__refuses_other_shapes(name: str) -> None:
    tensors = {"labels": torch.zeros(2, 3, dtype=torch.long), "weights": torch.ones(2, 3)}
    tensors[name] = tensors[name][:, :2]

    with pytest.raises(ValueError, match=rf"of 2 x 3 tokens, got .*2 x 2 {name}"):
        weighted_loss(torch.zeros(2, 3, 5), tensors["labels"], tensors["weights"])


def test_sft_trainer__takes_the_same_loss(folder: Path, tmp_path: Path) -> None:
    """As the manual shows: trl's Trainer over rows of the library datasets, with the collator."""
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    seen = []

    class WeightedSFTTrainer(trl.SFTTrainer):  # type: ignore[misc, name-defined]
        def compute_loss(self, *args: Any, **options: Any) -> Any:
            inputs = dict(args[1])
            loss = WeightedTrainer.compute_loss(self, *args, **options)
            seen.append((inputs, float(loss)))
            return loss

    shards = md.load(folder)
    collator = MaskingCollator("causal", shards["train"], weights=WEIGHTS)
    model = decoder(folder)
    WeightedSFTTrainer(
        model=model,
        args=trl.SFTConfig(
            str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=ROWS,
            learning_rate=0.0,
            dataset_kwargs={"skip_prepare_dataset": True},
            remove_unused_columns=False,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=datasets.load_from_disk(str(folder))["train"],
        data_collator=collator,
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[MaskEpochCallback()],
    ).train()

    assert len(seen) == 2
    for inputs, loss in seen:
        labels, weights = inputs["labels"], inputs["loss_weights"]
        logits = model(inputs["input_ids"], inputs["attention_mask"]).logits
        total = weighted_loss(logits, labels, weights, causal=True)
        assert loss == pytest.approx(float(total / (labels != -100).sum()), rel=1e-4)
