"""Score word types by similarity to anchor words, with an encoder.

This is the score of Difference-Masking (Wilf et al. 2023).

A word's embedding is that of the word alone, so a score belongs to a word type and is computed
once. Scores are raw cosines; what is done with them (ranks, swish) is the strategy's.

Rule for the encoder's ids: where every piece of the shards' tokenizer has the same id in the
encoder's (see `FrozenEncoder.shares_ids`), a word keeps its ids; otherwise it is decoded to a
string, which has lost what the shards' tokenizer normalised away, and encoded by the encoder's
tokenizer as a word of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.kernels.gather import gather
from mslm_data.lexicon.scores.encoders import FrozenEncoder
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import word_strings

Embedding = Literal["pooler", "mean", "input"]
Combine = Literal["max", "mean", "min"]
_WORDS_AT_ONCE = 1 << 12
_OVER: dict[str, Callable[..., Array]] = {"max": np.max, "mean": np.mean, "min": np.min}


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Options for comparing words with anchors.

    Attributes:
        encoder: What embeds.
        tokenizer: That of the folder, in whose ids words come.
        embedding: How a word is embedded. `pooler` is the pooler's output of `[CLS] word [SEP]`, as
            in the released code; `mean` the mean of the last layer over the word's pieces; `input`
            the mean of their input embeddings, with no layer at all.
        combine: Which of a word's cosines to the anchors is its score; the paper has the highest.

    Raises:
        VocabularyError: An encoder without a trained pooler, where that is wanted, or one whose
            tokenizer is not the folder's and not known.
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

        Left out are words with an `[UNK]`, of the shards' tokenizer or the encoder's, with no piece
        in the encoder's, or longer than the encoder can take: their embedding would not be theirs.

        Args:
            words: int32, W rows, the ids of each word by the folder's tokenizer, without special
                tokens.
            anchors: int32, A rows, the ids of each anchor word by the same tokenizer.
            advance: Called with a number of words whenever these are done.

        Returns:
            Numbers of the words that have a score, int64, sorted, and their scores, float64.

        Raises:
            VocabularyError: No anchor can be embedded, or an embedding is not a number.
        """
        kept, pieces = self._pieces(anchors)
        if not len(kept):
            raise VocabularyError(
                f"{self.encoder.name}: the model knows none of the {len(anchors)} anchors"
            )
        to = self._unit(pieces)

        numbers = [np.empty(0, np.int64)]
        scores = [np.empty(0, np.float64)]
        for start in range(0, len(words), _WORDS_AT_ONCE):
            stop = min(start + _WORDS_AT_ONCE, len(words))
            kept, pieces = self._pieces(words.slice(start, stop))
            if len(kept):
                numbers.append(start + kept)
                scores.append(_OVER[self.combine](self._unit(pieces) @ to.T, axis=1))
            advance(stop - start)

        # Rounding can take the cosine of equal vectors a little above 1.
        return np.concatenate(numbers), np.clip(np.concatenate(scores), -1, 1)

    def _pieces(self, words: Ragged) -> tuple[npt.NDArray[np.int64], Ragged]:
        """Return which words can be embedded, and their encoder ids with special tokens."""
        own = self.encoder.tokenizer or self.tokenizer
        unknown = _any(words, words.values == self.tokenizer.ids.unk)
        if self.encoder.shares_ids(self.tokenizer):
            pieces = words
        else:
            pieces, _ = encode_words(word_strings(words, self.tokenizer.core), WordTable(own))
            unknown |= _any(pieces, pieces.values == own.ids.unk)

        usable = ~unknown & (pieces.lengths > 0)
        if self.encoder.limit is not None:
            usable &= pieces.lengths + len(own.prefix) + len(own.suffix) <= self.encoder.limit

        kept = np.flatnonzero(usable)
        around = [[*own.prefix, *pieces[word].tolist(), *own.suffix] for word in kept.tolist()]
        return kept, Ragged.from_rows(around, np.int32)

    def _unit(self, pieces: Ragged) -> npt.NDArray[np.float64]:
        """Return unit embeddings of words, `[W, D]`; zeros for words without one."""
        own = self.encoder.tokenizer or self.tokenizer
        inside = slice(len(own.prefix), -len(own.suffix) or None)

        if self.embedding == "input":
            table = self.encoder.model.get_input_embeddings().weight.detach().cpu().numpy()
            means = [table[pieces[word][inside]].mean(axis=0) for word in range(len(pieces))]
            out = np.array(means, np.float64)
        else:
            out = np.zeros((len(pieces), 1))
            for places, output in self.encoder.batches(pieces):
                vectors = self._pool_words(output, pieces.lengths[places], inside)
                if out.shape[1] != vectors.shape[1]:  # at the first batch: now the width is known
                    out = np.zeros((len(pieces), vectors.shape[1]))
                out[places] = vectors

        if not np.isfinite(out).all():
            raise VocabularyError(
                f"{self.encoder.name}: its embeddings are NaN; the weights are damaged"
            )

        lengths = np.linalg.norm(out, axis=1, keepdims=True)
        return out / np.where(lengths > 0, lengths, 1)

    def _pool_words(self, output: Any, lengths: Array, inside: slice) -> Array:
        """Pool the embeddings of a batch's words, `[B, D]`."""
        if self.embedding == "pooler":
            return output.pooler_output.cpu().numpy()  # type: ignore[no-any-return]

        layer = output.last_hidden_state.cpu().numpy()
        return np.stack(
            [
                layer[word, :length][inside].mean(axis=0)
                for word, length in enumerate(lengths.tolist())
            ]
        )


def by_likeness(
    words: Ragged,
    numbers: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    about: dict[str, Any],
) -> Lexicon:
    """Return the scored words as a lexicon, most similar first.

    Words of equal score keep their order.

    Args:
        words: Of the folder.
        numbers: Which of them have a score.
        scores: Of these.
        about: See `Lexicon`.
    """
    order = np.argsort(-scores, kind="stable")
    rows = numbers[order]
    offsets = make_offsets(words.lengths[rows])
    tokens = np.empty(offsets[-1], np.int32)
    gather(rows, words.offsets, words.values, offsets, tokens)
    return Lexicon(
        tokens=Ragged(tokens, offsets),
        word_starts=Ragged(np.zeros(len(rows), np.int32), np.arange(len(rows) + 1)),
        scores=scores[order],
        about=about,
    )


def _any(rows: Ragged, flags: Array) -> npt.NDArray[np.bool_]:
    """Return which rows contain a true flag, `[N]`."""
    before = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(before[rows.offsets[1:]] > before[rows.offsets[:-1]])
