"""Models, losses, metrics and trainers give the same results on a GPU as on a CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytest.importorskip("accelerate")

from accelerate.state import AcceleratorState  # noqa: E402
from transformers import TrainingArguments  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import (  # noqa: E402
    MaskedDataset,
    MaskSpecificLoss,
    MslmModel,
    MslmTrainer,
    count_tokens,
    evaluate,
    mention_confidence,
    perplexity,
)
from mslm_data.torch.model.ranges import decode_spans, pool_spans  # noqa: E402
from tests import made  # noqa: E402
from tests.generate import IDS, fixed_examples  # noqa: E402
from tests.gpu.devices import CARD, HAS_CARD, HERE, equal_everywhere, on  # noqa: E402
from tests.torch.families import OF_FAMILY, VOCABULARY, batch, masked_lm  # noqa: E402
from tests.torch.flat import collated, flattened  # noqa: E402
from tests.torch.shards import dictionaries  # noqa: E402
from tests.torch.test_steps import no_accelerator  # noqa: E402, F401 - a fixture
from tests.torch.trained import trained_on_sample  # noqa: E402

SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "padded": lambda: collated(dictionaries()),
    "flat": lambda: flattened(collated(dictionaries())),
}
"""Batches of rows of 2 to 54 tokens, masked."""


def wrapped(
    family: str, device: Any, *, labels: Sequence[str] = ("Drug", "Gene"), **options: Any
) -> Any:
    model = masked_lm(family, pad_token_id=IDS.pad, max_position_embeddings=512, **options)
    return MslmModel.wrap(model, labels=labels, dropout=0.0, special_ids=[0, 1, 2]).to(device)


# Models and losses --------------------------------------------------------------------------------


@pytest.mark.parametrize("family", OF_FAMILY)
def test_model__losses_gradients_and_mentions(family: str) -> None:
    def compute(device: Any) -> Any:
        model = wrapped(family, device)
        rows = on(device, collated(dictionaries()))
        output = model(**rows)
        output.loss.backward()
        found = model.predict(rows["input_ids"], rows["attention_mask"])
        gradients = [parameter.grad for parameter in model.parameters()]
        return [output.loss, gradients, found.tags, found.span_starts, found.span_labels]

    equal_everywhere(compute)


def test_wrap__puts_heads_on_the_device_of_the_model() -> None:
    options: dict[str, Any] = {"labels": ["Drug", "Gene"], "dropout": 0.0}
    weights = MslmModel.wrap(masked_lm(), **options).state_dict()

    def compute(device: Any) -> Any:
        model = MslmModel.wrap(masked_lm().to(device), **options)
        model.load_state_dict(weights)  # initial weights differ between devices
        return model(**on(device, batch())).loss

    equal_everywhere(compute)


@pytest.mark.parametrize("two_views", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_model__padded_and_flat_rows(family: str, shape: str, two_views: bool) -> None:
    def compute(device: Any) -> Any:
        model = wrapped(family, device)
        model.config.two_views = two_views
        loss = model(**on(device, SHAPES[shape]())).loss
        loss.backward()
        return [loss, [parameter.grad for parameter in model.parameters()]]

    equal_everywhere(compute)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.usefixtures("kernels")
def test_model__in_bfloat16(family: str, shape: str) -> None:
    rows = SHAPES[shape]()
    expected = wrapped(family, HERE)(**rows).loss
    model = wrapped(family, CARD)

    with torch.autocast(CARD.type, torch.bfloat16):
        output = model(**on(CARD, rows))
    output.loss.backward()

    assert output.loss.dtype == torch.float32
    torch.testing.assert_close(output.loss.cpu(), expected, rtol=0.02, atol=0)
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


def test_losses__of_logits() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(8, 12, VOCABULARY, generator=draw)

    def compute(device: Any) -> Any:
        rows, x = on(device, batch()), logits.to(device)
        total = MaskSpecificLoss(0.2, 0.8)(x, rows["labels"], rows["mask_kinds"])
        measured = [perplexity(lambda **_: x, [labels]) for labels in (rows, batch())]
        return [total, count_tokens([rows, rows]), measured]

    equal_everywhere(compute)


def test_spans__of_hidden_states_and_tags() -> None:
    hidden = torch.randn(8, 12, 4, generator=torch.Generator().manual_seed(0))

    def compute(device: Any) -> Any:
        rows = on(device, batch())
        pooled = pool_spans(hidden.to(device), rows["span_starts"], rows["span_ends"])
        return [pooled, *decode_spans(rows["bio"].clamp_min(0), rows["attention_mask"])]

    equal_everywhere(compute)


# Measures -----------------------------------------------------------------------------------------


def test_measures__of_rows() -> None:
    examples = fixed_examples(12)

    def compute(device: Any) -> Any:
        model = wrapped("bert", device, vocab_size=IDS.size)
        scores = evaluate(model, examples, labels=["Drug", "Gene"])
        confident = mention_confidence(model, examples).geometric_mean.tolist()
        rows = collated(dictionaries())
        batches = [rows, on(device, rows)]
        return [confident, scores["micro_f1"], perplexity(model, batches)["loss"]]

    equal_everywhere(compute)


@pytest.mark.long
def test_model__with_a_tokenizer_finds_mentions_of_texts_and_rows(tmp_path: Path) -> None:
    model, gold = trained_on_sample(tmp_path / "sample")
    texts = [one.text for one in gold]
    loader = MaskedDataset(md.load(tmp_path / "sample")["train"], "unmasked").loader(batch_size=99)
    rows = next(iter(loader))

    def compute(device: Any) -> Any:
        moved = copy.deepcopy(model).to(device)
        of_texts = moved.annotate(texts)
        of_rows = moved.predict(rows["input_ids"].to(device), rows["attention_mask"].to(device))
        places = [[mention.start, mention.end] for one in of_texts for mention in one]
        return [places, of_rows.span_starts]

    equal_everywhere(compute)


# Trainers -----------------------------------------------------------------------------------------


def test_mslm_trainer__trains_and_evaluates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_accelerator: None,  # noqa: F811
) -> None:
    made.built(tmp_path / "built")
    rows: Any = MaskedDataset(md.load(tmp_path / "built")["train"], "joint", static=True)
    model = wrapped(
        "bert",
        HERE,
        vocab_size=rows.split.token_ids.size,
        labels=["Disease"],
        hidden_dropout_prob=0.0,  # random numbers of a seed differ between devices
        attention_probs_dropout_prob=0.0,
    )
    loader = rows.loader(batch_size=8)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)

    def compute(device: Any) -> Any:
        AcceleratorState._reset_state(reset_partial_state=True)
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", str(device))
        trainer = MslmTrainer(
            model=copy.deepcopy(model),
            args=TrainingArguments(
                str(tmp_path / "trained"),
                use_cpu=device == HERE,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                logging_steps=1,
                max_steps=3,
                seed=0,
            ),
            train_dataset=loader,
            eval_dataset=loader,
        )
        trainer.train()
        measured = trainer.evaluate()

        assert next(trainer.model.parameters()).device == device
        logged = [log["mslm_loss"] for log in trainer.state.log_history if "mslm_loss" in log]
        assert len(logged) == 3
        return [logged, [measured[name] for name in ("eval_loss", "eval_mslm_loss")]]

    equal_everywhere(compute)


@pytest.mark.parametrize("shape", [{"batch_size": 8}, {"batch_tokens": 400, "flat": True}])
@pytest.mark.usefixtures("kernels", "no_accelerator")
def test_mslm_trainer__in_bfloat16(shape: dict[str, Any], tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    rows = MaskedDataset(md.load(tmp_path / "built")["train"], "joint", static=True)
    model = wrapped("bert", HERE, vocab_size=rows.split.token_ids.size, labels=["Disease"])
    losses = []
    for half in (False, True):
        trainer = MslmTrainer(
            model=copy.deepcopy(model),
            args=TrainingArguments(
                str(tmp_path / "trained"),
                use_cpu=not HAS_CARD,
                bf16=half,
                report_to=[],
                disable_tqdm=True,
            ),
            eval_dataset=rows.loader(**shape, pin_memory=HAS_CARD),
        )
        losses.append(trainer.evaluate()["eval_loss"])

    assert losses[1] == pytest.approx(losses[0], rel=0.02)
