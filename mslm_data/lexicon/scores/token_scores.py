"""Score each token with a model: attention of the first token, or a class's logit.

Attention is the score of AttnMask (Kakogeorgiou et al. 2022) and MST (Li et al. 2021), which are
about images and take it from a teacher that follows the model in training. A frozen encoder and
text are our adaptation of both: scores are made once, and do not change as the model learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoders import FrozenEncoder
from mslm_data.registry import did_you_mean

Advance = Callable[[int], None]
Value = Literal["logit", "margin"]
_ATTENTION_BYTES = 1 << 29
"""Memory that the attention weights of a batch may take, over all layers, which the library
keeps."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention from the first token (`[CLS]`) to each token.

    It is that of the last layer, the mean over heads.

    Special tokens have 0. What they draw, often most, is not shared out among the others, so only a
    row's order and shares among its words can be compared with another's.

    Attributes:
        encoder: Loaded with `attentions`.
    """

    encoder: FrozenEncoder

    def __call__(self, examples: Examples, advance: Advance) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`.

        Raises:
            VocabularyError: A row that does not begin with a special token, so that none speaks for
                the row.
        """
        ids = examples.input_ids
        words = examples.word_ids.values
        others = int(np.count_nonzero(words[ids.offsets[:-1]] >= 0))
        if others:
            raise VocabularyError(
                "attention: expected rows that begin with a special token, as [CLS], got "
                f"{others} of {len(examples)} that begin with a word"
            )

        # The library keeps the weights of all layers, so their memory limits a batch.
        config = self.encoder.model.config.get_text_config()
        squares = _ATTENTION_BYTES // (4 * config.num_hidden_layers * config.num_attention_heads)

        out = np.zeros(len(words), np.float32)
        for places, output in self.encoder.batches(ids, squares=squares, output_attentions=True):
            # [batch, heads, from, to]: of the last layer, from the first token, mean over heads
            weights = output.attentions[-1][:, :, 0, :].mean(dim=1).cpu().numpy()
            for place, row in zip(places.tolist(), weights, strict=True):
                out[ids.offsets[place] : ids.offsets[place + 1]] = row[: ids.lengths[place]]
            advance(int(ids.lengths[places].sum()))

        out[words < 0] = 0
        return out


@dataclass(frozen=True, slots=True)
class ClassLogits:
    """A token classifier's logit of one class.

    The in-domain stage of Selective Masking ranks tokens by it.

    Special tokens have 0.

    Attributes:
        encoder: Loaded with the head `AutoModelForTokenClassification`.
        index: The class; see `class_index`.
        value: `logit` is the raw logit; `margin` is the logit less the highest of the other
            classes, which is above 0 just where the class is the one predicted (with two classes
            the softmax ranks tokens the same way).
    """

    encoder: FrozenEncoder
    index: int
    value: Value = "logit"

    def __call__(self, examples: Examples, advance: Advance) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`."""
        ids = examples.input_ids
        out = np.zeros(len(ids.values), np.float32)

        for places, output in self.encoder.batches(ids):
            logits = output.logits.cpu().numpy()
            scores = logits[:, :, self.index]
            if self.value == "margin":
                scores = scores - np.delete(logits, self.index, axis=2).max(axis=2)

            for place, row in zip(places.tolist(), scores, strict=True):
                out[ids.offsets[place] : ids.offsets[place + 1]] = row[: ids.lengths[place]]
            advance(int(ids.lengths[places].sum()))

        out[examples.word_ids.values < 0] = 0
        return out


def class_index(encoder: FrozenEncoder, name: str) -> int:
    """Return the index of a classifier's class, given by label or index.

    Raises:
        VocabularyError: No such class, or a classifier of one class only.
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
