"""Do a run: build its corpora, adapt the encoder, train and score."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from filelock import FileLock

import mslm_data as md
from examples.dga import SoftMasks, general_knowledge_loss, head_importance
from experiments import classifier as classifier_module
from experiments import encoder, few_shot, masks, training
from experiments.classifier import Classifier, on_texts, predictions
from experiments.classifier import save as save_classifier
from experiments.corpora import Cache, command
from experiments.lines import Run
from experiments.plan import CLASSIFIER, adaptation, loss_weights
from experiments.scores import class_scores, mention_scores, sensitivity, unseen_scores
from experiments.training import Schedule
from mslm_data.api.loading import Shards
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.torch import MslmModel

IMPORTANCE_BATCHES = 40
"""Number of batches of 32 rows for DGA's head importance.

The importance from 20 batches correlates with that from 40 at .99.
"""
TASK_MODEL_SEED = 100
"""Seed of the task model of Selective Masking. No comparison uses it."""
VIEWS: Mapping[str, training.Views] = {
    "plain": training.on_plain_rows,
    "masked": training.on_masked_rows,
    "two": training.in_two_views,
}


def do(run: Run, cache: Cache) -> dict[str, Any]:
    """Do a run.

    Returns:
        `start`, the digest of the initial weights; `hours`; the share and counts of masked tokens;
        `steps`, `tokens` and the last `loss`; and `scores`.
    """
    start = encoder.with_head(cache)
    begun = time.perf_counter()
    result = _JOBS[run.task](run, cache, start)
    hours = round((time.perf_counter() - begun) / 3600, 4)
    return {"start": encoder.digest(start), "hours": hours, **result}


def _ner(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Fine-tune for named entities, from an adapted encoder if the arm has one."""
    options = run.options
    shards = cache.ner(run.corpus)
    folder = start
    if options["adapted"]:
        folder = adapted(adaptation(options["adapted"], run.seed), cache, start)

    strategy, masked = _make_strategy(options.get("masks", ""), shards, start, seed=run.seed)
    w_elm, w_blm = loss_weights(options.get("weights", (1.0, 1.0)), masked)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(
        encoder.masked_lm(folder, cache.device),
        labels=shards.labels,
        two_views=False,  # `VIEWS` makes the views of a batch
    )
    weights = training.count_weights(shards["train"], strategy, seed=run.seed)
    model.set_loss_weights(**weights | {"w_elm": w_elm, "w_blm": w_blm})
    trained = training.optimise(
        model,
        shards["train"],
        strategy,
        VIEWS[options["views"]],
        _schedule(options),
        seed=run.seed,
    )
    return {**masked, **trained, "scores": mention_scores(model, shards[options["scored"]])}


def _few_shot(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Fine-tune on a few documents of a corpus, from an adapted encoder if the arm has one."""
    options = run.options
    folder = start
    if few_shot.ARMS[run.arm]:
        folder = adapted(few_shot.adaptation(run.arm, options["replicate"]), cache, start)

    documents = cache.documents(run.corpus)
    train = documents["train"].subset(share=options["share"], seed=options["replicate"])
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(
        encoder.masked_lm(folder, cache.device), labels=documents.labels, two_views=False
    )
    model.set_loss_weights(**training.count_weights(train, None, seed=run.seed))
    if options["frozen"]:
        model.encoder().requires_grad_(False)
    trained = training.optimise(
        model, train, None, training.on_plain_rows, _schedule(options), seed=run.seed
    )
    scored = cache.ner(run.corpus)[options["scored"]]
    return {
        **trained,
        "documents": train.documents,
        "scores": unseen_scores(model, scored, train, encoder.decoder(start)),
    }


def _adaptation(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Adapt the encoder with the arm's masks, if any, and measure its predictions."""
    if not run.arm:
        model = MslmModel.wrap(encoder.masked_lm(start, cache.device), w_elm=1.0, w_blm=1.0)
        return {"steps": 0, "tokens": 0, "scores": sensitivity(model, cache)}

    # Always train: the line needs steps, tokens and loss, which a saved folder does not have.
    folder = _folder(run, cache, start)
    with FileLock(f"{folder}.lock"):
        result = _adapt(run, cache, start)
    model = MslmModel.wrap(encoder.masked_lm(folder, cache.device), w_elm=1.0, w_blm=1.0)
    return {**result, "scores": sensitivity(model, cache, confidence=run.corpus == "domain")}


def adapted(run: Run, cache: Cache, start: Path) -> Path:
    """Return the folder of an adapted encoder, and train it if the folder is missing."""
    folder = _folder(run, cache, start)
    with FileLock(f"{folder}.lock"):
        if not (folder / "config.json").is_file():
            _adapt(run, cache, start)
    return folder


def _folder(run: Run, cache: Cache, start: Path) -> Path:
    text = "" if run.corpus == "domain" else f"{run.corpus}-"
    return cache.folder / "encoders" / f"{start.name}-{text}{run.arm}-{run.seed}"


def _adapt(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Train an encoder to predict masked tokens (Eq. 6 with equal weights), and save it."""
    shards = cache.domain() if run.corpus == "domain" else cache.open_text()
    target = run.options.get("masked")
    if run.arm == masks.WEAK:
        # Mask as many tokens as joint masking of the gold mentions.
        target = masks.count_masked(masks.make_joint(shards), shards, seed=run.seed).realised_rate
        shards = cache.weak_domain()
    strategy, masked = _make_strategy(run.arm, shards, start, seed=run.seed, target=target)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(encoder.masked_lm(start, cache.device))
    model.set_loss_weights(**training.count_weights(shards["train"], strategy, seed=run.seed))
    trained = training.optimise(
        model,
        shards["train"],
        strategy,
        training.on_masked_tokens,
        _schedule(run.options),
        seed=run.seed,
        dropout=run.options["dropout"],
    )
    encoder.save(model.masked_lm, _folder(run, cache, start), tokenizer=start)
    return {**masked, **trained}


def _classification(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Adapt the encoder on the task's training text, if the arm has masks; train a classifier."""
    options = run.options
    shards = cache.task(run.corpus)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(encoder.masked_lm(start, cache.device))

    result: dict[str, Any] = {"hidden": 0.0}
    if options["masks"]:
        if options["masks"] == "selective":
            with FileLock(f"{shards.folder}.scores.lock"):
                _score_by_task_model(run.corpus, cache, start)
        strategy, result = _make_strategy(
            options["masks"], shards, start, seed=run.seed, target=options["hidden"]
        )
        model.set_loss_weights(**training.count_weights(shards["train"], strategy, seed=run.seed))
        schedule = _schedule(options["adaptation"])
        guard = _Guard(model, shards["train"], options["guard"], seed=run.seed)
        adapted = training.optimise(
            guard.model,
            shards["train"],
            strategy,
            guard.views,
            schedule,
            seed=run.seed,
            around=guard.around,
        )
        result = {**result, "adapted": adapted}

    # All arms of a seed start from the same weights of the new layer.
    torch.manual_seed(run.seed)
    classifier = Classifier(model.encoder(), len(shards.doc_labels)).to(cache.device)
    trained = training.optimise(
        classifier, shards["train"], None, on_texts, _schedule(options), seed=run.seed
    )
    gold, predicted = predictions(classifier, shards[options["scored"]])
    return {**result, **trained, "scores": class_scores(gold, predicted, len(shards.doc_labels))}


class _Guard:
    """Adaptation with or without DGA, which preserves general knowledge.

    Attributes:
        model: Model to train.
        views: Forward passes of a batch.
        around: Context of the training steps; None without DGA.
    """

    def __init__(self, model: MslmModel, train: Split, scales: str, *, seed: int) -> None:
        self.model: Any = model
        self.views: training.Views = training.on_masked_tokens
        self.around: Any = None
        if not scales:
            return

        # Importance is measured on unmasked rows.
        plain = md.Batches(
            train, md.strategy("joint", elm=0, blm=0), batch_size=32, seed=seed, bucketed=True
        )
        torch.manual_seed(seed)
        encoder = model.encoder()
        importance = head_importance(encoder, itertools.islice(plain, IMPORTANCE_BATCHES))
        self.model = _Contrasting(model, importance)
        self.views = training.for_general_knowledge
        self.around = SoftMasks(encoder, importance, scales)  # type: ignore[arg-type]


class _Contrasting(torch.nn.Module):
    """A masked language model with DGA's contrastive loss on unmasked rows."""

    def __init__(self, model: MslmModel, importance: torch.Tensor) -> None:
        super().__init__()
        self.model = model
        self.importance = importance

    def forward(self, **view: torch.Tensor) -> Any:
        if "labels" in view:
            return self.model(**view)
        loss = general_knowledge_loss(self.model.encoder(), importance=self.importance, **view)
        return SimpleNamespace(loss=loss)


def _score_by_task_model(corpus: str, cache: Cache, start: Path) -> None:
    """Write the scores of Selective Masking with `vocab scores confidence`, if missing.

    The task model is a classifier fine-tuned without adaptation.
    """
    shards = cache.task(corpus)
    folder = Path(str(shards.folder))
    if (folder / "vocab" / "confidence").is_dir():
        return

    model_folder = cache.folder / "encoders" / f"{start.name}-{corpus}-classifier"
    torch.manual_seed(TASK_MODEL_SEED)
    masked_lm = encoder.masked_lm(start, cache.device)
    classifier = Classifier(masked_lm.base_model, len(shards.doc_labels)).to(cache.device)
    schedule = _schedule(CLASSIFIER[corpus])
    training.optimise(classifier, shards["train"], None, on_texts, schedule, seed=TASK_MODEL_SEED)
    encoder.save(masked_lm, model_folder, tokenizer=start)
    save_classifier(classifier, model_folder)

    variables = {classifier_module.TASK: str(folder), classifier_module.MODEL: str(model_folder)}
    arguments = ["--callable", "experiments.classifier:p_true", "--split", "train"]
    command("vocab", "scores", "confidence", str(folder), *arguments, environment=variables)


def _make_strategy(
    name: str, shards: Shards, start: Path, *, seed: int, target: float | None = None
) -> tuple[Strategy | None, dict[str, Any]]:
    """Return a strategy, counts of its masked tokens in an epoch, and the weights of Eq. 5."""
    if not name:
        return None, {"hidden": 0.0}

    strategy, stats = masks.masks(name, shards, encoder=start, seed=seed, target=target)
    weights = md.mask_specific_weights(stats.n_elm, stats.n_blm)
    counts = {"hidden": round(stats.realised_rate, 4), "n_elm": stats.n_elm, "n_blm": stats.n_blm}
    return strategy, {**counts, "eq5": [round(weight, 4) for weight in weights]}


def _schedule(options: Mapping[str, Any]) -> Schedule:
    return Schedule(**{name: options[name] for name in ("epochs", "batch_size", "rate")})


_JOBS = {
    "ner": _ner,
    "few-shot": _few_shot,
    "adaptation": _adaptation,
    "classification": _classification,
}
