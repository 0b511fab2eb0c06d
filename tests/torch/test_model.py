from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch.nn.functional as F  # noqa: E402, N812
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from transformers import (  # noqa: E402
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
)

from mslm_data.errors import AnnotateError  # noqa: E402
from mslm_data.torch import MslmModel  # noqa: E402
from mslm_data.torch.model.config import MslmConfig  # noqa: E402
from mslm_data.torch.model.families import FAMILIES, find_decoder  # noqa: E402
from mslm_data.torch.model.ranges import decode_spans  # noqa: E402
from tests.reference import loss as twin  # noqa: E402
from tests.torch.families import OF_FAMILY, SIZES, batch, masked_lm  # noqa: E402

OPTIONS: dict[str, Any] = {"labels": ["Drug", "Gene"], "w_elm": 0.6, "w_blm": 0.4}
KNOWN = [*OF_FAMILY]


def wrapped(family: str = "bert", **options: Any) -> Any:
    return MslmModel.wrap(masked_lm(family), **(OPTIONS | options)).eval()


def of(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in ("input_ids", "attention_mask", *names)}


def test_families__all_have_a_test_model() -> None:
    assert {OF_FAMILY[family][0] for family in KNOWN} == set(FAMILIES)


@pytest.mark.parametrize("family", KNOWN)
def test_find_decoder__computes_the_logits_of_the_model(family: str) -> None:
    model, given = masked_lm(family), of(batch(2))

    with torch.no_grad():
        logits = find_decoder(model)(model.base_model(**given)[0].flatten(0, 1))
        own = model(**given).logits

    torch.testing.assert_close(logits, own.flatten(0, 1))


@pytest.mark.parametrize("family", KNOWN)
def test_wrap__does_not_change_the_weights(family: str) -> None:
    model = masked_lm(family)
    before = {name: x.clone() for name, x in model.state_dict().items()}

    around = MslmModel.wrap(model, **OPTIONS)

    assert around.masked_lm is model
    assert not any(module.training for module in around.modules())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


@pytest.mark.parametrize("family", KNOWN)
def test_save_pretrained__restores_the_model_and_the_plain_encoder(
    family: str, tmp_path: Path
) -> None:
    model, given = wrapped(family, special_ids=[0, 3]), batch(2)

    model.save_pretrained(tmp_path / "all")
    model.encoder().save_pretrained(tmp_path / "encoder")
    again = MslmModel.from_pretrained(tmp_path / "all")
    encoder = AutoModel.from_pretrained(tmp_path / "encoder")

    assert (tmp_path / "all" / "model.safetensors").is_file()
    assert (again.config.labels, again.config.tags) == (
        ["Drug", "Gene"],
        ["O", "B-Drug", "I-Drug", "B-Gene", "I-Gene"],
    )
    assert (again.config.w_elm, again.config.w_blm, again.config.special_ids) == (0.6, 0.4, [0, 3])
    states = model.state_dict()
    assert states.keys() == again.state_dict().keys()
    assert all(torch.equal(x, states[name]) for name, x in again.state_dict().items())
    with torch.no_grad():
        assert torch.equal(model(**given).loss, again(**given).loss)
        assert torch.equal(model.encoder()(**of(given))[0], encoder(**of(given))[0])
    assert type(encoder) is type(model.encoder())


def test_from_pretrained__keeps_the_embeddings_tied_and_reads_through_auto_model(
    tmp_path: Path,
) -> None:
    wrapped().save_pretrained(tmp_path)

    model = AutoModel.from_pretrained(tmp_path)

    assert isinstance(model, MslmModel)
    assert model.masked_lm.cls.predictions.decoder.weight is model.get_input_embeddings().weight


def test_from_pretrained__accepts_dtype_and_attention(tmp_path: Path) -> None:
    wrapped().save_pretrained(tmp_path)

    model = MslmModel.from_pretrained(tmp_path, dtype=torch.bfloat16, attn_implementation="eager")
    out = model(**batch(2))

    assert model.masked_lm.config._attn_implementation == "eager"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert out.loss.dtype == torch.float32


def test_wrap__keeps_a_replaced_layer() -> None:
    model = masked_lm()
    layer = model.cls.predictions.transform.dense = torch.nn.Linear(16, 16)
    before = layer.weight.detach().clone()

    MslmModel.wrap(model, **OPTIONS)

    assert torch.equal(layer.weight, before)


def test_resize_token_embeddings__is_saved_with_the_model(tmp_path: Path) -> None:
    model = wrapped()

    model.resize_token_embeddings(110)
    model.save_pretrained(tmp_path)

    again = MslmModel.from_pretrained(tmp_path)
    assert (
        again.config.masked_lm.vocab_size
        == again.masked_lm.get_output_embeddings().out_features
        == 110
    )
    assert torch.equal(again.get_input_embeddings().weight, model.get_input_embeddings().weight)


def test_wrap__reads_a_folder_and_its_adapted_masked_lm_saves_as_before(tmp_path: Path) -> None:
    masked_lm().save_pretrained(tmp_path / "plain")

    model = MslmModel.wrap(tmp_path / "plain", **OPTIONS)
    model.masked_lm.save_pretrained(tmp_path / "adapted")

    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "adapted")
    states = masked_lm().state_dict()
    assert all(torch.equal(x, states[name]) for name, x in again.state_dict().items())


@pytest.mark.parametrize("weights", [{}, {"w_mslm": 3.0, "w_classification": 7.0}])
def test_forward__is_equation_12(weights: dict[str, float]) -> None:
    model, given = wrapped(two_views=False, **weights).double(), batch()

    with torch.no_grad():
        out = model(**given)
        logits = model.masked_lm(**of(given)).logits
        hidden = model.encoder()(**of(given))[0]

    tags = model.detection(hidden).detach().numpy()
    types = model.classification(hidden, given["span_starts"], given["span_ends"]).detach().numpy()
    arrays = {name: x.numpy() for name, x in given.items()}
    mslm, _ = twin.mask_specific(logits.numpy(), arrays["labels"], arrays["mask_kinds"], 0.6, 0.4)
    detection, tokens = twin.cross_entropy(tags, arrays["bio"])
    classification, _ = twin.cross_entropy(types, arrays["span_labels"])

    mslm *= weights.get("w_mslm", 1)
    classification *= weights.get("w_classification", 1)
    expected = [part / tokens for part in (mslm, detection, classification)]
    found = [out.mslm_loss, out.detection_loss, out.classification_loss]
    assert [part.item() for part in found] == pytest.approx(expected, rel=1e-9)
    assert out.loss.item() == pytest.approx(sum(expected), rel=1e-9)


@pytest.mark.parametrize("family", KNOWN)
def test_forward__in_two_views_equals_masked_and_unmasked_passes(family: str) -> None:
    model, given = wrapped(family, two_views=True), batch()
    one_view, plain = wrapped(family, two_views=False), dict(given)
    at = given["labels"] >= 0
    plain["input_ids"] = plain["input_ids"].masked_scatter(at, given["labels"][at])
    masks, tags = ("labels", "mask_kinds"), ("bio", "span_starts", "span_ends", "span_labels")
    tokens = (given["bio"] != -100).sum()
    masked_row = {**of(given, *masks), "num_items_in_batch": tokens}
    unmasked_row = of(plain, *tags)
    one_view.load_state_dict(model.state_dict())

    out = model(**given)
    out.loss.backward()
    parts = [one_view(**row) for row in (masked_row, unmasked_row)]
    sum(part.loss for part in parts).backward()

    assert at.any()
    torch.testing.assert_close(out.mslm_loss, parts[0].mslm_loss)
    torch.testing.assert_close(out.detection_loss, parts[1].detection_loss)
    torch.testing.assert_close(out.classification_loss, parts[1].classification_loss)
    torch.testing.assert_close(out.logits, parts[1].logits)
    torch.testing.assert_close(out.span_logits, parts[1].span_logits)
    for ours, theirs in zip(model.parameters(), one_view.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-7)


def test_forward__in_two_views_reads_rows_twice_only_for_tags() -> None:
    model, given = wrapped(two_views=True), batch(2)
    calls: list[Any] = []
    model.encoder().register_forward_hook(lambda *call: calls.append(call))

    read = []
    for names in (("labels", "mask_kinds"), ("bio",), ("labels", "mask_kinds", "bio")):
        calls.clear()
        model(**of(given, *names), num_items_in_batch=1)
        read.append(len(calls))

    assert read == [1, 1, 2]


class Answers(TorchDispatchMode):
    """Counts the values that Python asks of tensors, for which a GPU would have to finish its work."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("two_views", [True, False])
def test_forward__asks_no_value_of_the_device(two_views: bool, masked: bool) -> None:
    """Ranks that decide by their own values would also wait for each other with FSDP."""
    model, given = wrapped(two_views=two_views).train(), batch(4)
    if not masked:
        given["labels"].fill_(-100)
    with Answers() as by_encoder:
        for _ in range(1 + two_views):
            model.encoder()(**of(given))
    model(**given).loss.backward()
    model.zero_grad(set_to_none=False)  # gradients that could be looked at

    with Answers() as asked:
        model(**given).loss.backward()

    assert asked.count == by_encoder.count


@pytest.mark.parametrize("labels", [["Drug", "Gene"], []])
def test_wrap__defaults_to_two_views_with_labels(labels: list[str]) -> None:
    assert wrapped(labels=labels).config.two_views == bool(labels)
    assert not wrapped(labels=labels, two_views=False).config.two_views


@pytest.mark.parametrize("two_views", [True, False])
def test_save_pretrained__keeps_the_views(two_views: bool, tmp_path: Path) -> None:
    wrapped(two_views=two_views).save_pretrained(tmp_path)

    assert MslmModel.from_pretrained(tmp_path).config.two_views == two_views


def test_forward__computes_losses_with_labels() -> None:
    model, given = wrapped(), batch(2)

    only_masks, only_tags, nothing = (
        model(**of(given, *names), num_items_in_batch=8)
        for names in (("labels", "mask_kinds"), ("bio",), ())
    )

    assert only_masks.loss == only_masks.mslm_loss
    assert only_masks.detection_loss is None
    assert only_tags.loss == only_tags.detection_loss
    assert nothing.loss is None
    assert nothing.logits.shape == (2, 12, 5)


def test_forward__reaches_every_parameter_in_a_batch_without_masks_and_mentions() -> None:
    model, given = wrapped(), batch(2)
    given["labels"].fill_(-100)
    given["mask_kinds"].zero_()
    for name in ("span_starts", "span_ends", "span_labels"):
        given[name] = given[name][:, :0]

    model(**given).loss.backward()

    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_forward__refuses_labels_without_mask_kinds() -> None:
    with pytest.raises(ValueError, match="MslmModel: labels need mask_kinds"):
        wrapped()(**of(batch(2), "labels"))


def test_wrap__refuses_a_family_whose_head_is_unknown() -> None:
    with pytest.raises(ValueError, match=r"bert, .*whose head is a single layer, got 'mpnet'"):
        wrapped("mpnet")


def test_wrap__accepts_any_family_whose_head_is_a_single_layer() -> None:
    model, given = wrapped("eurobert", w_elm=1.0, w_blm=1.0, two_views=False), batch(2)

    out = model(**given)

    logits = model.masked_lm(**of(given)).logits
    total = F.cross_entropy(logits.flatten(0, 1), given["labels"].flatten(), reduction="sum")
    torch.testing.assert_close(out.mslm_loss, total / (given["bio"] != -100).sum())


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForTokenClassification])
@pytest.mark.parametrize(
    "family",
    ["albert", "bert", "deberta-v2", "distilbert", "electra", "modernbert", "roberta", "eurobert"],
)
def test_wrap__refuses_a_model_without_a_language_modelling_head(family: str, kind: Any) -> None:
    other = kind.from_config(masked_lm(family).config)

    with pytest.raises(TypeError, match=r"AutoModelForMaskedLM, got \w+, which has no language"):
        MslmModel.wrap(other)


def test_forward__with_gradient_checkpointing_gives_the_same_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        model = wrapped()
        if checkpointing:
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model(**batch(2)).loss.backward()
        gradients.append(model.get_input_embeddings().weight.grad)

    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_wrap__heads_have_the_dtype_of_the_model(dtype: Any) -> None:
    plain = masked_lm("bert").to(dtype)

    model = MslmModel.wrap(plain, **OPTIONS)

    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert torch.isfinite(model(**batch(2)).loss)


def test_model__without_labels_has_no_heads() -> None:
    model = wrapped(labels=[])

    out = model(**batch(2))

    assert model.detection is None
    assert out.loss == out.mslm_loss
    with pytest.raises(ValueError, match=r"MslmModel.predict: the model has no labels"):
        model.predict(**of(batch(2)))


def test_config__requires_a_masked_lm() -> None:
    with pytest.raises(
        ValueError, match=r"MslmConfig: the configuration of a masked .*MslmModel.wrap"
    ):
        MslmConfig(labels=["Gene"])


def test_from_pretrained__names_wrap_for_a_plain_masked_lm(tmp_path: Path) -> None:
    masked_lm().save_pretrained(tmp_path)

    with pytest.raises(
        ValueError, match=r"use MslmModel.wrap to make an MslmModel from a plain model"
    ):
        MslmModel.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"w_elm": -1.0}, "expected w_elm to be 0 or more, got -1.0"),
        ({"two_views": True, "labels": []}, "two_views=True needs labels"),
        ({"w_mslm": float("nan")}, "expected w_mslm to be 0 or more, got nan"),
    ],
)
def test_config__refuses_options_refused_by_the_loss(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"MslmConfig: {message}"):
        wrapped(**options)


@contextmanager
def saying(model: Any, tags: Any) -> Iterator[None]:
    """Make the detection head of a model predict given tags."""
    logits = F.one_hot(tags, 5).float()
    handle = model.detection.register_forward_hook(lambda *_: logits)
    try:
        yield
    finally:
        handle.remove()


@pytest.fixture
def tagged() -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Return a model whose detection head predicts a batch's tags, also on special tokens; the batch and the tags."""
    model, given = wrapped(), batch(4)
    tags = given["bio"].clamp(min=0)
    tags[0, 2:5] = torch.tensor([1, 2, 2])
    tags[:, 0] = 3  # on [CLS]
    with saying(model, tags):
        yield model, given, tags


def test_predict__finds_mentions_without_gold_spans(
    tagged: tuple[Any, dict[str, Any], Any],
) -> None:
    model, given, tags = tagged
    special = given["bio"] == -100
    expected = tags.masked_fill(special, -100)

    found = model.predict(**of(given), special_tokens_mask=special)

    starts, ends, _ = decode_spans(expected)
    with torch.no_grad():
        types = model.classification(model.encoder()(**of(given))[0], starts, ends).argmax(-1)
    assert torch.equal(found.tags, expected)
    assert torch.equal(found.span_starts, starts)
    assert torch.equal(found.span_ends, ends)
    assert torch.equal(found.span_labels, torch.where(starts >= 0, types, -1))
    assert [[mention[:2] for mention in row] for row in found.mentions()] == [
        [(2, 5)],
        [(1, 3), (4, 6)],
        [(1, 3), (4, 6)],
        [(1, 3), (4, 6)],
    ]
    assert {mention.label for row in found.mentions() for mention in row} <= {"Drug", "Gene"}


def test_predict__excludes_special_ids_and_padding(
    tagged: tuple[Any, dict[str, Any], Any],
) -> None:
    model, given, _ = tagged
    given["input_ids"][:, 0] = 2
    model.config.special_ids = [2]

    found = model.predict(**of(given))

    assert (found.tags[:, 0] == -100).all()
    assert ((found.tags == -100)[:, 1:] == (given["attention_mask"] == 0)[:, 1:]).all()


def test_predict__begins_and_ends_at_words(
    tagged: tuple[Any, dict[str, Any], Any],
) -> None:
    """Row 0 has mentions that begin and end inside a word, tokens 4 to 6."""
    model, given, tags = tagged
    tags[0] = 0
    tags[0, 1:6] = torch.tensor([1, 2, 0, 1, 3])
    width = tags.shape[1]
    words = torch.arange(width).repeat(len(tags), 1)
    words[0] = torch.tensor([-1, 0, 0, 1, 2, 2, 2, *range(3, width - 4)])
    with saying(model, tags):
        found = model.predict(**of(given), word_ids=words)

    assert [mention[:2] for mention in found.mentions()[0]] == [(1, 3), (4, 7)]


def test_predict__disables_dropout_and_restores_training_mode() -> None:
    model = wrapped().train()
    model.masked_lm.eval()

    one, other = (model.predict(**of(batch())) for _ in range(2))

    assert torch.equal(one.tags, other.tags)
    assert model.training
    assert not model.masked_lm.training
    assert not one.tags.requires_grad


def test_predict__refuses_nan_tags() -> None:
    model = wrapped()
    with torch.no_grad():
        model.detection.f[-1].bias[0] = float("nan")

    with pytest.raises(AnnotateError, match="its scores are NaN"):
        model.predict(**of(batch(4)))


def test_predict__refuses_nan_types(
    tagged: tuple[Any, dict[str, Any], Any],
) -> None:
    model, given, _ = tagged
    with torch.no_grad():
        model.classification.f[-1].bias[0] = float("nan")

    with pytest.raises(AnnotateError, match="its scores are NaN"):
        model.predict(**of(given))


def test_special_ids__are_read_from_the_configuration() -> None:
    assert wrapped("roberta").config.special_ids == [0, 1, 2]
    assert SIZES["vocab_size"] == wrapped().config.masked_lm.vocab_size


@pytest.mark.parametrize("missing", [None, -1, [7, 8]])
def test_special_ids__exclude_missing_ids(missing: Any) -> None:
    model = masked_lm("roberta")
    model.config.eos_token_id = missing

    assert MslmModel.wrap(model, **OPTIONS).config.special_ids == [0, 1]


def test_forward__ignores_document_labels() -> None:
    model = wrapped().eval()
    rows = {"input_ids": torch.tensor([[2, 5, 3]]), "doc_labels": torch.tensor([1])}

    assert model(**rows).mslm_loss is None
