"""A mix in Hugging Face's Trainer: how often the model is trained on each row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import TrainingArguments

from mslm_data.batches.mix import Mix
from mslm_data.torch import MaskedDataset, MslmModel, MslmTrainer
from tests.reference import mix as reference
from tests.torch.families import masked_lm
from tests.torch.shards import JOINT
from tests.torch.test_mixed import two_corpora
from tests.torch.test_steps import no_accelerator  # noqa: F401 - a fixture of these tests too


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mix:
    return two_corpora(tmp_path_factory.mktemp("folders"))


def trained_keys(mixed: Mix, folder: Path, *, epochs: int) -> list[int]:
    """Return the keys of all training rows, in order."""
    ids = mixed.token_ids
    model = MslmModel.wrap(
        masked_lm(vocab_size=ids.size, pad_token_id=ids.pad, max_position_embeddings=256),
        labels=list(mixed.labels),
    )
    keys: list[int] = []

    def look(_: Any, __: Any, given: dict[str, Any]) -> None:
        keys.extend(given["keys"].numpy().view(np.uint64).tolist())

    model.register_forward_pre_hook(look, with_kwargs=True)
    arguments = TrainingArguments(
        str(folder),
        num_train_epochs=epochs,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
    )
    loader = MaskedDataset(mixed, JOINT, seed=3).loader(batch_size=8)
    MslmTrainer(model, arguments, train_dataset=loader).train()
    return keys


def test_mslm_trainer__repeats_rows_of_a_mix_by_weight(mixed: Mix, tmp_path: Path) -> None:
    epochs = 3
    keys = trained_keys(mixed, tmp_path, epochs=epochs)

    # The key of a repeated row depends on the number of repeats so far in the epoch.
    row_of = {
        reference.key(key, number): (split, key)
        for split, part in enumerate(mixed.splits)
        for key in part.source.examples().keys.tolist()
        for number in range(4)
    }
    assert len(keys) == epochs * len(mixed)
    for epoch in range(epochs):
        own = keys[epoch * len(mixed) : (epoch + 1) * len(mixed)]
        of_split = Counter(row_of[key][0] for key in own)
        assert [of_split[split] for split in range(2)] == [part.rows for part in mixed.splits]
        assert len(set(own)) == len(own)
    times = Counter(row_of[key] for key in keys)
    for split, part in enumerate(mixed.splits):
        of_rows = [times[split, key] for key in part.source.examples().keys.tolist()]
        assert min(of_rows) == epochs * part.rows // len(part.source)
        assert max(of_rows) == -(-epochs * part.rows // len(part.source))
