"""Score each token with a model: attention from the first token, or a class's logit.

Attention is the score of AttnMask (Kakogeorgiou et al. 2022) and MST (Li et al. 2021), which mask
images and use a teacher that is updated in training. We adapt both to text with a frozen encoder:
scores are computed once, and do not change in training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoders import FrozenEncoder
from mslm_data.registry import did_you_mean

Advance = Callable[[int], None]
Value = Literal["logit", "margin"]
_ATTENTION_BYTES = 1 << 29
"""Maximum size of a batch's attention weights over all layers, in bytes."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention from the first token (`[CLS]`) to each token.

    Mean over the heads of the last layer. Special tokens, which often receive most of the
    attention, get 0 without renormalisation: compare ranks or shares within rows, not values across
    rows.

    Attributes:
        encoder: The model, loaded with `attentions`.
    """

    encoder: FrozenEncoder

    def __call__(self, examples: Examples, advance: Advance) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`.

        Raises:
            VocabularyError: A row does not begin with a special token.
        """
        ids = examples.input_ids
        words = examples.word_ids.values
        without_cls = int(np.count_nonzero(words[ids.offsets[:-1]] >= 0))
        if without_cls:
            raise VocabularyError(
                "attention: expected rows that begin with a special token, as [CLS], got "
                f"{without_cls} of {len(examples)} that begin with a word"
            )

        # transformers keeps the weights of all layers, so their size limits a batch.
        config = self.encoder.model.config.get_text_config()
        squares = _ATTENTION_BYTES // (4 * config.num_hidden_layers * config.num_attention_heads)

        def pool(output: Any) -> Array:
            # [batch, heads, from, to]: last layer, from the first token, mean over heads.
            weights: Array = output.attentions[-1][:, :, 0, :].mean(dim=1).cpu().numpy()
            return weights

        return _score_tokens(
            self.encoder, examples, pool, advance, squares=squares, output_attentions=True
        )


@dataclass(frozen=True, slots=True)
class ClassLogits:
    """A token classifier's logit of one class; special tokens get 0.

    The in-domain stage of Selective Masking ranks tokens by it.

    Attributes:
        encoder: The model, loaded with the head `AutoModelForTokenClassification`.
        index: Index of the class, see `class_index`.
        value: `logit`: the raw logit; `margin`: the logit minus the maximum of the other classes,
            above 0 only if the class is predicted (with two classes, softmax ranks tokens
            identically).
    """

    encoder: FrozenEncoder
    index: int
    value: Value = "logit"

    def __call__(self, examples: Examples, advance: Advance) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`."""

        def pool(output: Any) -> Array:
            logits: Array = output.logits.cpu().numpy()
            scores = logits[:, :, self.index]
            if self.value == "margin":
                scores = scores - np.delete(logits, self.index, axis=2).max(axis=2)
            return scores

        return _score_tokens(self.encoder, examples, pool, advance)


def _score_tokens(
    encoder: FrozenEncoder,
    examples: Examples,
    pool: Callable[[Any], Array],
    advance: Advance,
    **options: Any,
) -> npt.NDArray[np.float32]:
    """Return a score for each token, `[T]`; special tokens get 0.

    Args:
        encoder: The model.
        examples: The rows.
        pool: Function from the model's output for a batch to its scores, `[batch, length]`.
        advance: Called with the number of tokens finished since the last call.
        **options: Options of `FrozenEncoder.batches`.
    """
    ids = examples.input_ids
    out = np.zeros(len(ids.values), np.float32)
    for row_numbers, output in encoder.batches(ids, **options):
        for row, scores in zip(row_numbers.tolist(), pool(output), strict=True):
            out[ids.offsets[row] : ids.offsets[row + 1]] = scores[: ids.lengths[row]]
        advance(int(ids.lengths[row_numbers].sum()))

    out[examples.word_ids.values < 0] = 0
    return out


def class_index(encoder: FrozenEncoder, name: str) -> int:
    """Return the index of a classifier's class, given as label or index.

    Raises:
        VocabularyError: The class does not exist, or the classifier has a single class.
    """
    labels = {str(label): int(index) for index, label in encoder.model.config.id2label.items()}
    if len(labels) < 2:
        raise VocabularyError(
            f"{encoder.name}: expected a token classifier of two classes or more, got {len(labels)}"
        )

    if name in labels:
        return labels[name]
    if name.isdecimal() and int(name) in labels.values():
        return int(name)
    raise VocabularyError(f"{encoder.name}: no class '{name}'{did_you_mean(name, labels)}")
