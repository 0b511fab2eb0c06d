"""Locate the parameters of each attention head of an encoder.

In the projections to queries, keys and values a head has rows, in the output projection columns.
transformers has no common names for these layers, and some families hold three projections in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mslm_data.torch.model.forward import language_model


class Names(NamedTuple):
    """Names of a family's attention parameters within a layer.

    Attributes:
        output: The output projection, at the end of its module's name.
        inputs: The projections before, each a module or a single parameter.
        blocks: How often all heads stand one after another in the rows of an input.
    """

    output: str
    inputs: tuple[str, ...]
    blocks: int = 1


class AttentionLayer(NamedTuple):
    """The attention parameters of one layer with N heads.

    Attributes:
        output: The output projection; its weight is `[H, N * D]`.
        inputs: Parameters with `blocks * N * D` rows.
        blocks: As of `Names`.
        heads: N.
    """

    output: nn.Linear
    inputs: tuple[nn.Parameter, ...]
    blocks: int
    heads: int

    def parameters(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each parameter that heads share, with the head number of each of its values.

        The numbers are int64, of a shape that broadcasts to the parameter's. The output
        projection's bias belongs to no head, and is not among them.
        """
        for parameter in self.inputs:
            per_head = len(parameter) // (self.blocks * self.heads)
            block_heads = torch.arange(self.heads).repeat_interleave(per_head)
            row_heads = block_heads.repeat(self.blocks)
            yield parameter, row_heads.view(-1, *[1] * (parameter.dim() - 1))

        columns = self.output.weight.shape[1]
        yield self.output.weight, torch.arange(self.heads).repeat_interleave(columns // self.heads)


_BERT = Names(
    "attention.output.dense",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
)

NAMES: Mapping[str, Names] = MappingProxyType(
    {
        "albert": Names("attention.dense", ("attention.query", "attention.key", "attention.value")),
        "bert": _BERT,
        "camembert": _BERT,
        # Rows of `in_proj` are sorted by head, and each head has its query, key and value there.
        "deberta": Names(
            "attention.output.dense",
            (
                "attention.self.in_proj",
                "attention.self.q_bias",
                "attention.self.v_bias",
                "attention.self.pos_proj",
                "attention.self.pos_q_proj",
            ),
        ),
        "deberta-v2": Names(
            "attention.output.dense",
            (
                "attention.self.query_proj",
                "attention.self.key_proj",
                "attention.self.value_proj",
                "attention.self.pos_key_proj",
                "attention.self.pos_query_proj",
            ),
        ),
        "distilbert": Names(
            "attention.out_lin", ("attention.q_lin", "attention.k_lin", "attention.v_lin")
        ),
        "electra": _BERT,
        "modernbert": Names("attn.Wo", ("attn.Wqkv",), blocks=3),
        "roberta": _BERT,
        "xlm-roberta": _BERT,
    }
)
"""`config.model_type` -> names. An input that a configuration leaves out is not there."""


def attention_layers(model: Any) -> list[AttentionLayer]:
    """Return the attention of each layer, in order.

    Layers that share their parameters, as ALBERT's do, are one.

    Args:
        model: An encoder of Hugging Face, with or without a head, or an `MslmModel` of one.

    Raises:
        ValueError: The model's family is not known here.
    """
    model = language_model(model)
    family = model.config.model_type
    if family not in NAMES:
        raise ValueError(
            f"attention heads: expected a model of type {', '.join(NAMES)}, got '{family}'"
        )

    names = NAMES[family]
    parameters = dict(model.named_parameters())
    layers = []
    for name, module in model.named_modules():
        if not name.endswith(f".{names.output}"):
            continue

        layer = name.removesuffix(names.output)
        wanted = [
            f"{layer}{projection}{end}"
            for projection in names.inputs
            for end in ("", ".weight", ".bias")
        ]
        inputs = tuple(parameters[path] for path in wanted if path in parameters)
        heads = model.config.num_attention_heads
        layers.append(AttentionLayer(module, inputs, names.blocks, heads))
    return layers


@contextmanager
def gated_heads(model: Any, gates_KN: Tensor) -> Iterator[None]:
    """Multiply each head's output by a gate, within a `with` block.

    Args:
        model: As of `attention_layers`.
        gates_KN: `[K, N]`, of K layers with N heads; gradients reach them. Ones change nothing.

    Raises:
        ValueError: Another number of layers or heads, or a family that is not known.
    """
    layers = attention_layers(model)
    expected = (len(layers), layers[0].heads)
    if tuple(gates_KN.shape) != expected:
        raise ValueError(
            f"gates: expected the shape {expected} of layers and heads, got {tuple(gates_KN.shape)}"
        )

    hooks = [
        layer.output.register_forward_pre_hook(_gate(gates_N))
        for layer, gates_N in zip(layers, gates_KN, strict=True)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _gate(gates_N: Tensor) -> Any:
    def scale(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        given, *others = inputs
        by_head = given.view(*given.shape[:-1], len(gates_N), -1)
        scaled = by_head * gates_N.to(by_head)[:, None]
        return (scaled.flatten(-2), *others)

    return scale
