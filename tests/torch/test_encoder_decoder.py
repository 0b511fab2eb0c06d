"""T5 of transformers on batches with sentinels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MaskEpochCallback, weighted_loss
from tests import made

WEIGHTS = (3.0, 0.5)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    folder = tmp_path_factory.mktemp("folder") / "shards"
    pipeline = made.pipeline_of(encode={"max_tokens": 48})
    made.built(folder, pipeline=pipeline, tokenizer=made.t5())
    return md.load(folder)


def tiny_t5(shards: md.Shards) -> Any:
    torch.manual_seed(0)
    ids = shards.manifest.token_ids
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=ids.size,
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=1,
            num_heads=2,
            pad_token_id=ids.pad,
            eos_token_id=ids.eos,
            decoder_start_token_id=ids.pad,
            dropout_rate=0.0,
        )
    )


@pytest.mark.parametrize("strategy", ["t5", "salient-t5"])
def test_loss__weighs_each_label_of_the_decoder(shards: md.Shards, strategy: str) -> None:
    model = tiny_t5(shards)
    loader = MaskedDataset(shards["train"], strategy).loader(8, weights=WEIGHTS)
    batch = next(iter(loader))
    labels, kinds = batch["labels"], batch["mask_kinds"]
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}

    output = model(**inputs)
    found = weighted_loss(output.logits, labels, batch["loss_weights"])
    log_probs = output.logits.log_softmax(-1)
    expected = torch.zeros(())
    for row, place in (labels != -100).nonzero().tolist():
        w_elm, w_blm = WEIGHTS
        weight = w_elm if kinds[row, place] == 2 else w_blm
        expected = expected - weight * log_probs[row, place, labels[row, place]]

    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    ones = torch.ones_like(batch["loss_weights"])
    targets = (labels != -100).sum()
    torch.testing.assert_close(weighted_loss(output.logits, labels, ones) / targets, output.loss)


def test_trainer__trains_and_resumes(shards: md.Shards, tmp_path: Path) -> None:
    class LoaderTrainer(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return self.train_dataset.for_trainer()

    def train(out: str, steps: int, *, resumes: bool = False) -> Trainer:
        arguments = TrainingArguments(
            str(tmp_path / out),
            max_steps=steps,
            save_steps=2,
            logging_steps=1,
            learning_rate=0.01,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
        )
        columns = ["input_ids", "attention_mask", "labels"]
        trainer = LoaderTrainer(
            model=tiny_t5(shards),
            args=arguments,
            train_dataset=MaskedDataset(shards["train"], "t5").loader(16, columns=columns),
            callbacks=[MaskEpochCallback()],
        )
        trainer.train(resume_from_checkpoint=resumes)
        return trainer

    whole = [entry["loss"] for entry in train("whole", 6).state.log_history if "loss" in entry]
    train("cut", 2)
    resumed = train("cut", 6, resumes=True)

    assert whole[-1] < whole[0]
    assert [entry["loss"] for entry in resumed.state.log_history if "loss" in entry] == whole
