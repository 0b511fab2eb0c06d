"""The slow twin of each strategy: `twin(row, seed=, epoch=, **options) -> kinds`."""

from __future__ import annotations

from tests.reference import (
    causal,
    diffusion,
    entities,
    grams,
    joint,
    picks,
    scored,
    spans,
    tokens,
    whole_words,
)

TWINS = {
    **joint.TWINS,
    **picks.TWINS,
    **tokens.TWINS,
    **whole_words.TWINS,
    **grams.TWINS,
    **entities.TWINS,
    **scored.TWINS,
    **spans.TWINS,
    **diffusion.TWINS,
    **causal.TWINS,
}
