"""One run of `experiments.finetune`: a model from a pre-trained encoder, two stages of training, a score after each."""

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
from mslm_data.mask import Strategy
from mslm_data.stats.tally import mask_stats
from mslm_data.torch import MslmModel, evaluate

WEIGHTS = {"half": (0.5, 0.5), "ones": (1.0, 1.0)}
"""Loss weights that do not come from counts: both as Eq. 5 has them where it saturates, and none at all."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is trained in the first stage.

    Attributes:
        strategy: What masks; "" is vanilla: nothing is hidden and Eq. 6 is not in the loss.
        elm: Of `joint`; other strategies hide as many tokens as `MSLM` does.
        blm: Likewise.
        weights: "eq5", from the counts of the training rows, or a name of `WEIGHTS`.
    """

    strategy: str = "joint"
    elm: float = 1.0
    blm: float = 0.075
    weights: str = "eq5"


VANILLA, MSLM = Arm(strategy=""), Arm()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all runs of a table have in common.

    Attributes:
        encoder: Digest of the encoder's weights, see `digest`.
        sentences: Training sentences.
        scored: Sentences that are scored.
        on: "test", or "validation" to choose settings by.
        epochs: Of each of the two stages.
        batch_size: Sentences a step.
        learning_rate: Of Adam, constant.
        bf16: Whether matrices are multiplied in bfloat16 (autocast), in training and in scoring.
        frozen: Whether token embeddings stay as they are, and so the tied part of the language modelling head.
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
        arm: What the first stage trains; the second is always NER on unmasked text.
        shards: The corpus; its training split is trained on whole.
        encoder: A folder or hub id.
        settings: How.
        seed: Of new weights, order, masks and dropout.
        device: Of torch.

    Returns:
        What was hidden, the weights, and for each stage steps, losses, scores and seconds.
    """
    strategy = None if arm == VANILLA else _strategy(arm, shards, seed=seed)
    hidden, weights = _hidden(arm, strategy, shards, seed=seed)
    model = _model(encoder, shards, weights, seed=seed).to(device)
    model.get_input_embeddings().weight.requires_grad_(not settings.frozen)
    stages = []
    for number in range(2):
        masks = strategy if number == 0 else None
        start = time.perf_counter()
        trained = _train(model, shards, masks, settings, first=number * settings.epochs, seed=seed)
        seconds = time.perf_counter() - start
        stages.append({**trained, "seconds": round(seconds, 1), **_scores(model, shards, settings)})
        if arm == MSLM and number == 0:
            stages[0]["on_masked"] = _scores(model, shards, settings, masked=True)
    return {**hidden, "stages": stages}


def identify(corpus: str, arm: Arm, settings: Settings, seed: int) -> dict[str, Any]:
    """Return what a run is known by, as JSON has it: equal ones give equal results on one machine."""
    return {"corpus": corpus, "arm": asdict(arm), "settings": asdict(settings), "seed": seed}


def digest(encoder: str) -> str:
    """Return a short SHA-256 of an encoder's own weights, without any head."""
    encoder_only = _masked_lm(encoder).base_model
    sha = hashlib.sha256()
    for name, values in sorted(encoder_only.state_dict().items()):
        sha.update(name.encode())
        sha.update(values.contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


def _masked_lm(encoder: str) -> Any:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it tells at length that the head is new
    try:
        return transformers.AutoModelForMaskedLM.from_pretrained(encoder, dtype=torch.float32)
    finally:
        transformers.logging.set_verbosity(level)


def _model(encoder: str, shards: Shards, weights: tuple[float, float], *, seed: int) -> MslmModel:
    """Return the same model for all arms of a seed, weights of the loss aside."""
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
    """Return a strategy that hides as many tokens of the training rows as `MSLM` does, as nearly as it can.

    Its rate is not the share that is hidden, as budgets are rounded up in each row and PMI may find nothing to spend
    them on; so the rate is moved by what was missed, a few times.
    """
    target = _stats(
        md.strategy("joint", elm=MSLM.elm, blm=MSLM.blm), shards, seed=seed
    ).realised_rate
    rate, option = target, "blm" if name == "blm" else "rate"
    tried: dict[float, Strategy] = {}
    for _ in range(6):
        made = shards.strategy(name, **{option: rate})
        missed = target - _stats(made, shards, seed=seed).realised_rate
        tried[abs(missed)] = made
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
    """Train some epochs by Eq. 12 on masked text, or without a strategy by Eq. 8 and 11 on the text as it is."""
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
            losses.append(loss.detach())  # not read here, where an accelerator would be waited for
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
    """Return exact match (recall), precision and micro F1."""
    with warnings.catch_warnings(), _autocast(model, settings):
        warnings.filterwarnings(
            "ignore", message="evaluate: masked=True"
        )  # the results say so themselves
        result = evaluate(model, shards[settings.on], labels=shards.labels, masked=masked)
    return {
        name: result[name]
        for name in ("exact_match", "precision", "micro_f1", "hits", "gold", "predicted")
    }
