"""A small model trained on the shipped sample, for tests that need predicted entities."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel
from tests.torch.families import masked_lm


class Gold(NamedTuple):
    """A text and its mentions: start, end and label."""

    text: str
    mentions: list[tuple[int, int, str]]


class Trained(NamedTuple):
    """A model and its training data."""

    model: MslmModel
    gold: list[Gold]


def trained_on_sample(folder: Path) -> Trained:
    """Build the sample of NCBI-disease, and train a BERT until it knows its rows by heart."""
    import torch

    shards = md.build(
        "blurb/ncbi-disease",
        sample=True,
        out=folder,
        workers=1,
        options={"encode.keep_text": True},
    )
    model = MslmModel.wrap(
        masked_lm(
            "bert",
            vocab_size=shards.manifest.token_ids.size,
            hidden_size=64,
            max_position_embeddings=128,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        labels=shards.labels,
        tokenizer=shards.tokenizer,
        dropout=0.0,
    )

    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    unmasked = md.strategy("unmasked")
    loader = MaskedDataset(shards["train"], unmasked, seed=0).loader(batch_size=16)
    for epoch in range(40):
        loader.set_epoch(epoch)
        for batch in loader:
            model(**batch).loss.backward()
            optimiser.step()
            optimiser.zero_grad()

    gold = []
    for row in (shards["train"][number] for number in range(len(shards["train"]))):
        spans = zip(row["span_starts"], row["span_ends"], row["span_labels"], strict=True)
        mentions = [
            (
                int(row["token_starts"][start]),
                int(row["token_ends"][end - 1]),
                shards.labels[int(label)],
            )
            for start, end, label in spans
        ]
        gold.append(Gold(row["text"], mentions))
    return Trained(model.eval(), gold)
