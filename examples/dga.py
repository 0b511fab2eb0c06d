r"""Adapt an encoder to a corpus, and keep its general knowledge: DGA (Ke et al. 2022).

    mslm-data build blurb/ncbi-disease --sample --out shards/ncbi
    python examples/dga.py shards/ncbi bert-base-cased out/dga

Masks are those of the strategy `dga`: single tokens, as BERT masks them. The rest has three steps:

1. `head_importance` finds attention heads that are important for general knowledge.
2. `SoftMasks` reduces the optimizer's updates of these heads.
3. `general_knowledge_loss` is added to the language modeling loss. It is a contrastive loss: a
   row's vectors under two dropout masks are similar, and differ from vectors computed with only
   the important heads.

This is DGA as described in the paper. The released code (UIC-Liu-Lab/DGA at c074732761) differs: it
pairs each row with its neighbour instead of itself; it scales columns of the query, key and value
projections, although heads are rows; its softmax is over positions, and its means include padding;
and it ends an epoch after the first step.

The encoder is a BERT, RoBERTa, XLM-RoBERTa, CamemBERT or ELECTRA. In other families, heads are in
layers with other names: change `attention_layers` and `head_parameters`.

Shapes: K layers, N heads, B rows, L tokens, H hidden size.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, loss_weights

FAMILIES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Encoders (`config.model_type`) whose attention layers have BERT's names."""
IMPORTANCE_BATCHES = 40
"""Number of batches to measure the importance of heads on."""
TEMPERATURE = 0.05
"""Divisor of cosine similarities, as in SimCSE."""


def main(folder: str, checkpoint: str, out: str, epochs: str = "1") -> None:
    """Measure the importance of heads, train, and save the encoder.

    Args:
        folder: Shard folder with the split train.
        checkpoint: Hub name or folder of the encoder.
        out: Folder to save the encoder to, with its tokenizer.
        epochs: Number of epochs. Default: 1.
    """
    shards = md.load(folder)
    data = MaskedDataset(shards["train"], "dga", seed=0)
    loader = data.loader(batch_size=32)

    # The loss is the mean over masked tokens, which DGA adds to that over rows.
    weights = loss_weights(data.loader(batch_size=32)) | {"w_elm": 1.0, "w_blm": 1.0}

    torch.manual_seed(0)
    model = MslmModel.wrap(checkpoint, tokenizer=shards.tokenizer, **weights)
    model.train()  # from_pretrained returns a model in evaluation mode, without dropout
    encoder = model.encoder()
    importance = head_importance(encoder, islice(data.loader(batch_size=32), IMPORTANCE_BATCHES))

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    step = 0
    with SoftMasks(encoder, importance, scale="updates"):
        for epoch in range(int(epochs)):
            loader.set_epoch(epoch)
            for batch in loader:
                loss = model(**batch).loss
                loss = loss + general_knowledge_loss(
                    encoder, unmasked(batch), batch["attention_mask"], importance
                )
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                print(f"step {step}: loss {loss.item():.3f}")
    model.save_encoder(out)


def head_importance(encoder: nn.Module, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Measure the importance of each attention head for the hidden states of the rows.

    Within each layer, the gradients from `gate_gradients` are standardised to mean 0 and standard
    deviation 1. The importance is the absolute value of their tanh, as published: heads far below
    the mean of their layer are important too.

    Args:
        encoder: The encoder.
        batches: See `gate_gradients`.

    Returns:
        `[K, N]`, in `[0, 1)`.
    """
    gradients = gate_gradients(encoder, batches)

    # Heads with equal gradients all have importance 0.
    deviations = gradients.std(dim=1, correction=0, keepdim=True)
    deviations = torch.where(deviations > 0, deviations, 1.0)
    scores = (gradients - gradients.mean(dim=1, keepdim=True)) / deviations
    return scores.tanh().abs()


def gate_gradients(encoder: nn.Module, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Return the mean gradient of a gate on each head, `[K, N]`.

    Each batch is encoded twice under different dropout masks. The loss is the Kullback-Leibler
    divergence of the two last hidden states, as softmax over the features of each token. Gradients
    are summed with their signs, and divided by the number of tokens. Gradients, mode and weights
    of the encoder do not change.

    Args:
        encoder: The encoder.
        batches: Batches of padded rows, arrays or tensors, with `input_ids` and `attention_mask`,
            `[B, L]`. With `labels`, the original ids are restored.

    Raises:
        ValueError: There are no batches, or the encoder has no dropout, which makes all gradients
            0.
    """
    if not any(isinstance(module, nn.Dropout) and module.p > 0 for module in encoder.modules()):
        raise ValueError(
            "head_importance: the model has no dropout; set it in its configuration, such as "
            "hidden_dropout_prob for BERT"
        )
    layers = attention_layers(encoder)
    device = layers[0].output.dense.weight.device
    gates = torch.ones(len(layers), count_heads(encoder), device=device, requires_grad=True)
    total = torch.zeros_like(gates)
    tokens = 0

    was_training = encoder.training
    encoder.train()
    with gated_heads(encoder, gates), torch.enable_grad():
        for batch in batches:
            rows = unmasked(batch).to(device)
            mask = torch.as_tensor(batch["attention_mask"]).to(device)
            first, second = (
                F.log_softmax(encode(encoder, rows, mask)[mask.bool()].float(), -1)
                for _ in range(2)
            )
            divergence = F.kl_div(first, second, reduction="sum", log_target=True)
            # Only the gates' gradients: those of the parameters are not touched.
            total += torch.autograd.grad(divergence, gates)[0]
            tokens += int(mask.sum())
    encoder.train(was_training)

    if not tokens:
        raise ValueError("head_importance: the batches have no tokens; pass at least one row")
    return total / tokens


class SoftMasks:
    """Scale the updates of attention heads by 1 - importance, within a `with` block.

    Applies to each head's rows of the query, key and value projections and its columns of the
    output projection. The scaling hooks into the `step` of all optimizers with these parameters,
    including those created by a trainer::

        with SoftMasks(model.encoder(), importance, scale="updates"):
            trainer.train()
    """

    def __init__(
        self, encoder: nn.Module, importance: Tensor, scale: Literal["gradients", "updates"]
    ) -> None:
        """Prepare the factors; scaling starts with the `with` block.

        Args:
            encoder: The encoder that is trained, alone or within a model.
            importance: `[K, N]`, in `[0, 1]`.
            scale: "gradients", as published, works with plain SGD. Adam divides by the size of past
                gradients, so a constant factor has almost no effect. "updates" scales the change of
                the weights in each step, including weight decay, and works with any optimizer.
        """
        self.scale = scale
        self.factors = [
            (parameter, (1 - layer_importance)[heads.to(importance.device)])
            for layer, layer_importance in zip(
                attention_layers(encoder), importance.detach(), strict=True
            )
            for parameter, heads in head_parameters(layer, count_heads(encoder))
        ]
        self.before: list[tuple[Tensor, Tensor, Tensor]] = []
        """For the current step: parameters, their factors, and their values before the step."""
        self.hooks: list[Any] = []
        self.steps = 0

    def __enter__(self) -> Self:
        """Start scaling the steps of all optimizers."""
        self.hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop scaling.

        Raises:
            ValueError: No step was scaled, so no head was protected.
        """
        for hook in self.hooks:
            hook.remove()
        if not self.steps and error is None:
            raise ValueError(
                "SoftMasks: no optimizer with the encoder's own parameters took a step, so no head "
                "was protected; train within the context, and pass the encoder that is trained"
            )

    def _before_step(self, optimizer: Optimizer, *_: object) -> None:
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        scaled = [one for one in self.factors if id(one[0]) in held]
        self.steps += bool(scaled)

        for parameter, factor in scaled:
            if self.scale == "updates":
                self.before.append((parameter, factor, parameter.detach().clone()))
            elif parameter.grad is not None:
                parameter.grad.mul_(factor.to(parameter.grad))

    @torch.no_grad()
    def _after_step(self, *_: object) -> None:
        for parameter, factor, old in self.before:
            # Not torch.lerp: with factor 0, weights must keep their exact values.
            parameter.copy_(old + (parameter - old) * factor.to(parameter))
        self.before = []


def general_knowledge_loss(
    encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor, importance: Tensor
) -> Tensor:
    """Compute DGA's contrastive loss on unmasked rows, a scalar.

    Runs the encoder three times: twice unchanged, under different dropout masks, and once with head
    outputs multiplied by their importance. The encoder must be in training mode.

    Args:
        encoder: The encoder.
        input_ids: int64 `[B, L]`, unmasked.
        attention_mask: `[B, L]`.
        importance: `[K, N]`, from `head_importance`.
    """
    first = mean_vectors(encode(encoder, input_ids, attention_mask), attention_mask)
    second = mean_vectors(encode(encoder, input_ids, attention_mask), attention_mask)
    with gated_heads(encoder, importance):
        general = mean_vectors(encode(encoder, input_ids, attention_mask), attention_mask)
    return contrast(first, second, general)


def contrast(first: Tensor, second: Tensor, general: Tensor) -> Tensor:
    """Compute SimCSE's loss with additional negatives, a scalar: the mean over rows.

    Row i of `first` should be similar, by cosine, to row i of `second`, and dissimilar to all other
    rows of `second` and all rows of `general`.

    Args:
        first: `[B, H]`, vectors of rows.
        second: Vectors of the same rows under another dropout mask.
        general: Vectors of the same rows from general knowledge only.
    """
    candidates = F.normalize(torch.cat([second, general]).float(), dim=-1)
    cosines = F.normalize(first.float(), dim=-1) @ candidates.T
    positives = torch.arange(len(first), device=cosines.device)
    return F.cross_entropy(cosines / TEMPERATURE, positives)


def mean_vectors(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the mean hidden state of each row without padding, `[B, H]`, float32."""
    present = attention_mask.unsqueeze(-1).float()
    return (hidden.float() * present).sum(1) / present.sum(1).clamp(min=1)


# The encoder and its heads ------------------------------------------------------------------------


def encode(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the encoder's last hidden states, `[B, L, H]`."""
    hidden: Tensor = encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
    return hidden


def unmasked(batch: Mapping[str, Any]) -> Tensor:
    """Return the ids of a batch before masking, int64 `[B, L]`."""
    rows = torch.as_tensor(batch["input_ids"])
    if "labels" not in batch:
        return rows
    labels = torch.as_tensor(batch["labels"])
    return torch.where(labels < 0, rows, labels)


def attention_layers(encoder: Any) -> list[Any]:
    """Return the attention module of each layer, with the projections `self` and `output`.

    Raises:
        ValueError: The encoder's layers have other names.
    """
    if encoder.config.model_type not in FAMILIES:
        raise ValueError(
            f"attention heads: expected an encoder of type {', '.join(FAMILIES)}, got "
            f"'{encoder.config.model_type}'"
        )
    return [layer.attention for layer in encoder.encoder.layer]


def count_heads(encoder: Any) -> int:
    """Return N, the number of heads in a layer."""
    return int(encoder.config.num_attention_heads)


def head_parameters(layer: Any, heads: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each parameter of a layer that its heads share, with the head of each of its values.

    Heads are rows of the query, key and value projections and columns of the output projection, of
    which the bias belongs to no head. Head numbers broadcast to the parameter's shape.
    """
    for projection in (layer.self.query, layer.self.key, layer.self.value):
        row_heads = torch.arange(heads).repeat_interleave(len(projection.weight) // heads)
        yield projection.weight, row_heads[:, None]
        yield projection.bias, row_heads

    weight = layer.output.dense.weight
    yield weight, torch.arange(heads).repeat_interleave(weight.shape[1] // heads)


@contextmanager
def gated_heads(encoder: nn.Module, gates: Tensor) -> Iterator[None]:
    """Multiply each head's output by a gate, within a `with` block.

    Args:
        encoder: The encoder.
        gates: `[K, N]`. Gradients flow to the gates; ones have no effect.
    """
    hooks = [
        layer.output.dense.register_forward_pre_hook(gate_inputs(layer_gates))
        for layer, layer_gates in zip(attention_layers(encoder), gates, strict=True)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def gate_inputs(gates: Tensor) -> Any:
    """Return a hook that multiplies the parts of a layer's input, one of each head, by gates."""

    def scale(_: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        (values,) = inputs
        by_head = values.unflatten(-1, (len(gates), -1))
        return (by_head * gates.to(by_head)[:, None]).flatten(-2)

    return scale


if __name__ == "__main__":
    main(*sys.argv[1:])
