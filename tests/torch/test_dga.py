"""The program for DGA (`examples/dga.py`): importance of heads, protection of heads, contrastive loss."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from examples.dga import (  # noqa: E402
    FAMILIES,
    SoftMasks,
    attention_layers,
    contrast,
    gate_gradients,
    gated_heads,
    general_knowledge_loss,
    head_importance,
    head_parameters,
    mean_vectors,
)
from tests import made  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import families, processes  # noqa: E402
from tests.torch.tiny_models import save_tiny_bert  # noqa: E402

SCALES = ["gradients", "updates"]


def encoder_of(family: str = "bert", **options: Any) -> Any:
    return families.masked_lm(family, **options).base_model


def rows(seed: int = 0) -> dict[str, Any]:
    batch = families.batch(seed=seed)
    ids = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
    return {"input_ids": ids, "attention_mask": batch["attention_mask"]}


def hidden(encoder: Any, seed: int = 0) -> Any:
    return encoder(**rows(seed))[0]


def parameters(encoder: Any) -> list[tuple[Any, Any]]:
    (layer,) = attention_layers(encoder)
    return list(head_parameters(layer, 2))


@pytest.mark.parametrize("family", FAMILIES)
def test_gated_heads__with_gates_of_1_keep_hidden_states(family: str) -> None:
    encoder = encoder_of(family)

    with torch.no_grad():
        plain = hidden(encoder)
        with gated_heads(encoder, torch.ones(1, 2)):
            gated = hidden(encoder)
        with gated_heads(encoder, torch.zeros(1, 2)):
            closed = hidden(encoder)

    assert torch.equal(plain, gated)
    assert not torch.equal(plain, closed)
    assert torch.equal(plain, hidden(encoder).detach())


@pytest.mark.parametrize("family", FAMILIES)
def test_head_parameters__have_gradients_exactly_if_the_gate_is_open(family: str) -> None:
    encoder = encoder_of(family)

    with gated_heads(encoder, torch.tensor([[0.0, 1.0]])):
        hidden(encoder).pow(3).sum().backward()

    found = parameters(encoder)
    assert len(found) == 7
    for parameter, heads in found:
        of_head = heads.expand_as(parameter)
        assert parameter.grad[of_head == 0].abs().max() == 0
        assert sorted(set(of_head.flatten().tolist())) == [0, 1]
    assert parameter.grad[:, -1].abs().max() > 0


def test_gated_heads__gradient_equals_the_finite_difference() -> None:
    encoder = encoder_of(num_hidden_layers=2).double()
    gates = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)

    def loss(values: Any) -> Any:
        with gated_heads(encoder, values):
            return hidden(encoder).pow(3).mean()

    (found,) = torch.autograd.grad(loss(gates), gates)

    for layer in range(2):
        for head in range(2):
            step = torch.zeros(2, 2, dtype=torch.float64)
            step[layer, head] = 1e-5
            with torch.no_grad():
                difference = (loss(1 + step) - loss(1 - step)) / 2e-5
            assert float(found[layer, head]) == pytest.approx(float(difference), rel=1e-4)


def test_gate_gradients__are_smallest_for_a_head_without_values() -> None:
    encoder = encoder_of(num_attention_heads=4, num_hidden_layers=2)
    attention = attention_layers(encoder)[1].self
    with torch.no_grad():
        attention.value.weight[4:8] = 0
        attention.value.bias[4:8] = 0

    torch.manual_seed(0)
    found = gate_gradients(encoder, [rows(seed) for seed in range(4)]).abs()

    assert found[1].argmin() == 1
    assert found[1, 1] == 0
    assert (found[0] > 0).all()


def test_head_importance__is_deterministic_and_does_not_change_the_encoder() -> None:
    encoder = encoder_of(num_attention_heads=4, num_hidden_layers=2)
    before = copy.deepcopy(encoder.state_dict())
    arrays = {name: x.numpy() for name, x in families.batch().items()}

    torch.manual_seed(1)
    first = head_importance(encoder, [rows()])
    torch.manual_seed(1)
    second = head_importance(encoder, [arrays])  # the function removes the masks

    assert first.shape == (2, 4)
    assert (first >= 0).all()
    assert (first < 1).all()
    assert torch.equal(first, second)
    assert not encoder.training
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


@pytest.mark.parametrize("scale", SCALES)
def test_soft_masks__with_sgd_a_head_of_importance_1_does_not_move(scale: Any) -> None:
    encoder = encoder_of()
    before = [parameter.detach().clone() for parameter, _ in parameters(encoder)]
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)

    with SoftMasks(encoder, torch.tensor([[1.0, 0.0]]), scale):
        hidden(encoder).pow(3).mean().backward()
        optimizer.step()

    for (parameter, heads), old in zip(parameters(encoder), before, strict=True):
        of_head = heads.expand_as(parameter)
        assert torch.equal(parameter[of_head == 0], old[of_head == 0])
    assert not torch.equal(parameter, old)

    # After the block, the optimizer moves all parameters again.
    optimizer.step()
    assert not torch.equal(parameters(encoder)[0][0], before[0])


def test_soft_masks__scaled_gradients_hardly_matter_with_adam() -> None:
    def moved(scale: Any, importance: float) -> float:
        encoder = encoder_of()
        weight = attention_layers(encoder)[0].self.value.weight
        old = weight.detach().clone()
        optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=0.0)
        with SoftMasks(encoder, torch.tensor([[importance, 0.0]]), scale):
            for seed in range(10):
                optimizer.zero_grad()
                hidden(encoder, seed).pow(3).mean().backward()
                optimizer.step()
        return float((weight - old)[:8].detach().abs().mean())

    free = moved("gradients", 0.0)

    assert moved("gradients", 0.9) > 0.9 * free
    assert moved("updates", 0.9) < 0.2 * free


@pytest.mark.long
@pytest.mark.parametrize("scale", SCALES)
def test_soft_masks__work_with_the_optimizer_of_a_trainer(scale: Any, tmp_path: Path) -> None:
    model = families.masked_lm("bert")
    before = [parameter.detach().clone() for parameter, _ in parameters(model.base_model)]
    args = transformers.TrainingArguments(
        str(tmp_path), max_steps=3, report_to=[], disable_tqdm=True, use_cpu=True, optim="sgd"
    )
    batch = families.batch()
    of_rows = [{name: batch[name][row] for name in batch} for row in range(2)]
    trainer = transformers.Trainer(model, args, train_dataset=of_rows)

    with SoftMasks(model.base_model, torch.tensor([[1.0, 0.0]]), scale):
        trainer.train()

    for (parameter, heads), old in zip(parameters(model.base_model), before, strict=True):
        of_head = heads.expand_as(parameter)
        assert torch.equal(parameter[of_head == 0], old[of_head == 0])
    assert not torch.equal(parameter, old)


def test_soft_masks__refuse_a_block_without_a_step_of_the_encoder() -> None:
    encoder, other = encoder_of(), encoder_of()
    twin = copy.deepcopy(other)

    with (
        pytest.raises(ValueError, match="took a step, so no head was protected"),
        SoftMasks(encoder, torch.ones(1, 2), "updates"),
    ):
        train(other)

    train(twin)
    pairs = zip(other.parameters(), twin.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def test_soft_masks__scale_each_parameter_once_with_several_optimizers() -> None:
    encoder = encoder_of()
    twin = copy.deepcopy(encoder)
    importance = torch.tensor([[0.5, 0.0]])
    halves = [[*encoder.parameters()][::2], [*encoder.parameters()][1::2]]
    optimizers = [torch.optim.SGD(half, lr=0.1) for half in halves]

    with SoftMasks(encoder, importance, "updates"):
        hidden(encoder).pow(3).mean().backward()
        for optimizer in optimizers:
            optimizer.step()

    with SoftMasks(twin, importance, "updates"):
        train(twin)
    pairs = zip(encoder.parameters(), twin.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def train(encoder: Any) -> None:
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    hidden(encoder).pow(3).mean().backward()
    optimizer.step()


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
    encoder = encoder_of().train()

    loss = general_knowledge_loss(encoder, **rows(), importance=torch.tensor([[0.9, 0.1]]))
    loss.backward()

    assert loss > 0
    assert attention_layers(encoder)[0].self.value.weight.grad.abs().max() > 0


def test_mean_vectors__exclude_padding_and_do_not_overflow() -> None:
    states = torch.tensor([[[1.0], [3.0], [50.0]], [[2.0], [4.0], [6.0]]])
    present = torch.tensor([[1, 1, 0], [1, 1, 1]])
    half = torch.full((1, 8192, 1), 10.0, dtype=torch.float16)

    assert mean_vectors(states, present).tolist() == [[2.0], [4.0]]
    assert mean_vectors(half, torch.ones((1, 8192), dtype=torch.int64)).tolist() == [[10.0]]


STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize(
    ("family", "options", "batches", "message"),
    [
        ("mpnet", {}, [rows()], "expected an encoder of type .*, got 'mpnet'"),
        ("bert", {}, [], "the batches have no tokens"),
        ("bert", STILL, [rows()], "the model has no dropout"),
    ],
)
def test_head_importance__errors_name_the_cause(
    family: str, options: dict[str, Any], batches: list[Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        head_importance(encoder_of(family, **options), batches)


def test_program__adapts_and_saves_an_encoder(tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    checkpoint = save_tiny_bert(md.load(tmp_path / "built"), tmp_path / "tiny")
    words = (str(tmp_path / "built"), str(checkpoint), str(tmp_path / "out"))

    process = processes.example("dga.py", tmp_path / "said", *words)
    process.join(PATIENCE_S)

    assert process.exitcode == 0, (tmp_path / "said.err").read_text()
    assert "step 2: loss " in (tmp_path / "said").read_text()
    assert transformers.AutoModel.from_pretrained(tmp_path / "out").config.hidden_size == 32
