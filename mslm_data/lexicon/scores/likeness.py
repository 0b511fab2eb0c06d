"""Score word types by their similarity to anchor words, with an encoder.

This is the score of Difference-Masking (Wilf et al. 2023). Each word type is embedded once, without
context. Scores are cosines; the strategy transforms them (ranks, swish).

If all pieces of the shards' tokenizer have the same ids in the encoder's (see
`FrozenEncoder.shares_ids`), words keep their ids. Otherwise they are decoded, without case and
accents if the shards' tokenizer removed these, and encoded by the encoder's tokenizer as words in a
sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, Ragged
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoders import FrozenEncoder
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import word_strings

Embedding = Literal["pooler", "mean", "input"]
Combine = Literal["max", "mean", "min"]
_WORDS_AT_ONCE = 1 << 12
_REDUCTIONS: dict[str, Callable[..., Array]] = {"max": np.max, "mean": np.mean, "min": np.min}


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Options for comparing words with anchors.

    Attributes:
        encoder: The model for embeddings.
        tokenizer: The folder's tokenizer.
        embedding: Embedding of a word. `pooler`: pooler output of `[CLS] word [SEP]`, as in the
            released code; `mean`: mean of the last layer over the word's pieces; `input`: mean of
            their input embeddings, without any layer.
        combine: Reduction of a word's cosines with all anchors; the paper uses the maximum.

    Raises:
        VocabularyError: `pooler` without a trained pooler, or an encoder with unknown tokenizer
            whose vocabulary size differs from the folder's.
    """

    encoder: FrozenEncoder
    tokenizer: Tokenizer
    embedding: Embedding = "pooler"
    combine: Combine = "max"

    def __post_init__(self) -> None:
        if self.embedding == "pooler" and not self.encoder.has_pooler:
            raise VocabularyError(
                f"{self.encoder.name}: the model has no trained pooler; pass --embedding mean "
                "or input"
            )
        if self.encoder.tokenizer is None:
            self.encoder.check_shares_ids(self.tokenizer)

    def score(
        self, words: Ragged, anchors: Ragged, advance: Callable[[int], None]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Score words.

        Skips words whose embedding would be meaningless: words with `[UNK]`, without pieces in the
        encoder's vocabulary, or too long for the encoder.

        Args:
            words: int32, W rows, ids of each word by the folder's tokenizer, without special
                tokens.
            anchors: int32, A rows, ids of each anchor by the same tokenizer.
            advance: Called with the number of words finished since the last call.

        Returns:
            Sorted numbers of the scored words, int64, and their scores, float64.

        Raises:
            VocabularyError: No anchor can be embedded, or embeddings are NaN.
        """
        kept, pieces = self._encode(anchors)
        if not len(kept):
            raise VocabularyError(
                f"{self.encoder.name}: the model knows none of the {len(anchors)} anchors"
            )
        anchor_vectors = self._embed(pieces)

        numbers = [np.empty(0, np.int64)]
        scores = [np.empty(0, np.float64)]
        for start in range(0, len(words), _WORDS_AT_ONCE):
            stop = min(start + _WORDS_AT_ONCE, len(words))
            kept, pieces = self._encode(words.slice(start, stop))
            if len(kept):
                numbers.append(start + kept)
                scores.append(
                    _REDUCTIONS[self.combine](self._embed(pieces) @ anchor_vectors.T, axis=1)
                )
            advance(stop - start)

        # By rounding, the cosine of equal vectors can exceed 1.
        return np.concatenate(numbers), np.clip(np.concatenate(scores), -1, 1)

    def _encode(self, words: Ragged) -> tuple[npt.NDArray[np.int64], Ragged]:
        """Return the numbers of words that can be embedded, and their ids with special tokens."""
        encoder_tokenizer = self.encoder.tokenizer or self.tokenizer
        unknown = _any_in_row(words, words.values == self.tokenizer.ids.unk)

        # Keep ids if the vocabularies agree; otherwise encode the text of the words.
        if self.encoder.shares_ids(self.tokenizer):
            pieces = words
        else:
            pieces, _ = encode_words(
                word_strings(words, self.tokenizer.core), WordTable(encoder_tokenizer)
            )
            unknown |= _any_in_row(pieces, pieces.values == encoder_tokenizer.ids.unk)

        # Skip words without an embedding of their own.
        usable = ~unknown & (pieces.lengths > 0)
        if self.encoder.limit is not None:
            usable &= (
                pieces.lengths + len(encoder_tokenizer.prefix) + len(encoder_tokenizer.suffix)
                <= self.encoder.limit
            )

        kept = np.flatnonzero(usable)
        rows = [
            [*encoder_tokenizer.prefix, *pieces[word].tolist(), *encoder_tokenizer.suffix]
            for word in kept.tolist()
        ]
        return kept, Ragged.from_rows(rows, np.int32)

    def _embed(self, pieces: Ragged) -> npt.NDArray[np.float64]:
        """Return unit embeddings of one word or more, `[W, D]`; zeros for zero vectors."""
        encoder_tokenizer = self.encoder.tokenizer or self.tokenizer
        inside = slice(len(encoder_tokenizer.prefix), -len(encoder_tokenizer.suffix) or None)

        if self.embedding == "input":
            table = self.encoder.model.get_input_embeddings().weight.detach().cpu().numpy()
            means = [table[pieces[word][inside]].mean(axis=0) for word in range(len(pieces))]
            vectors = np.array(means, np.float64)
        else:
            rows = []
            parts = []
            for row_numbers, output in self.encoder.batches(pieces):
                rows.append(row_numbers)
                parts.append(self._pool_words(output, pieces.lengths[row_numbers], inside))
            order = np.argsort(np.concatenate(rows))
            vectors = np.concatenate(parts)[order].astype(np.float64)

        if not np.isfinite(vectors).all():
            raise VocabularyError(
                f"{self.encoder.name}: its embeddings are NaN or infinite; the weights are damaged"
            )

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)

    def _pool_words(self, output: Any, lengths: Array, inside: slice) -> Array:
        """Pool the hidden states of a batch's words, `[B, D]`."""
        if self.embedding == "pooler":
            return output.pooler_output.cpu().numpy()  # type: ignore[no-any-return]

        layer = output.last_hidden_state.cpu().numpy()
        return np.stack(
            [
                layer[word, :length][inside].mean(axis=0)
                for word, length in enumerate(lengths.tolist())
            ]
        )


def make_lexicon(
    words: Ragged,
    numbers: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    about: dict[str, Any],
) -> Lexicon:
    """Return the scored words as a lexicon, most similar first.

    Words with equal scores keep their order.

    Args:
        words: Words of the folder.
        numbers: Numbers of the scored words.
        scores: Their scores.
        about: Metadata, see `Lexicon`.
    """
    order = np.argsort(-scores, kind="stable")
    return Lexicon.from_words(words.take(numbers[order]), scores[order], about)


def _any_in_row(rows: Ragged, flags: Array) -> npt.NDArray[np.bool_]:
    """Return for each row whether a flag is true, `[N]`."""
    before = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(before[rows.offsets[1:]] > before[rows.offsets[:-1]])
