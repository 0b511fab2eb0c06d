from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from experiments.corpora import Cache

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and without a head."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tests.made import SAMPLE, word_piece

    torch.set_num_threads(1)  # threads wait for each other longer than models this small compute
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    size = word_piece().ids.size
    transformers.BertModel(transformers.BertConfig(vocab_size=size, **SIZES)).save_pretrained(
        folder
    )
    (folder / "vocab.txt").write_bytes((SAMPLE / "vocab.txt").read_bytes())
    return folder


@pytest.fixture(scope="session")
def cache(encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """A cache of the shipped samples, shared by all tests."""
    from experiments.corpora import Cache

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MSLM_DATA_REAL", str(encoder_folder / "absent"))
        made = Cache(folder=tmp_path_factory.mktemp("cache"), encoder=encoder_folder)
        made.everything()
        made.domain()
    return made


@pytest.fixture(autouse=True)
def samples_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use no real corpora, which take longer, and keep the process' priority."""
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "absent"))
    monkeypatch.setattr(os, "nice", lambda _: 0)
