"""Decoders of transformers on batches of `causal`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

import mslm_data as md
from mslm_data.torch import MaskedDataset, MaskEpochCallback
from tests import made

WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "pad_token_id": 0,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": WIDTH,
    "qwen3": WIDTH | GROUPED,
    "mistral": WIDTH | GROUPED | {"sliding_window": 16},
    "gemma3_text": WIDTH | GROUPED | {"sliding_window": 16},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
    "modernbert-decoder": WIDTH | {"local_attention": 16, "cls_token_id": 2, "sep_token_id": 3},
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    folder = tmp_path_factory.mktemp("folder") / "shards"
    made.built(folder)
    return md.load(folder)


def decoder(family: str, size: int) -> Any:
    torch.manual_seed(0)
    own = {"vocab_size": size, "bos_token_id": 2, "eos_token_id": 3, **FAMILIES[family]}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **own)).eval()


def batch_of(shards: md.Shards, **options: Any) -> dict[str, Tensor]:
    loader = MaskedDataset(shards["train"], "causal").loader(8, shuffle=False, **options)
    return next(iter(loader))


@pytest.mark.parametrize("family", FAMILIES)
def test_flat_rows__do_not_see_each_other(shards: md.Shards, family: str) -> None:
    model = decoder(family, shards.manifest.token_ids.size)
    flat, padded = batch_of(shards, flat=True), batch_of(shards)
    is_token = padded["attention_mask"].bool()
    assert flat["input_ids"][0].tolist() == padded["input_ids"][is_token].tolist()

    with torch.no_grad():
        together = model(**flat, use_cache=False).logits[0]
        alone = model(**padded, use_cache=False).logits[is_token]
        leaking = model(**flat, attention_mask=torch.ones_like(flat["input_ids"])).logits[0]

    assert (together - alone).abs().max() < 1e-6
    assert (leaking - alone).abs().max() > 1e-4


@pytest.mark.parametrize("form", [{}, {"flat": True}], ids=str)
def test_loss__is_that_of_each_token_but_the_first_of_a_row(
    shards: md.Shards, form: dict[str, Any]
) -> None:
    model = decoder("llama", shards.manifest.token_ids.size)
    rows = shards["train"].examples(0, 8)
    batch = batch_of(shards, **form)

    with torch.no_grad():
        found = model(**batch, use_cache=False).loss
        losses = []
        for ids, words in zip(rows.input_ids.tolist(), rows.word_ids.tolist(), strict=True):
            logits = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            losses += [-logits[t - 1, ids[t]] for t in range(1, len(ids)) if words[t] >= 0]

    assert float(found) == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)


def test_trainer__takes_flat_rows_of_a_decoder_without_a_cache(
    shards: md.Shards, tmp_path: Path
) -> None:
    class LoaderTrainer(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return self.train_dataset.for_trainer()

    loader = MaskedDataset(shards["train"], "causal").loader(batch_tokens=512, flat=True)

    def trainer(**options: Any) -> Trainer:
        arguments = TrainingArguments(
            str(tmp_path),
            max_steps=3,
            logging_steps=1,
            learning_rate=0.01,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            **options,
        )
        return LoaderTrainer(
            model=decoder("llama", shards.manifest.token_ids.size),
            args=arguments,
            train_dataset=loader,
            callbacks=[MaskEpochCallback()],
        )

    with pytest.raises(ValueError, match=r"set model\.config\.use_cache = False"):
        trainer(use_cache=True).train()
    trained = trainer()
    trained.train()

    losses = [entry["loss"] for entry in trained.state.log_history if "loss" in entry]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
