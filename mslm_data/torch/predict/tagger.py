"""Find entities in texts of any length with a token-classification model.

Texts are tokenised as builds tokenise them: each stretch between white space by itself, and text
that spells a special token is text. A word has the tag of its first token, so that mentions begin
and end where words do. Words are those of built folders: a run of letters, digits and combining
marks, or one other character. `text_windows` says how long texts are cut and put together.

Dimensions: B rows, L tokens, S mentions (padded).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mslm_data.data import bio
from mslm_data.data.document import Document
from mslm_data.data.documents import Documents, Ranges, in_batches
from mslm_data.data.ragged import Ragged, make_offsets
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
    joined,
    max_word_tokens,
    windows,
)

Ints = npt.NDArray[np.int64]

BATCH_SIZE = 1
"""Windows of full length that a model sees at once. More of them leave the caches of a CPU."""
_WINDOW = 512
"""Most tokens of a window, special tokens included."""
_LEAST = 4
"""Least room of a window beside the special tokens."""
_DIGITS = 4
"""Digits of a score: those beyond depend on what else is in the batch."""
_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, _WINDOW)
"""Tokens that rows of steady batches are padded to."""
_MENTIONS = 16
"""Mentions of a row whose types are found at once."""

_HALF = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no tokenizer takes."""


class TextMention(NamedTuple):
    """An entity in a text: characters `[start, end)`, label, and score in `[0, 1]`."""

    start: int
    end: int
    label: str
    score: float


class Tagger:
    """A token-classification model with its tokenizer.

    The score of a mention is the mean, over its words, of the probability of the word's tag. For an
    `MslmModel`, whose classification head has the last word on types, it is that times the
    probability of the type.

    Attributes:
        labels: What mentions can be.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        """Take a model.

        Args:
            model: An `MslmModel` with labels, or a token-classification model of transformers. It
                runs where its parameters are, without dropout.
            tokenizer: Makes its tokens.

        Raises:
            AnnotateError: The model has no labels, or no room for text.
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
        around = len(tokenizer.prefix) + len(tokenizer.suffix)
        longest = longest_row(model)
        self._window = _WINDOW if longest is None else min(_WINDOW, longest)
        self._room = self._window - around
        if self._room < _LEAST:
            raise AnnotateError(
                f"model: expected a maximum row length of at least {around + _LEAST} tokens, got "
                f"{longest}"
            )

    def move(self, device: str) -> None:
        """Move the model to a torch device."""
        self._model.to(device)

    def annotate(
        self, texts: Sequence[str], *, batch_size: int = BATCH_SIZE
    ) -> list[list[TextMention]]:
        """Find the mentions of each text, in characters.

        Args:
            texts: Any.
            batch_size: How many windows of full length are given to the model at once, or as many
                tokens in shorter rows. Mentions do not depend on it.

        Raises:
            ValueError: The batch size is below 1, or the texts are one text.
            AnnotateError: The model's scores are not numbers.
        """
        if isinstance(texts, str):
            raise ValueError("annotate: expected a list of texts, got a string; put it in a list")
        found: list[list[TextMention]] = []
        whole = (Document(id="", text=_HALF.sub("\ufffd", text)) for text in texts)
        for documents in in_batches(whole):
            found += self.mentions(documents, batch_size=batch_size)
        return found

    def mentions(
        self, documents: Documents, *, batch_size: int = BATCH_SIZE, steady: bool = False
    ) -> list[list[TextMention]]:
        """Find the mentions of each document, in characters.

        Args:
            documents: Any.
            batch_size: See `annotate`.
            steady: Whether scores are the same to the last bit whatever other documents there are.
                Libraries choose how to add numbers up by the shapes of arrays. So each window is
                then in a batch whose shape follows from the window's length alone: rows are padded
                to one of a few widths, and batches filled with copies of a row.

        Raises:
            ValueError: The batch size is below 1.
            AnnotateError: The model's scores are not numbers.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")

        whole = Ranges(np.arange(len(documents) + 1), documents.starts, documents.ends)
        layout = lay_out(documents, whole, self._table)
        words = _make_words(layout, max_word_tokens(self._room))

        document_windows = []
        for first, past in pairwise(words.offsets.tolist()):
            places = words.places[first : past + 1]
            document_windows.append(list(windows(places, self._room)) if past > first else [])
        every = [
            Window(first + window.start, first + window.end)
            for first, text_windows in zip(words.offsets.tolist(), document_windows, strict=False)
            for window in text_windows
        ]
        with evaluating(self._model):
            found = iter(self._read(words, every, batch_size, steady=steady))

        mentions = []
        for number, text_windows in enumerate(document_windows):
            first, past = words.offsets[number : number + 2].tolist()
            window_mentions = [
                [_moved(mention, window.start) for mention in next(found)]
                for window in text_windows
            ]
            kept = []
            if text_windows:
                kept = joined(text_windows, window_mentions, words.places[first : past + 1])
            shift = int(documents.starts[number])
            mentions.append([self._in_text(mention, words, first, shift) for mention in kept])
        return mentions

    def _in_text(self, mention: WordMention, words: _Words, first: int, shift: int) -> TextMention:
        """Convert a mention from words to characters of a document, whose first word is `first`."""
        return TextMention(
            start=int(words.starts[first + mention.start]) - shift,
            end=int(words.ends[first + mention.end - 1]) - shift,
            label=self.labels[mention.label],
            score=round(sum(mention.scores) / len(mention.scores), _DIGITS),
        )

    def _read(
        self, words: _Words, every: Sequence[Window], batch_size: int, *, steady: bool
    ) -> list[list[WordMention]]:
        """Find the mentions of each window, in words of the window."""
        starts = words.places[[window.start for window in every]]
        ends = words.places[[window.end for window in every]]
        around = len(self._tokenizer.prefix) + len(self._tokenizer.suffix)
        lengths = ends - starts + around

        found: list[list[WordMention]] = [[] for _ in every]
        tokens = batch_size * self._window
        if steady:
            batches = _steady_batches(lengths, tokens, self._window)
        else:
            batches = _batches(lengths, tokens)
        for batch in batches:
            numbers = batch.rows.tolist()
            batch_mentions = self._read_batch(
                words, [every[number] for number in numbers], batch.width
            )
            for number, mentions in zip(numbers, batch_mentions, strict=True):
                found[number] = mentions
        return found

    def _read_batch(
        self, words: _Words, rows: Sequence[Window], width: int
    ) -> list[list[WordMention]]:
        """Find the mentions of the windows of a batch, in words of each window.

        Args:
            words: The words that windows are of.
            rows: The windows.
            width: Tokens that rows are padded to, with the special tokens.
        """
        ids_BL, mask_BL = self._inputs(words, rows, width)

        # Where each word of each window begins in its row.
        before = len(self._tokenizer.prefix)
        counts = np.array([end - start for start, end in rows])
        heads = np.concatenate(
            [before + words.places[start:end] - words.places[start] for start, end in rows]
        )
        word_rows = np.repeat(np.arange(len(rows)), counts)

        with torch.inference_mode():
            hidden, logits_BLC = self._run(ids_BL, mask_BL)
            best = logits_BLC.float().softmax(-1).max(-1)
            tags = best.indices.cpu().numpy()[word_rows, heads]
            scores = best.values.cpu().numpy()[word_rows, heads].astype(np.float64)
            check_numbers(scores)

            word_offsets = make_offsets(counts)
            spans = bio.find(tags, word_offsets, self._meanings).spans
            labels = spans[:, 2]
            sure = np.ones(len(spans))
            if self._has_heads and len(spans):
                past = np.concatenate(
                    [before + words.places[s + 1 : e + 1] - words.places[s] for s, e in rows]
                )
                labels, sure = self._types(hidden, word_rows, heads, past, spans)

        found: list[list[WordMention]] = [[] for _ in rows]
        for (start, end, _), label, factor in zip(
            spans.tolist(), labels.tolist(), sure.tolist(), strict=True
        ):
            row = int(word_rows[start])
            first = int(word_offsets[row])
            word_scores = tuple((scores[start:end] * factor).tolist())
            found[row].append(WordMention(start - first, end - first, label, word_scores))
        return found

    def _inputs(self, words: _Words, rows: Sequence[Window], width: int) -> tuple[Tensor, Tensor]:
        """Return the ids of windows with special tokens, and their attention mask."""
        tokenizer = self._tokenizer
        pieces = []
        for start, end in rows:
            inner = words.ids[words.places[start] : words.places[end]].tolist()
            pieces.append([*tokenizer.prefix, *inner, *tokenizer.suffix])
        offsets = make_offsets(np.array([len(row) for row in pieces]))
        ids = Ragged(np.concatenate([np.array(row, np.int64) for row in pieces]), offsets)
        present = Ragged(np.ones_like(ids.values), offsets)

        device = find_device(self._model)
        padding = max(tokenizer.ids.pad, 0)
        ids_BL = torch.from_numpy(padded(ids, padding, width=width)).to(device)
        mask_BL = torch.from_numpy(padded(present, 0, width=width)).to(device)
        return ids_BL, mask_BL

    def _run(self, ids_BL: Tensor, mask_BL: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return hidden states, if types need them, and tag logits `[B, L, C]`."""
        if not self._has_heads:
            return None, self._model(input_ids=ids_BL, attention_mask=mask_BL).logits
        encoder = self._model.masked_lm.base_model
        hidden = encoder(input_ids=ids_BL, attention_mask=mask_BL)[0]
        return hidden, self._model.detection(hidden)

    def _types(
        self, hidden: Any, word_rows: Ints, heads: Ints, past: Ints, spans: Ints
    ) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Classify each mention; return its type and the probability.

        Args:
            hidden: `[B, L, H]`.
            word_rows: int64 `[W]`, the row of each word.
            heads: int64 `[W]`, its first token in that row.
            past: int64 `[W]`, the token after its last.
            spans: int64 `[M, 3]`, first word, word after the last, and label of each mention.
        """
        rows = word_rows[spans[:, 0]]
        offsets = make_offsets(np.bincount(rows, minlength=len(hidden)))
        most = int(np.diff(offsets).max())
        width = -(-most // _MENTIONS) * _MENTIONS
        starts_BS = padded(Ragged(heads[spans[:, 0]], offsets), NO_SPAN, width=width)
        ends_BS = padded(Ragged(past[spans[:, 1] - 1], offsets), NO_SPAN, width=width)
        starts, ends = (torch.from_numpy(x).to(hidden.device) for x in (starts_BS, ends_BS))

        logits = [
            self._model.classification(
                hidden, starts[:, at : at + _MENTIONS], ends[:, at : at + _MENTIONS]
            )
            for at in range(0, width, _MENTIONS)
        ]
        best = torch.cat(logits, dim=1).float().softmax(-1).max(-1)
        is_mention = starts_BS != NO_SPAN
        sure = best.values.cpu().numpy()[is_mention].astype(np.float64)
        check_numbers(sure)
        return best.indices.cpu().numpy()[is_mention], sure


class _Words(NamedTuple):
    """N words of D documents, of which T tokens are read.

    Attributes:
        offsets: int64 `[D + 1]`, words of each document.
        places: int64 `[N + 1]`, the first token of each word.
        ids: int64 `[T]`.
        starts: int64 `[N]`, first character of each word on the line.
        ends: int64 `[N]`, half open.
    """

    offsets: Ints
    places: Ints
    ids: Ints
    starts: Ints
    ends: Ints


def _make_words(layout: Layout, most: int) -> _Words:
    """Split documents into words, each with a maximum number of tokens."""
    heads = np.flatnonzero(layout.heads)
    bounds = np.append(heads, len(layout.ids))
    sizes = np.minimum(np.diff(bounds), most)
    within = np.arange(len(layout.ids)) - np.repeat(heads, np.diff(bounds))
    return _Words(
        offsets=np.searchsorted(heads, layout.offsets),
        places=make_offsets(sizes),
        ids=layout.ids[within < most],
        starts=layout.starts[heads],
        ends=layout.ends[bounds[1:] - 1],
    )


def _moved(mention: WordMention, by: int) -> WordMention:
    return mention._replace(start=mention.start + by, end=mention.end + by)


class _Batch(NamedTuple):
    """Row indices of a batch, and the number of tokens to pad to."""

    rows: Ints
    width: int


def _batches(lengths: Ints, tokens: int) -> Iterator[_Batch]:
    """Yield batches of rows of similar length.

    Args:
        lengths: Tokens of each row.
        tokens: Most tokens of a batch, padding counted; a longer row is alone.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    place = 0
    while place < len(longest_first):
        longest = int(lengths[longest_first[place]])
        rows = max(1, tokens // longest)
        yield _Batch(longest_first[place : place + rows], longest)
        place += rows


def _steady_batches(lengths: Ints, tokens: int, longest: int) -> Iterator[_Batch]:
    """Yield batches whose shape depends only on the length of their rows.

    The last row of a batch that is not full is in it several times.

    Args:
        lengths: Tokens of each row.
        tokens: Most tokens of a batch, padding counted; a longer row is alone.
        longest: Most tokens of a row.
    """
    widths = np.minimum(np.array(_WIDTHS)[np.searchsorted(_WIDTHS, lengths)], longest)

    # Models may pass over a mask without padding, so rows that fill their width are by themselves.
    is_full = lengths == widths
    for width, full in sorted({*zip(widths.tolist(), is_full.tolist(), strict=True)}):
        alike = np.flatnonzero((widths == width) & (is_full == full))
        size = max(1, tokens // width)
        for place in range(0, len(alike), size):
            rows = alike[place : place + size]
            yield _Batch(np.pad(rows, (0, size - len(rows)), mode="edge"), width)
