"""Train and score one model of `experiments.finetune`, in two stages."""

from __future__ import annotations

import hashlib
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch
import transformers

import mslm_data as md
from mslm_data.loading import Shards
from mslm_data.mask.strategy import Strategy
from mslm_data.stats.tally import mask_stats
from mslm_data.torch import MslmModel, evaluate

WEIGHTS = {"half": (0.5, 0.5), "ones": (1.0, 1.0)}
"""Loss weights that do not come from counts.

"half" is what Eq. 5 gives where ELM masks more tokens than BLM, as both clips of Eq. 3 fire there.
Whether it does at ELM 1.0 and BLM 0.075 depends on corpus and vocabulary: with PubMedBERT's not on
BC5CDR-chem (.5009/.4991) and BC5CDR-disease (.5379/.4621). "ones" is plain cross-entropy.
"""
ALL_SENTENCES = 1 << 30
"""More sentences than any corpus has: no limit."""
SCORES = ("precision", "recall", "micro_f1", "hits", "gold", "predicted")
"""What is kept of each score."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train the first stage.

    Attributes:
        strategy: Name of the masking strategy. "" is vanilla: nothing is hidden, and Eq. 6 is not
            in the loss.
        elm: ELM's rate for `joint`. Other strategies hide as many tokens as `MSLM` does.
        blm: BLM's rate for `joint`.
        weights: "eq5" takes them from the counts of the training rows; else a name of `WEIGHTS`.
    """

    strategy: str = "joint"
    elm: float = 1.0
    blm: float = 0.075
    weights: str = "eq5"


VANILLA = Arm(strategy="")
MSLM = Arm()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that all runs of a table share.

    Attributes:
        encoder: Digest of the encoder's weights, by `digest`.
        sentences: Maximum number of training sentences.
        scored: Maximum number of sentences to score.
        on: "test", or "validation" to choose settings by.
        epochs: Number of epochs of each stage.
        batch_size: Sentences a step.
        learning_rate: Constant rate of Adam.
        bf16: Whether matrices are multiplied in bfloat16 (autocast), in training and in scoring.
        frozen: Whether token embeddings, and so the tied part of the language modelling head, stay
            as they are.
    """

    encoder: str
    sentences: int
    scored: int
    on: str
    epochs: int
    batch_size: int
    learning_rate: float
    bf16: bool = False
    frozen: bool = False


def run(
    arm: Arm, shards: Shards, encoder: str, settings: Settings, *, seed: int, device: str
) -> dict[str, Any]:
    """Train and score one model.

    Args:
        arm: How the first stage is trained. The second is always NER on unmasked text.
        shards: The corpus. All of its training split is used.
        encoder: Folder or hub id of the encoder.
        settings: What all runs share.
        seed: Seed of new weights, order, masks and dropout.
        device: Device of torch.

    Returns:
        Shares and counts of hidden tokens, the weights, and for each stage its steps, loss, scores
        and seconds.
    """
    strategy = None if arm == VANILLA else _strategy(arm, shards, seed=seed)
    hidden, weights = _hidden(arm, strategy, shards, seed=seed)

    model = _model(encoder, shards, weights, seed=seed).to(device)  # type: ignore[arg-type]
    model.get_input_embeddings().weight.requires_grad_(not settings.frozen)

    stages = []
    for number in range(2):
        masks = strategy if number == 0 else None
        start = time.perf_counter()
        trained = _train(model, shards, masks, settings, first=number * settings.epochs, seed=seed)
        seconds = round(time.perf_counter() - start, 1)

        scores = _scores(model, shards, settings)
        stages.append({**trained, "seconds": seconds, **scores})
        if arm == MSLM and number == 0:
            stages[0]["on_masked"] = _scores(model, shards, settings, masked=True)
    return {**hidden, "stages": stages}


def identify(corpus: str, arm: Arm, settings: Settings, seed: int) -> dict[str, Any]:
    """Return what identifies a run, for JSON: equal ones have equal results on one machine."""
    return {"corpus": corpus, "arm": asdict(arm), "settings": asdict(settings), "seed": seed}


def digest(encoder: str) -> str:
    """Return the first 16 digits of the SHA-256 of an encoder's weights, heads left out."""
    encoder_only = _masked_lm(encoder).base_model
    sha = hashlib.sha256()
    for name, values in sorted(encoder_only.state_dict().items()):
        sha.update(name.encode())
        sha.update(values.contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


def _masked_lm(encoder: str) -> Any:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # or it says at length that the head is new
    try:
        return transformers.AutoModelForMaskedLM.from_pretrained(encoder, dtype=torch.float32)
    finally:
        transformers.logging.set_verbosity(level)


def _model(encoder: str, shards: Shards, weights: tuple[float, float], *, seed: int) -> MslmModel:
    """Return the model that all arms of a seed begin with. Only weights of the loss differ."""
    torch.manual_seed(seed)
    return MslmModel.wrap(
        _masked_lm(encoder), labels=shards.labels, w_elm=weights[0], w_blm=weights[1]
    )


def _strategy(arm: Arm, shards: Shards, *, seed: int) -> Strategy:
    if arm.strategy != "joint":
        return at_equal_budget(arm.strategy, shards, seed=seed)
    joint: Strategy = md.strategy("joint", elm=arm.elm, blm=arm.blm)
    return joint


def at_equal_budget(name: str, shards: Shards, *, seed: int) -> Strategy:
    """Return a strategy that hides about as many tokens of the training rows as `MSLM` does.

    Its rate is not the share that it hides: budgets are rounded up in each row, and PMI may find
    nothing to spend them on. So the rate is corrected by what was missed, six times, and the best
    try counts.
    """
    joint = md.strategy("joint", elm=MSLM.elm, blm=MSLM.blm)
    target = _stats(joint, shards, seed=seed).realised_rate
    option = "blm" if name == "blm" else "rate"

    rate = target
    tried: dict[float, Strategy] = {}
    for _ in range(6):
        strategy = shards.strategy(name, **{option: rate})
        missed = target - _stats(strategy, shards, seed=seed).realised_rate
        tried[abs(missed)] = strategy
        rate = min(1.0, max(0.0, round(rate + missed, 4)))
    return tried[min(tried)]


def _stats(strategy: Strategy, shards: Shards, *, seed: int) -> Any:
    return mask_stats(shards["train"].chunks, strategy, seed=seed, labels=shards.labels)


def _hidden(
    arm: Arm, strategy: Strategy | None, shards: Shards, *, seed: int
) -> tuple[dict[str, Any], tuple[float, float]]:
    """Return what a strategy hides in an epoch, as `mask-stats` counts it, and the weights."""
    if strategy is None:
        return {"hidden": 0.0, "n_elm": 0, "n_blm": 0, "weights": None}, WEIGHTS["half"]

    stats = _stats(strategy, shards, seed=seed)
    weights = WEIGHTS.get(arm.weights) or md.mask_specific_weights(stats.n_elm, stats.n_blm)
    counts = {"hidden": stats.realised_rate, "n_elm": stats.n_elm, "n_blm": stats.n_blm}
    return {**counts, "weights": list(weights)}, weights


def _train(
    model: MslmModel,
    shards: Shards,
    strategy: Strategy | None,
    settings: Settings,
    *,
    first: int,
    seed: int,
) -> dict[str, Any]:
    """Train one stage: by Eq. 12 on masked text, or without a strategy for NER alone."""
    joint = strategy is not None
    batches = md.Batches(
        shards["train"],
        strategy or md.strategy("joint", elm=0, blm=0),
        batch_size=settings.batch_size,
        seed=seed,
        bucketed=True,
    )
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=settings.learning_rate, fused=True)

    model.train()
    losses: list[torch.Tensor] = []
    for epoch in range(first, first + settings.epochs):
        batches.epoch = epoch
        for batch in batches:
            optimiser.zero_grad()
            with _autocast(model, settings):
                loss = model(**_tensors(batch, joint=joint, device=model.device)).loss
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())  # not read here, which would wait for an accelerator
    return {"steps": len(losses), "loss": float(torch.stack(losses[-10:]).mean())}


def _tensors(
    batch: dict[str, Any], *, joint: bool, device: torch.device
) -> dict[str, torch.Tensor]:
    without = {"keys"} if joint else {"keys", "labels", "mask_kinds"}
    return {
        name: torch.from_numpy(array).to(device)
        for name, array in batch.items()
        if name not in without
    }


def _autocast(model: MslmModel, settings: Settings) -> torch.autocast:
    return torch.autocast(model.device.type, torch.bfloat16, enabled=settings.bf16)


def _scores(
    model: MslmModel, shards: Shards, settings: Settings, *, masked: bool = False
) -> dict[str, Any]:
    """Return precision, recall, micro F1 and their counts."""
    with warnings.catch_warnings(), _autocast(model, settings):
        # The results page says itself what scores on masked text are worth.
        warnings.filterwarnings("ignore", message="evaluate: masked=True")
        result = evaluate(model, shards[settings.on], labels=shards.labels, masked=masked)
    return {name: result[name] for name in SCORES}
