from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mslm_data.torch import (  # noqa: E402
    MslmModel,
    SoftMasks,
    contrast,
    general_knowledge_loss,
    head_importance,
)
from mslm_data.torch.dga.attention_heads import NAMES, attention_layers, gated_heads  # noqa: E402
from mslm_data.torch.dga.general_knowledge import gate_gradients, mean_vectors  # noqa: E402
from mslm_data.torch.model.families import FAMILIES  # noqa: E402
from tests.torch import families  # noqa: E402

KNOWN = [name for name, (kind, _) in families.OF_FAMILY.items() if kind in FAMILIES]


def rows(seed: int = 0) -> dict[str, Any]:
    batch = families.batch(seed=seed)
    ids = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
    return {"input_ids": ids, "attention_mask": batch["attention_mask"]}


def logits(model: Any, batch: dict[str, Any]) -> Any:
    return model(**batch).logits


def test_families__all_have_attention_heads() -> None:
    assert set(NAMES) == set(FAMILIES)


@pytest.mark.parametrize("family", KNOWN)
def test_gated_heads__with_gates_of_1_keep_logits(family: str) -> None:
    model = families.masked_lm(family)
    layers = attention_layers(model)

    with torch.no_grad():
        plain = logits(model, rows())
        with gated_heads(model, torch.ones(len(layers), 2)):
            gated = logits(model, rows())
        with gated_heads(model, torch.zeros(len(layers), 2)):
            closed = logits(model, rows())

    assert torch.equal(plain, gated)
    assert not torch.equal(plain, closed)
    assert torch.equal(plain, logits(model, rows()).detach())


@pytest.mark.parametrize("family", KNOWN)
def test_attention_layers__a_closed_gate_removes_the_gradients_of_its_head(family: str) -> None:
    # The parameters of a head have gradients exactly if its gate is open.
    model = families.masked_lm(family)
    (layer,) = attention_layers(model)

    with gated_heads(model, torch.tensor([[0.0, 1.0]])):
        logits(model, rows()).square().sum().backward()

    seen = set()
    for parameter, heads in layer.parameters():
        seen.add(id(parameter))
        if parameter.grad is None:  # position embeddings, if the configuration does not use them
            continue
        of_head = heads.expand_as(parameter)
        assert parameter.grad[of_head == 0].abs().max() < 1e-6
        assert sorted(set(of_head.flatten().tolist())) == [0, 1]
    assert layer.output.weight.grad[:, -1].abs().max() > 0
    projections = [name for name, one in model.named_parameters() if id(one) in seen]
    assert len(projections) >= 2


def test_gated_heads__gradient_equals_the_finite_difference() -> None:
    model = families.masked_lm("bert", num_hidden_layers=2).double()
    gates = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)

    def loss(values: Any) -> Any:
        with gated_heads(model, values):
            return logits(model, rows()).square().mean()

    (found,) = torch.autograd.grad(loss(gates), gates)

    for layer in range(2):
        for head in range(2):
            step = torch.zeros(2, 2, dtype=torch.float64)
            step[layer, head] = 1e-5
            with torch.no_grad():
                difference = (loss(1 + step) - loss(1 - step)) / 2e-5
            assert float(found[layer, head]) == pytest.approx(float(difference), rel=1e-5)


def test_gate_gradients__are_smallest_for_a_head_without_values() -> None:
    model = families.masked_lm("bert", num_attention_heads=4, num_hidden_layers=2)
    attention = model.bert.encoder.layer[1].attention.self
    with torch.no_grad():
        attention.value.weight[4:8] = 0
        attention.value.bias[4:8] = 0

    torch.manual_seed(0)
    found = gate_gradients(model, [rows(seed) for seed in range(4)]).abs()

    assert found[1].argmin() == 1
    assert found[1, 1] == 0
    assert (found[0] > 0).all()


def test_head_importance__refuses_packed_rows() -> None:
    model = families.masked_lm("bert")
    packed = {**rows(), "sequence_ids": torch.zeros_like(rows()["input_ids"])}

    with pytest.raises(ValueError, match="got packed batches; make them"):
        head_importance(model, [packed])


def test_head_importance__is_deterministic_and_does_not_change_the_model() -> None:
    model = families.masked_lm("bert", num_attention_heads=4, num_hidden_layers=2)
    before = copy.deepcopy(model.state_dict())
    masked = families.batch()

    torch.manual_seed(1)
    first = head_importance(model, [rows()])
    torch.manual_seed(1)
    second = head_importance(model, [masked])  # the function removes the masks
    torch.manual_seed(1)
    wrapped = head_importance(MslmModel.wrap(model), [rows()])

    assert first.shape == (2, 4)
    assert (first >= 0).all()
    assert (first < 1).all()
    assert torch.equal(first, second)
    assert torch.equal(first, wrapped)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("scale", ["gradients", "updates"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta", "albert"])
def test_soft_masks__with_sgd_a_head_of_importance_1_does_not_move(family: str, scale: Any) -> None:
    model = families.masked_lm(family)
    (layer,) = attention_layers(model)
    before = [parameter.detach().clone() for parameter, _ in layer.parameters()]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    with SoftMasks(model, torch.tensor([[1.0, 0.0]]), scale):
        logits(model, rows()).square().mean().backward()
        optimiser.step()

    moved = 0
    for (parameter, heads), old in zip(layer.parameters(), before, strict=True):
        of_head = heads.expand_as(parameter)
        assert torch.equal(parameter[of_head == 0], old[of_head == 0])
        moved += int(not torch.equal(parameter[of_head == 1], old[of_head == 1]))
    assert moved

    # After the block, the optimizer moves all parameters again.
    optimiser.step()
    parameter, heads = next(iter(layer.parameters()))
    del heads
    assert not torch.equal(parameter, before[0])


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("scale", ["gradients", "updates"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.LBFGS])
def test_soft_masks__work_with_a_closure(optimizer: Any, scale: Any, by_name: bool) -> None:
    model = families.masked_lm("bert")
    (layer,) = attention_layers(model)
    before = [parameter.detach().clone() for parameter, _ in layer.parameters()]
    optimiser = optimizer(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = logits(model, rows()).square().mean()
        loss.backward()
        return loss

    with SoftMasks(model, torch.tensor([[1.0, 0.0]]), scale):
        loss = optimiser.step(closure=closure) if by_name else optimiser.step(closure)

    assert loss > 0
    for (parameter, heads), old in zip(layer.parameters(), before, strict=True):
        of_head = heads.expand_as(parameter)
        assert torch.equal(parameter[of_head == 0], old[of_head == 0])
    assert not torch.equal(parameter, old)


def test_soft_masks__scaled_gradients_hardly_matter_with_adam() -> None:
    def moved(scale: Any, importance: float) -> float:
        model = families.masked_lm("bert")
        old = model.bert.encoder.layer[0].attention.self.value.weight.detach().clone()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        with SoftMasks(model, torch.tensor([[importance, 0.0]]), scale):
            for seed in range(10):
                optimiser.zero_grad()
                logits(model, rows(seed)).square().mean().backward()
                optimiser.step()
        new = model.bert.encoder.layer[0].attention.self.value.weight
        return float((new - old)[:8].detach().abs().mean())

    free = moved("gradients", 0.0)

    assert moved("gradients", 0.9) > 0.9 * free
    assert moved("updates", 0.9) < 0.2 * free


@pytest.mark.long
@pytest.mark.parametrize("scale", ["gradients", "updates"])
def test_soft_masks__work_with_the_optimizer_of_a_trainer(scale: Any, tmp_path: Path) -> None:
    model = families.masked_lm("bert")
    (layer,) = attention_layers(model)
    before = [parameter.detach().clone() for parameter, _ in layer.parameters()]
    args = transformers.TrainingArguments(
        str(tmp_path), max_steps=3, report_to=[], disable_tqdm=True, use_cpu=True, optim="sgd"
    )
    batch = families.batch()
    of_rows = [{name: batch[name][row] for name in batch} for row in range(2)]
    trainer = transformers.Trainer(model, args, train_dataset=of_rows)

    with SoftMasks(model, torch.tensor([[1.0, 0.0]]), scale):
        trainer.train()

    for (parameter, heads), old in zip(layer.parameters(), before, strict=True):
        of_head = heads.expand_as(parameter)
        assert torch.equal(parameter[of_head == 0], old[of_head == 0])
    assert not torch.equal(parameter, old)


@pytest.mark.parametrize("scale", ["gradients", "updates"])
def test_soft_masks__do_not_change_other_optimizers(
    scale: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model, other = families.masked_lm("bert"), families.masked_lm("bert")
    twin = copy.deepcopy(other)

    with SoftMasks(model, torch.ones(1, 2), scale):
        _train(other)

    _train(twin)
    pairs = zip(other.parameters(), twin.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert "took a step, so no head was protected" in caplog.text


def test_soft_masks__scale_each_parameter_once_with_several_optimizers() -> None:
    model = families.masked_lm("bert")
    twin = copy.deepcopy(model)
    importance = torch.tensor([[0.5, 0.0]])
    halves = [[*model.parameters()][::2], [*model.parameters()][1::2]]
    optimisers = [torch.optim.SGD(half, lr=0.1) for half in halves]

    with SoftMasks(model, importance, "updates"):
        logits(model, rows()).square().mean().backward()
        for optimiser in optimisers:
            optimiser.step()

    with SoftMasks(twin, importance, "updates"):
        _train(twin)
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def _train(model: Any) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    logits(model, rows()).square().mean().backward()
    optimiser.step()


def test_contrast__equals_its_twin() -> None:
    draw = torch.Generator().manual_seed(0)
    first, second, general = (torch.randn(3, 5, generator=draw) for _ in range(3))

    def cosine(a: Any, b: Any) -> float:
        return float(a @ b / (a.norm() * b.norm()))

    losses = []
    for i in range(3):
        likes = [cosine(first[i], z) / 0.05 for z in (*second, *general)]
        losses.append(math.log(sum(math.exp(like) for like in likes)) - likes[i])

    assert float(contrast(first, second, general)) == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_general_knowledge_loss__reaches_the_encoder() -> None:
    model = families.masked_lm("bert").train()
    batch = rows()

    loss = general_knowledge_loss(
        model, batch["input_ids"], batch["attention_mask"], torch.tensor([[0.9, 0.1]])
    )
    loss.backward()

    assert loss > 0
    assert model.bert.encoder.layer[0].attention.self.value.weight.grad.abs().max() > 0


def test_mean_vectors__exclude_padding() -> None:
    hidden = torch.tensor([[[1.0], [3.0], [50.0]], [[2.0], [4.0], [6.0]]])
    present = torch.tensor([[1, 1, 0], [1, 1, 1]])

    assert mean_vectors(hidden, present).tolist() == [[2.0], [4.0]]


def test_mean_vectors__of_long_rows_in_half_precision_are_finite() -> None:
    hidden = torch.full((1, 8192, 1), 10.0, dtype=torch.float16)
    present = torch.ones((1, 8192), dtype=torch.int64)

    assert mean_vectors(hidden, present).tolist() == [[10.0]]


def test_general_knowledge__errors_name_argument_and_value() -> None:
    bert = families.masked_lm("bert")

    with pytest.raises(ValueError, match=r"attention heads: expected a model of type .*'mpnet'"):
        head_importance(families.masked_lm("mpnet"), [rows()])
    with pytest.raises(ValueError, match="the batches have no tokens"):
        head_importance(bert, [])
    still = families.masked_lm("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    with pytest.raises(ValueError, match="the model has no dropout"):
        head_importance(still, [rows()])
    with (
        pytest.raises(ValueError, match=r"gates: expected the shape \(1, 2\) .* got \(2, 2\)"),
        gated_heads(bert, torch.ones(2, 2)),
    ):
        pass
    with pytest.raises(ValueError, match=r"importance: expected the shape \(1, 2\)"):
        SoftMasks(bert, torch.ones(3, 2))
    with pytest.raises(
        ValueError, match=r"importance: expected numbers in \[0, 1\], got -?[0-9.]+"
    ):
        SoftMasks(bert, torch.full((1, 2), 1.5))
    with pytest.raises(ValueError, match="expected scale gradients or updates, got 'steps'"):
        SoftMasks(bert, torch.ones(1, 2), "steps")  # type: ignore[arg-type]
