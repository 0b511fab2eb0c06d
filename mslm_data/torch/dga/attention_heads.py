"""Locate the parameters of each attention head of an encoder.

Heads are rows of the query, key and value projections, and columns of the output projection.
transformers has no common names for these layers, and some families combine projections in one.

Dimensions: K layers, N heads, D head size, H hidden size.
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
        output: Last part of the output projection's module name.
        inputs: The other projections, each a module or a single parameter.
        blocks: Number of times that the rows of an input run through all heads, such as 3 for
            queries, keys and values in one projection.
    """

    output: str
    inputs: tuple[str, ...]
    blocks: int = 1


class AttentionLayer(NamedTuple):
    """The attention parameters of one layer with N heads.

    Attributes:
        output: The output projection, with weight `[H, N * D]`.
        inputs: Parameters with `blocks * N * D` rows.
        blocks: See `Names`.
        heads: N.
    """

    output: nn.Linear
    inputs: tuple[nn.Parameter, ...]
    blocks: int
    heads: int

    def parameters(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each parameter shared by heads, with the head number of its values.

        Head numbers are int64, in a shape that broadcasts to the parameter's. The output
        projection's bias belongs to no head, and is skipped.
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
"""`config.model_type` -> names. Parameters that a configuration disables are skipped."""


def attention_layers(model: Any) -> list[AttentionLayer]:
    """Return the attention of each layer, in order.

    Layers with shared parameters, as in ALBERT, are returned once.

    Args:
        model: A Hugging Face encoder, with or without a head, or an `MslmModel`.

    Raises:
        ValueError: The model family is unknown.
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

        # Collect the parameters beside the output projection. Some inputs are parameters, not
        # modules, and some are disabled by the configuration.
        layer = name.removesuffix(names.output)
        paths = [
            f"{layer}{projection}{end}"
            for projection in names.inputs
            for end in ("", ".weight", ".bias")
        ]
        inputs = tuple(parameters[path] for path in paths if path in parameters)
        heads = model.config.num_attention_heads
        layers.append(AttentionLayer(module, inputs, names.blocks, heads))
    return layers


@contextmanager
def gated_heads(model: Any, gates_KN: Tensor) -> Iterator[None]:
    """Multiply each head's output by a gate, within a `with` block.

    Args:
        model: See `attention_layers`.
        gates_KN: `[K, N]`, for K layers with N heads. Gradients flow to the gates; ones have no
            effect.

    Raises:
        ValueError: The gates have the wrong shape, or the model family is unknown.
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
        values, *others = inputs
        by_head = values.view(*values.shape[:-1], len(gates_N), -1)
        scaled = by_head * gates_N.to(by_head)[:, None]
        return (scaled.flatten(-2), *others)

    return scale
