"""Find entities in texts of any length with a token-classification model.

Texts are tokenised as in builds: split at white space first; special tokens spelled out in the text
are ordinary text. A word is a run of letters, digits and combining marks, or any other single
character, and gets the tag of its first token. Long texts are cut into windows, see `text_windows`.

Dimensions: B rows, L tokens, H hidden size, C tags, S mentions (padded); W words of a batch, M
mentions of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mslm_data.data import bio
from mslm_data.data.document import Document
from mslm_data.data.documents import Documents, Ranges, in_batches
from mslm_data.data.ragged import Ragged, count_up, make_offsets
from mslm_data.encode.layout import Layout, lay_out
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import AnnotateError
from mslm_data.torch.model.forward import check_numbers, evaluating, find_device, padded
from mslm_data.torch.model.ranges import NO_SPAN
from mslm_data.torch.model.saved import longest_row
from mslm_data.torch.predict.schemes import (
    check_has_labels,
    find_labels,
    make_tag_table,
    read_tag_names,
)
from mslm_data.torch.predict.text_windows import (
    Window,
    WordMention,
    max_word_tokens,
    merge_windows,
    windows,
)

Ints = npt.NDArray[np.int64]

BATCH_SIZE = 1
"""Default number of full windows in a batch. Larger batches exceed the caches of a CPU."""
_WINDOW = 512
"""Maximum number of tokens in a window, including special tokens."""
_MIN_ROOM = 4
"""Minimum number of tokens in a window, without special tokens."""
_DIGITS = 4
"""Decimal places of a score; further digits depend on the batch."""
_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, _WINDOW)
"""Row widths, in tokens."""
_MENTIONS = 16
"""Number of mentions per row that are classified at once."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Unpaired surrogates, which tokenizers reject."""


class TextMention(NamedTuple):
    """An entity in a text: characters `[start, end)`, label, and score in `[0, 1]`."""

    start: int
    end: int
    label: str
    score: float


class Tagger:
    """A token-classification model with its tokenizer.

    The score of a mention is the mean probability of its words' tags. For an `MslmModel`, it is
    multiplied by the probability of the mention's type from the classification head.

    Attributes:
        labels: Labels of mentions.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        """Prepare a model for annotation.

        Args:
            model: An `MslmModel` with labels, or a token-classification model of transformers. It
                runs on its current device, without dropout.
            tokenizer: The model's tokenizer.

        Raises:
            AnnotateError: The model has no labels, or its maximum row length is too small.
        """
        self._model = model
        self._has_heads = hasattr(model, "detection")
        if self._has_heads:
            self.labels = tuple(model.config.labels)
            names = model.config.tags if self.labels else []
        else:
            names = read_tag_names(model.config.id2label)
            self.labels = find_labels(names)
        check_has_labels(self.labels)
        self._meanings = make_tag_table(names, self.labels)

        self._tokenizer = tokenizer
        self._table = WordTable(tokenizer)
        num_special = len(tokenizer.prefix) + len(tokenizer.suffix)
        max_length = longest_row(model)
        self._window = _WINDOW if max_length is None else min(_WINDOW, max_length)
        self._room = self._window - num_special
        if self._room < _MIN_ROOM:
            raise AnnotateError(
                "model: expected a maximum row length of at least "
                f"{num_special + _MIN_ROOM} tokens, got {max_length}"
            )

    def move(self, device: str) -> None:
        """Move the model to a torch device."""
        self._model.to(device)

    def annotate(
        self, texts: Sequence[str], *, batch_size: int = BATCH_SIZE
    ) -> list[list[TextMention]]:
        """Find the mentions of each text, in characters.

        Args:
            texts: The texts.
            batch_size: Number of full windows in a batch, or of shorter windows with as many
                tokens. Does not change the mentions.

        Raises:
            ValueError: The batch size is below 1, or `texts` is a string.
            AnnotateError: The model's scores are NaN.
        """
        if isinstance(texts, str):
            raise ValueError("annotate: expected a list of texts, got a string; put it in a list")
        mentions: list[list[TextMention]] = []
        all_documents = (Document(id="", text=_SURROGATE.sub("\ufffd", text)) for text in texts)
        for documents in in_batches(all_documents):
            mentions += self.mentions(documents, batch_size=batch_size)
        return mentions

    def mentions(
        self, documents: Documents, *, batch_size: int = BATCH_SIZE
    ) -> list[list[TextMention]]:
        """Find the mentions of each document, in characters.

        Scores are bitwise independent of the other documents. Numeric libraries choose the order of
        summation by array shapes, so each window is in a batch whose shape depends only on the
        window's length: rows are padded to a few fixed widths, and batches filled with copies of a
        row.

        Args:
            documents: The documents.
            batch_size: See `annotate`.

        Raises:
            ValueError: The batch size is below 1.
            AnnotateError: The model's scores are NaN.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")

        full_ranges = Ranges(np.arange(len(documents) + 1), documents.starts, documents.ends)
        layout = lay_out(documents, full_ranges, self._table)
        words = _make_words(layout, max_word_tokens(self._room))

        # Cut documents into windows. Windows of all documents share batches.
        windows_per_document = [
            windows(words.places, self._room, first=first, past=past)
            for first, past in pairwise(words.offsets.tolist())
        ]
        all_windows = [*chain.from_iterable(windows_per_document)]
        with evaluating(self._model):
            found = iter(self._read(words, all_windows, batch_size))

        # Merge the mentions of each document's windows.
        mentions = []
        for document_windows, shift in zip(
            windows_per_document, documents.starts.tolist(), strict=True
        ):
            window_mentions = [*islice(found, len(document_windows))]
            merged = merge_windows(document_windows, window_mentions, words.places)
            mentions.append([self._in_text(mention, words, shift) for mention in merged])
        return mentions

    def _in_text(self, mention: WordMention, words: _Words, shift: int) -> TextMention:
        """Convert a mention to characters of its document, which starts at `shift`."""
        return TextMention(
            start=int(words.starts[mention.start]) - shift,
            end=int(words.ends[mention.end - 1]) - shift,
            label=self.labels[mention.label],
            score=round(sum(mention.scores) / len(mention.scores), _DIGITS),
        )

    def _read(
        self, words: _Words, all_windows: Sequence[Window], batch_size: int
    ) -> list[list[WordMention]]:
        """Find the mentions of each window."""
        starts = words.places[[window.start for window in all_windows]]
        ends = words.places[[window.end for window in all_windows]]
        num_special = len(self._tokenizer.prefix) + len(self._tokenizer.suffix)
        lengths = ends - starts + num_special

        # Batches are sorted by length; return results in the order of the windows.
        mentions_per_window: list[list[WordMention]] = [[] for _ in all_windows]
        for rows, width in _batches(lengths, batch_size * self._window, self._window):
            batch_windows = [all_windows[row] for row in rows.tolist()]
            batch_mentions = self._read_batch(words, batch_windows, width)
            for row, mentions in zip(rows.tolist(), batch_mentions, strict=True):
                mentions_per_window[row] = mentions
        return mentions_per_window

    def _read_batch(
        self, words: _Words, rows: Sequence[Window], width: int
    ) -> list[list[WordMention]]:
        """Find the mentions of the windows of a batch.

        Args:
            words: Words of all documents.
            rows: The windows.
            width: Number of tokens to pad rows to, including special tokens.
        """
        ids_BL, mask_BL = self._inputs(words, rows, width)

        # First token of each word in its row, after the special tokens.
        num_prefix = len(self._tokenizer.prefix)
        counts = np.array([end - start for start, end in rows])
        heads = np.concatenate(
            [num_prefix + words.places[start:end] - words.places[start] for start, end in rows]
        )
        word_rows = np.repeat(np.arange(len(rows)), counts)

        with torch.inference_mode():
            hidden, logits_BLC = self._run(ids_BL, mask_BL)
            best = logits_BLC.float().softmax(-1).max(-1)
            tags = best.indices.cpu().numpy()[word_rows, heads]
            scores = best.values.cpu().numpy()[word_rows, heads].astype(np.float64)
            check_numbers(scores)

            # Decode the tags of words, which may be BIO, BIOES or plain labels.
            word_offsets = make_offsets(counts)
            spans = bio.find(tags, word_offsets, self._meanings).spans
            labels = spans[:, 2]

            # The heads of an MslmModel: types come from the classification head.
            type_scores = np.ones(len(spans))
            if self._has_heads and len(spans):
                past = np.concatenate(
                    [num_prefix + words.places[s + 1 : e + 1] - words.places[s] for s, e in rows]
                )
                labels, type_scores = self._classify(hidden, word_rows, heads, past, spans)

        # Convert mentions from words of the batch to words of all documents.
        mentions: list[list[WordMention]] = [[] for _ in rows]
        for (start, end, _), label, factor in zip(
            spans.tolist(), labels.tolist(), type_scores.tolist(), strict=True
        ):
            row = int(word_rows[start])
            shift = rows[row].start - int(word_offsets[row])
            word_scores = tuple((scores[start:end] * factor).tolist())
            mentions[row].append(WordMention(start + shift, end + shift, label, word_scores))
        return mentions

    def _inputs(self, words: _Words, rows: Sequence[Window], width: int) -> tuple[Tensor, Tensor]:
        """Return the ids of windows with special tokens, and the attention mask."""
        tokenizer = self._tokenizer
        inner = [words.ids[words.places[start] : words.places[end]].tolist() for start, end in rows]
        ids = Ragged.from_rows(
            [[*tokenizer.prefix, *row, *tokenizer.suffix] for row in inner], np.int64
        )
        mask = np.arange(width) < ids.lengths[:, None]

        device = find_device(self._model)
        ids_BL = torch.from_numpy(padded(ids, max(tokenizer.ids.pad, 0), width=width))
        return ids_BL.to(device), torch.from_numpy(mask.astype(np.int64)).to(device)

    def _run(self, ids_BL: Tensor, mask_BL: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return the hidden states, for `_classify` only, and tag logits `[B, L, C]`."""
        if not self._has_heads:
            return None, self._model(input_ids=ids_BL, attention_mask=mask_BL).logits
        encoder = self._model.masked_lm.base_model
        hidden = encoder(input_ids=ids_BL, attention_mask=mask_BL)[0]
        return hidden, self._model.detection(hidden)

    def _classify(
        self, hidden: Any, word_rows: Ints, heads: Ints, past: Ints, spans: Ints
    ) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Classify each mention; return its type and the type's probability.

        Args:
            hidden: `[B, L, H]`.
            word_rows: int64 `[W]`, row of each word.
            heads: int64 `[W]`, index of its first token in the row.
            past: int64 `[W]`, index of the token after its last.
            spans: int64 `[M, 3]`, first word, word after the last, and label of each mention.
        """
        rows = word_rows[spans[:, 0]]
        offsets = make_offsets(np.bincount(rows, minlength=len(hidden)))
        # Chunks of a fixed number of mentions: shapes, and thus rounding, do not depend on the
        # batch.
        max_mentions = int(np.diff(offsets).max())
        width = -(-max_mentions // _MENTIONS) * _MENTIONS
        starts_BS = padded(Ragged(heads[spans[:, 0]], offsets), NO_SPAN, width=width)
        ends_BS = padded(Ragged(past[spans[:, 1] - 1], offsets), NO_SPAN, width=width)
        starts, ends = (torch.from_numpy(x).to(hidden.device) for x in (starts_BS, ends_BS))

        logits = [
            self._model.classification(
                hidden, starts[:, start : start + _MENTIONS], ends[:, start : start + _MENTIONS]
            )
            for start in range(0, width, _MENTIONS)
        ]
        best = torch.cat(logits, dim=1).float().softmax(-1).max(-1)
        is_mention = starts_BS != NO_SPAN
        probabilities = best.values.cpu().numpy()[is_mention].astype(np.float64)
        check_numbers(probabilities)
        return best.indices.cpu().numpy()[is_mention], probabilities


class _Words(NamedTuple):
    """N words of D documents, with T tokens.

    Attributes:
        offsets: int64 `[D + 1]`, words of each document.
        places: int64 `[N + 1]`, first token of each word.
        ids: int64 `[T]`, token ids.
        starts: int64 `[N]`, first character of each word, in all documents joined.
        ends: int64 `[N]`, character after the last.
    """

    offsets: Ints
    places: Ints
    ids: Ints
    starts: Ints
    ends: Ints


def _make_words(layout: Layout, max_tokens: int) -> _Words:
    """Split documents into words, each cut to a maximum number of tokens."""
    heads = np.flatnonzero(layout.heads)
    bounds = np.append(heads, len(layout.ids))
    sizes = np.minimum(np.diff(bounds), max_tokens)
    within = count_up(0, np.diff(bounds))
    return _Words(
        offsets=np.searchsorted(heads, layout.offsets),
        places=make_offsets(sizes),
        ids=layout.ids[within < max_tokens],
        starts=layout.starts[heads],
        ends=layout.ends[bounds[1:] - 1],
    )


def _batches(lengths: Ints, tokens: int, max_length: int) -> Iterator[tuple[Ints, int]]:
    """Yield the row indices of batches, and their width, which depends only on lengths of rows.

    Incomplete batches are filled with copies of their last row.

    Libraries add floats in an order that depends on shapes, so other shapes would let mentions
    depend on neighbouring rows.

    Args:
        lengths: Number of tokens of each row.
        tokens: Maximum number of tokens in a batch, including padding. Longer rows get their own
            batch.
        max_length: Maximum number of tokens in a row.
    """
    widths = np.minimum(np.array(_WIDTHS)[np.searchsorted(_WIDTHS, lengths)], max_length)

    # Models may use another kernel for a mask without padding, so rows without padding are
    # separate.
    is_full = lengths == widths
    for width, is_full_width in sorted({*zip(widths.tolist(), is_full.tolist(), strict=True)}):
        same_width = np.flatnonzero((widths == width) & (is_full == is_full_width))
        size = max(1, tokens // width)
        for start in range(0, len(same_width), size):
            rows = same_width[start : start + size]
            yield np.pad(rows, (0, size - len(rows)), mode="edge"), width
