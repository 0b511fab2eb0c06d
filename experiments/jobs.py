"""Do a run: build what it needs, train, score."""

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
from experiments import classifier as classifier_module
from experiments import encoder, few_shot, masks, training
from experiments.classifier import Classifier, of_texts, predictions
from experiments.classifier import save as save_classifier
from experiments.corpora import Cache, command
from experiments.lines import Run
from experiments.plan import CLASSIFIER, adaptation, loss_weights
from experiments.scores import class_scores, mention_scores, sensitivity, unseen_scores
from experiments.training import Schedule
from mslm_data.api.loading import Shards
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.torch import MslmModel, SoftMasks, general_knowledge_loss, head_importance

IMPORTANCE_BATCHES = 40
"""Batches of 32 rows by which DGA measures its heads; 20 agree with 40 at a correlation of .99."""
TASK_MODEL_SEED = 100
"""A seed of no comparison, for the classifier that Selective Masking asks."""
VIEWS: Mapping[str, training.Views] = {
    "plain": training.on_plain_rows,
    "masked": training.on_masked_rows,
    "two": training.in_two_views,
}


def do(run: Run, cache: Cache) -> dict[str, Any]:
    """Do a run.

    Returns:
        What was hidden, `steps`, `tokens`, the last `loss`, `start`, which is the digest of the
        weights that all runs begin with, and `scores`.
    """
    start = encoder.with_head(cache)
    begun = time.perf_counter()
    result = _JOBS[run.task](run, cache, start)
    hours = round((time.perf_counter() - begun) / 3600, 4)
    return {"start": encoder.digest(start), "hours": hours, **result}


def _ner(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Fine-tune for the mentions of a corpus, perhaps from an adapted encoder."""
    options = run.options
    shards = cache.ner(run.corpus)
    folder = start
    if options["adapted"]:
        folder = adapted(adaptation(options["adapted"], run.seed), cache, start)

    strategy, hidden = _hidden(options.get("masks", ""), shards, start, seed=run.seed)
    w_elm, w_blm = loss_weights(options.get("weights", (1.0, 1.0)), hidden)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(
        encoder.masked_lm(folder, cache.device),
        labels=shards.labels,
        two_views=False,  # the arm's own views are made of its batches
        w_elm=w_elm,
        w_blm=w_blm,
    )
    trained = training.optimise(
        model,
        shards["train"],
        strategy,
        VIEWS[options["views"]],
        _schedule(options),
        seed=run.seed,
    )
    return {**hidden, **trained, "scores": mention_scores(model, shards[options["scored"]])}


def _few_shot(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Fine-tune on a few documents of a corpus, perhaps from an adapted encoder."""
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
    """Adapt the encoder with masks, or not at all, and measure what it predicts afterwards."""
    if not run.arm:
        model = MslmModel.wrap(encoder.masked_lm(start, cache.device), w_elm=1.0, w_blm=1.0)
        return {"steps": 0, "tokens": 0, "scores": sensitivity(model, cache)}

    folder = _folder(run, cache, start)
    with FileLock(f"{folder}.lock"):
        made = _adapt(run, cache, start)
    model = MslmModel.wrap(encoder.masked_lm(folder, cache.device), w_elm=1.0, w_blm=1.0)
    return {**made, "scores": sensitivity(model, cache, confidence=run.corpus == "domain")}


def adapted(run: Run, cache: Cache, start: Path) -> Path:
    """Return the folder of an adapted encoder, which is trained again if it is not there."""
    folder = _folder(run, cache, start)
    with FileLock(f"{folder}.lock"):
        if not (folder / "config.json").is_file():
            _adapt(run, cache, start)
    return folder


def _folder(run: Run, cache: Cache, start: Path) -> Path:
    text = "" if run.corpus == "domain" else f"{run.corpus}-"
    return cache.folder / "encoders" / f"{start.name}-{text}{run.arm}-{run.seed}"


def _adapt(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Train an encoder to predict what masks hide (Eq. 6 with equal weights), and save it."""
    shards = cache.domain() if run.corpus == "domain" else cache.open_text()
    target = run.options.get("masked")
    if run.arm == masks.WEAK:
        target = masks.hidden(masks.make_joint(shards), shards, seed=run.seed).realised_rate
        shards = cache.weak_domain()
    strategy, hidden = _hidden(run.arm, shards, start, seed=run.seed, target=target)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(encoder.masked_lm(start, cache.device), w_elm=1.0, w_blm=1.0)
    trained = training.optimise(
        model,
        shards["train"],
        strategy,
        training.of_hidden_tokens,
        _schedule(run.options),
        seed=run.seed,
        dropout=run.options["dropout"],
    )
    encoder.save(model.masked_lm, _folder(run, cache, start), tokenizer=start)
    return {**hidden, **trained}


def _classification(run: Run, cache: Cache, start: Path) -> dict[str, Any]:
    """Adapt an encoder on a task's own training text, or not, and fine-tune a classifier."""
    options = run.options
    shards = cache.task(run.corpus)
    torch.manual_seed(run.seed)
    model = MslmModel.wrap(encoder.masked_lm(start, cache.device), w_elm=1.0, w_blm=1.0)

    made: dict[str, Any] = {"hidden": 0.0}
    if options["masks"]:
        if options["masks"] == "selective":
            with FileLock(f"{shards.folder}.scores.lock"):
                _score_by_task_model(run.corpus, cache, start)
        strategy, made = _hidden(
            options["masks"], shards, start, seed=run.seed, target=options["hidden"]
        )
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
        made = {**made, "adapted": adapted}

    torch.manual_seed(run.seed)
    classifier = Classifier(model.encoder(), len(shards.doc_labels)).to(cache.device)
    trained = training.optimise(
        classifier, shards["train"], None, of_texts, _schedule(options), seed=run.seed
    )
    gold, predicted = predictions(classifier, shards[options["scored"]])
    return {**made, **trained, "scores": class_scores(gold, predicted, len(shards.doc_labels))}


class _Guard:
    """How an adaptation keeps general knowledge: not at all, or by DGA.

    Attributes:
        model: What is trained.
        views: What it is called with.
        around: The context of its steps; None for none.
    """

    def __init__(self, model: MslmModel, train: Split, scales: str, *, seed: int) -> None:
        self.model: Any = model
        self.views: training.Views = training.of_hidden_tokens
        self.around: Any = None
        if not scales:
            return

        plain = md.Batches(
            train, md.strategy("joint", elm=0, blm=0), batch_size=32, seed=seed, bucketed=True
        )
        torch.manual_seed(seed)
        importance = head_importance(model, itertools.islice(plain, IMPORTANCE_BATCHES))
        self.model = _Contrasting(model, importance)
        self.views = training.for_general_knowledge
        self.around = SoftMasks(model, importance, scales)  # type: ignore[arg-type]


class _Contrasting(torch.nn.Module):
    """A masked language model that has DGA's contrastive loss on rows without hidden tokens."""

    def __init__(self, model: MslmModel, importance: torch.Tensor) -> None:
        super().__init__()
        self.model = model
        self.importance = importance

    def forward(self, **view: torch.Tensor) -> Any:
        if "labels" in view:
            return self.model(**view)
        loss = general_knowledge_loss(self.model, importance_KN=self.importance, **view)
        return SimpleNamespace(loss=loss)


def _score_by_task_model(corpus: str, cache: Cache, start: Path) -> None:
    """Score tokens by what a classifier needs, with the package's command, once."""
    shards = cache.task(corpus)
    folder = Path(str(shards.folder))
    if (folder / "vocab" / "confidence").is_dir():
        return

    of_model = cache.folder / "encoders" / f"{start.name}-{corpus}-classifier"
    torch.manual_seed(TASK_MODEL_SEED)
    masked_lm = encoder.masked_lm(start, cache.device)
    classifier = Classifier(masked_lm.base_model, len(shards.doc_labels)).to(cache.device)
    schedule = _schedule(CLASSIFIER[corpus])
    training.optimise(classifier, shards["train"], None, of_texts, schedule, seed=TASK_MODEL_SEED)
    encoder.save(masked_lm, of_model, tokenizer=start)
    save_classifier(classifier, of_model)

    named = {classifier_module.TASK: str(folder), classifier_module.MODEL: str(of_model)}
    asked = ["--callable", "experiments.classifier:p_true", "--split", "train"]
    command("vocab", "scores", "confidence", str(folder), *asked, environment=named)


def _hidden(
    name: str, shards: Shards, start: Path, *, seed: int, target: float | None = None
) -> tuple[Strategy | None, dict[str, Any]]:
    """Return masks, what they hide in an epoch, and the weights of Eq. 5 that would follow."""
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
