"""Documents in, `Examples` out, with an account of every mention."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mslm_data.data.bio import paint
from mslm_data.data.document import Document, Sentence
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, offsets_of
from mslm_data.encode.layout import Ints, Layout, lay_out
from mslm_data.encode.mentions import Account, Mentions, align, costs, split_at
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import TokenizerError
from mslm_data.kernels.keys import name_rows
from mslm_data.kernels.windows import cut_windows
from mslm_data.kernels.words import wrap_rows


class Encoder:
    """Tokenises documents and cuts them into rows."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        max_tokens: int = 512,
        protect_mentions: bool = True,
        keep_text: bool = False,
        weak: bool = False,
        corpus: str = "",
    ) -> None:
        """Say how.

        Args:
            tokenizer: What tokenises.
            labels: The label of each index.
            max_tokens: Longest row, special tokens included.
            protect_mentions: Cut a sequence that is too long only where no mention is, if it can be; False cuts
                before the word that would overflow, as the inputs of Abaho et al. 2024 were cut.
            keep_text: Give each row its text and its tokens' characters.
            weak: Give each mention its concept and confidence.
            corpus: The name of the corpus, which is part of each row's key.

        Raises:
            TokenizerError: `max_tokens` leaves no room beside the special tokens.
        """
        self._tokenizer, self._table = tokenizer, WordTable(tokenizer)
        self._labels: Mapping[str, int] = {label: number for number, label in enumerate(labels)}
        self._protect, self._keep_text, self._weak = protect_mentions, keep_text, weak
        self._corpus = corpus
        self._room = max_tokens - len(tokenizer.prefix) - len(tokenizer.suffix)
        if self._room < 1:
            raise TokenizerError(
                f"max_tokens: expected room for a token beside the special ones, got {max_tokens}"
            )

    def encode(
        self,
        documents: Sequence[Document],
        sentences: Sequence[Sequence[Sentence]],
        account: Account,
    ) -> Examples:
        """Encode documents.

        Args:
            documents: With flat, sorted mentions of known labels.
            sentences: Of each document; no mention crosses from one to the next.
            account: What became of them; added to.
        """
        layout = lay_out(documents, sentences, self._table)
        mentions = align(documents, layout, self._labels, account)
        cuts, counts = self._windows(layout, mentions)
        pieces, rows = split_at(mentions, cuts)
        account.windowed += int((counts > 1).sum())
        account.empty += int((counts == 0).sum())
        per_mention = np.bincount(pieces.sources, minlength=1)
        account.cut_mentions += int((per_mention > 1).sum())
        account.cut_pieces += len(pieces.starts) - len(mentions.starts)
        return self._rows(documents, layout, pieces, rows, cuts, counts)

    def _windows(self, layout: Layout, mentions: Mentions) -> tuple[Ints, Ints]:
        """Return the first token of each window, and the number of windows of each sentence."""
        lengths = np.diff(layout.offsets)
        if lengths.max(initial=0) <= self._room:
            return layout.offsets[:-1][lengths > 0], (lengths > 0).astype(np.int64)
        cuts, counts = np.empty(len(layout.ids), np.int64), np.empty(len(lengths), np.int64)
        cost = costs(layout, mentions, protect=self._protect)
        cut_windows(layout.offsets, cost, self._room, cuts, counts)
        return cuts[: counts.sum()], counts

    def _rows(
        self,
        documents: Sequence[Document],
        layout: Layout,
        spans: Mentions,
        rows: Ints,
        cuts: Ints,
        counts: Ints,
    ) -> Examples:
        """Put the special tokens around each window and make everything count within its row."""
        prefix, suffix = self._tokenizer.prefix, self._tokenizer.suffix
        content = np.diff(cuts, append=len(layout.ids))
        offsets = offsets_of(content + len(prefix) + len(suffix))
        ids, words = wrapped = np.empty((2, offsets[-1]), np.int32)
        wrap_rows(
            cuts, layout.ids, layout.words, np.array(prefix), np.array(suffix), offsets, wrapped
        )
        starts = (spans.starts - cuts[rows] + len(prefix)).astype(np.int32)
        ends = (spans.ends - cuts[rows] + len(prefix)).astype(np.int32)
        span_offsets = offsets_of(np.bincount(rows, minlength=len(cuts)))
        sentence = np.repeat(np.arange(len(counts)), counts)
        document = layout.sentence_documents[sentence]
        keys = np.empty(len(cuts), np.uint64)
        doc_ids = [document.id for document in documents]
        digests = np.array([digest_of(self._corpus, document) for document in documents], np.uint64)
        window = np.arange(len(sentence)) - np.repeat(np.cumsum(counts) - counts, counts)
        name_rows(digests[document], layout.sentence_numbers[sentence], window, keys)
        mentions = (
            Ragged(starts, span_offsets),
            Ragged(ends, span_offsets),
            Ragged(spans.labels, span_offsets),
        )
        return Examples(
            keys=keys,
            input_ids=Ragged(ids, offsets),
            word_ids=Ragged(words, offsets),
            bio=Ragged(paint(*mentions, offsets), offsets),
            span_starts=mentions[0],
            span_ends=mentions[1],
            span_labels=mentions[2],
            ids=self._tokenizer.ids,
            doc_ids=[doc_ids[number] for number in document.tolist()],
            **(
                _texts(documents, layout, cuts, document, words, offsets) if self._keep_text else {}
            ),
            **(_concepts(documents, spans) if self._weak else {}),
        )


def digest_of(corpus: str, document: Document) -> int:
    """Return the 64 bits that the keys of a document's rows come from.

    They are BLAKE2b of the corpus' name, the document's id and its text, each after its length. The
    text tells corpora apart that have one name and number their documents alike, such as two folders
    built by one pipeline file: their first documents are both `train:0`.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (corpus, document.id, document.text):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)

    return int.from_bytes(digest.digest(), "little")


def _concepts(documents: Sequence[Document], spans: Mentions) -> dict[str, Any]:
    """Return each mention's concept and confidence, as the fields of `Examples`."""
    given = [span for document in documents for span in document.spans]
    return {
        "span_concepts": [given[number].concept for number in spans.sources.tolist()],
        "span_scores": np.array(
            [given[number].score for number in spans.sources.tolist()], np.float32
        ),
    }


def _texts(
    documents: Sequence[Document],
    layout: Layout,
    cuts: Ints,
    document: Ints,
    words: Array,
    offsets: Ints,
) -> dict[str, Any]:
    """Return each row's text and its tokens' characters within it, as the fields of `Examples`."""
    first = layout.starts[cuts]
    last = layout.ends[np.append(cuts, len(layout.ids))[1:] - 1]
    base = layout.bases[document]
    bounds = zip(document.tolist(), (first - base).tolist(), (last - base).tolist(), strict=True)
    starts, ends = np.full(offsets[-1], -1, np.int32), np.full(offsets[-1], -1, np.int32)
    shift = np.repeat(first, np.diff(cuts, append=len(layout.ids)))
    to = words >= 0
    starts[to], ends[to] = layout.starts - shift, layout.ends - shift
    return {
        "texts": [documents[number].text[start:end] for number, start, end in bounds],
        "token_starts": Ragged(starts, offsets),
        "token_ends": Ragged(ends, offsets),
    }
