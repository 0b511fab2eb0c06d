"""Tiny models with random weights, saved as by `save_pretrained`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.made import SAMPLE

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZE = len((SAMPLE / "vocab.txt").read_text(encoding="utf-8").splitlines())


def config(**changes: Any) -> Any:
    tiny = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 32,
    }
    return transformers.BertConfig(
        **({"vocab_size": SIZE, "initializer_range": 0.7} | tiny | changes)
    )


def saved(
    folder: Path, kind: str = "BertModel", *, vocab: str | None = None, **changes: Any
) -> Path:
    """Save a model with the shipped sample's vocabulary; with `vocab`, also a `vocab.txt`."""
    torch.manual_seed(7)
    getattr(transformers, kind)(config(**changes)).save_pretrained(folder)
    if vocab is not None:
        (folder / "vocab.txt").write_text(vocab, encoding="utf-8")
    return folder


def sample_vocab() -> str:
    return (SAMPLE / "vocab.txt").read_text(encoding="utf-8")


def plain(folder: Path, kind: str = "AutoModel") -> Any:
    """Load a model with transformers only, with attention weights."""
    return getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()
