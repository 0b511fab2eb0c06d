"""Sizes of a run: full on a GPU, and tiny on a CPU for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of all parts.

    Attributes:
        device: Device of the models.
        encoders: Name -> options of its configuration, including `model_type`.
        sentences: Number of sentences of the first corpus.
        notes: Number of notes of the second corpus.
        note_rows: Encoder -> maximum number of tokens of a row of notes.
        sentence_batch: Number of sentences of a batch.
        note_batch: Number of tokens of a batch of notes.
        grouped_tokens: Number of tokens of a row of the peer's concatenated sentences.
        warm: Number of warm-up steps.
        steps: Number of measured steps.
        backend: Backend of `torch.compile`.
        loss: Number of tokens, hidden size and vocabulary size of the loss.
        texts: Number of sentences and number of notes to annotate.
        tests: Test files, each run separately.
        test_processes: Number of processes per test file, with pytest-xdist.
        test_seconds: Time limit per test file.
    """

    device: str
    encoders: Mapping[str, Mapping[str, Any]]
    sentences: int
    notes: int
    note_rows: Mapping[str, int]
    sentence_batch: int
    note_batch: int
    grouped_tokens: int
    warm: int
    steps: int
    backend: str
    loss: tuple[int, int, int]
    texts: tuple[int, int]
    tests: tuple[str, ...]
    test_processes: int
    test_seconds: float


# Unlike BERT's own configuration, no dropout of attention weights: kernels for rows of different
# lengths do not support it.
_BERT = {
    "model_type": "bert",
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}
_MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": 50_368,
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 8192,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
    "cls_token_id": 2,
    "sep_token_id": 3,
}
_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 1_200,
}

FULL = Scale(
    device="cuda",
    encoders={"BERT-base": _BERT, "ModernBERT-base": _MODERNBERT},
    sentences=12_574,
    notes=800,
    note_rows={"BERT-base": 512, "ModernBERT-base": 2048},
    sentence_batch=128,
    note_batch=16_384,
    grouped_tokens=512,
    warm=10,
    steps=60,
    backend="inductor",
    loss=(8_192, 768, 30_522),
    texts=(800, 30),
    tests=(
        "tests/gpu/test_flat.py",
        "tests/gpu/test_training.py",
        "tests/gpu/test_annotators.py",
    ),
    test_processes=4,
    test_seconds=120,
)
TINY = Scale(
    device="cpu",
    encoders={"BERT-base": _BERT | _SMALL, "ModernBERT-base": _MODERNBERT | _SMALL},
    sentences=200,
    notes=12,
    note_rows={"BERT-base": 128, "ModernBERT-base": 256},
    sentence_batch=8,
    note_batch=512,
    grouped_tokens=256,
    warm=1,
    steps=2,
    backend="eager",
    loss=(64, 16, 100),
    texts=(20, 2),
    tests=("tests/torch/test_second_device.py",),
    test_processes=1,
    test_seconds=1_000,
)
