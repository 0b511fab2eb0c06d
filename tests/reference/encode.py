"""Slow twin of `encode/`: one sentence at a time, by the tokenizer itself and loops over characters and tokens."""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import tokenizers

from mslm_data.data.document import Document, Sentence
from mslm_data.data.reason import Reason
from tests.reference import rng

SPACES = set(" \t\n\r\u00a0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(c) for c in range(0x2000, 0x200B)
}


@dataclass
class Token:
    id: int
    start: int  # character of the document
    end: int
    word: int  # number within the sentence
    head: bool = False


@dataclass
class Mention:
    start: int  # token of the sentence
    end: int
    label: int


@dataclass
class Row:
    key: int
    doc_id: str
    input_ids: list[int]
    word_ids: list[int]
    bio: list[int]
    spans: list[tuple[int, int, int]]
    text: str
    token_starts: list[int]
    token_ends: list[int]
    sentence_starts: list[int] | None = None
    begin: int = field(default=0, compare=False)  # character of the document
    first_word: int = field(default=0, compare=False)  # word of the document's sentences


@dataclass
class Count:
    left_out: Counter[str] = field(default_factory=Counter)
    narrowed: int = 0
    cut_mentions: int = 0
    cut_pieces: int = 0
    windowed: int = 0
    empty: int = 0
    widened: int = 0


@dataclass(kw_only=True)
class Twin:
    """How to encode; `lead` stands before each word, `prefix` and `suffix` are the special ids around a row.

    No piece of text is one of `control`, special ids: it is `unk` instead.
    """

    core: tokenizers.Tokenizer
    lead: str
    prefix: Sequence[int]
    suffix: Sequence[int]
    labels: Sequence[str]
    control: Collection[int] = ()
    unk: int = -1
    max_tokens: int = 512
    protect: bool = True
    corpus: str = ""
    join: bool = False

    def encode(
        self, documents: Sequence[Document], sentences: Sequence[Sequence[Sentence]]
    ) -> tuple[list[Row], Count]:
        rows: list[Row] = []
        count = Count()
        for document, of_document in zip(documents, sentences, strict=True):
            tokens = [self.tokens(document, sentence) for sentence in of_document]
            mentions = self.mentions(document, tokens, count)
            of_sentences = []
            words = 0
            for number, (of_sentence, within) in enumerate(zip(tokens, mentions, strict=True)):
                windows = self.rows(document, number, of_sentence, within, count)
                for row in windows:
                    row.first_word += words
                of_sentences.append(windows)
                if document.words is not None:
                    words += len(stretches(document, of_document[number]))
                elif of_sentence:
                    words += of_sentence[-1].word + 1
            if self.join:
                rows += self.joined(document, of_sentences)
            else:
                rows += [row for of_sentence in of_sentences for row in of_sentence]
        return rows, count

    def joined(self, document: Document, of_sentences: list[list[Row]]) -> list[Row]:
        """Put the rows of sentences together, as long as they fit; those of a sentence that was cut stay alone."""
        rows: list[Row] = []
        open_ended = False
        for windows in of_sentences:
            for row in windows:
                row.sentence_starts = [len(self.prefix)]
                fits = open_ended and (
                    len(rows[-1].input_ids)
                    + len(row.input_ids)
                    - len(self.prefix)
                    - len(self.suffix)
                    <= self.max_tokens
                )
                if fits and len(windows) == 1:
                    rows[-1] = self.append(document, rows[-1], row)
                else:
                    rows.append(row)
            if windows:
                open_ended = len(windows) == 1
        return rows

    def append(self, document: Document, row: Row, more: Row) -> Row:
        """Put a row of a later sentence behind a row."""
        lead, tail = len(self.prefix), len(self.suffix)
        stop = len(row.input_ids) - tail
        shift = stop - lead
        assert row.sentence_starts is not None

        # Characters and words of the second row, counted as those of the first.
        words = more.first_word - row.first_word
        characters = more.begin - row.begin

        def both(name: str, by: int = 0) -> list[int]:
            moved = [value if value < 0 else value + by for value in getattr(more, name)]
            return getattr(row, name)[:stop] + moved[lead:]

        return Row(
            key=row.key,
            doc_id=row.doc_id,
            input_ids=both("input_ids"),
            word_ids=both("word_ids", words),
            bio=both("bio"),
            spans=row.spans + [(a + shift, b + shift, label) for a, b, label in more.spans],
            text=document.text[row.begin : more.begin + len(more.text)],
            token_starts=both("token_starts", characters),
            token_ends=both("token_ends", characters),
            sentence_starts=[*row.sentence_starts, stop],
            begin=row.begin,
            first_word=row.first_word,
        )

    def tokens(self, document: Document, sentence: Sentence) -> list[Token]:
        """Tokenise one sentence by itself; each token covers at least one character, and none goes back."""
        pieces = stretches(document, sentence)
        encoding = self.core.encode(
            [self.lead + document.text[start:end] for start, end in pieces],
            is_pretokenized=True,
            add_special_tokens=False,
        )
        tokens: list[Token] = []
        word, last_piece, last_start = -1, -1, -1
        ids = [self.unk if id_ in self.control and self.unk >= 0 else id_ for id_ in encoding.ids]
        for id_, piece, offsets in zip(ids, encoding.word_ids, encoding.offsets, strict=True):
            first, stop = pieces[piece]
            start = min(max(offsets[0] - len(self.lead), 0), stop - first - 1)
            end = min(max(offsets[1] - len(self.lead), start + 1), stop - first)
            if document.words is not None:
                head, word = piece != last_piece, piece
            else:
                begins_word = (
                    start in first_characters(document.text[first:stop]) and start != last_start
                )
                head = piece != last_piece or begins_word
                word += head
            begin, close = first + start, first + end
            if tokens:
                begin, close = max(begin, tokens[-1].start), max(close, tokens[-1].end)
            tokens.append(Token(id_, begin, close, word, head))
            last_piece, last_start = piece, start
        return tokens

    def mentions(
        self, document: Document, sentences: list[list[Token]], count: Count
    ) -> list[list[Mention]]:
        """Give each mention the tokens that share a character with it; of two, the first keeps a shared token."""
        found: list[list[Mention]] = [[] for _ in sentences]
        for span in document.spans:
            touched = [
                (s, t)
                for s, tokens in enumerate(sentences)
                for t, token in enumerate(tokens)
                if token.start < span.end and span.start < token.end
            ]
            if not touched:
                count.left_out[Reason("no token")] += 1
                continue
            free = [(s, t) for s, t in touched if not any(m.start <= t < m.end for m in found[s])]
            if not free:
                count.left_out[Reason("shares its tokens with another")] += 1
                continue
            count.narrowed += len(free) < len(touched)
            (sentence,) = {s for s, _ in free}
            first, last = free[0][1], free[-1][1]
            tokens = sentences[sentence]
            count.widened += tokens[first].start < span.start or tokens[last].end > span.end
            found[sentence].append(Mention(first, last + 1, self.labels.index(span.label)))
        return found

    def cost(self, token: int, tokens: list[Token], mentions: list[Mention]) -> int:
        """Say what a cut before a token breaks: a word 1, a mention 2."""
        breaks = not tokens[token].head
        if self.protect and any(mention.start < token < mention.end for mention in mentions):
            breaks += 2
        return breaks

    def windows(
        self, begin: int, tokens: list[Token], mentions: list[Mention]
    ) -> list[tuple[int, int]]:
        """Take as many tokens as fit, up to the last of the cheapest places, and go on with what is left."""
        room = self.max_tokens - len(self.prefix) - len(self.suffix)
        if begin == len(tokens):
            return []
        if len(tokens) - begin <= room:
            return [(begin, len(tokens))]
        end = min(
            range(begin + 1, begin + room + 1), key=lambda t: (self.cost(t, tokens, mentions), -t)
        )
        return [(begin, end), *self.windows(end, tokens, mentions)]

    def rows(
        self,
        document: Document,
        number: int,
        tokens: list[Token],
        mentions: list[Mention],
        count: Count,
    ) -> list[Row]:
        windows = self.windows(0, tokens, mentions)
        count.windowed += len(windows) > 1
        count.empty += not windows
        pieces = [[(max(m.start, a), min(m.end, b), m.label) for m in mentions] for a, b in windows]
        for m in mentions:
            parts = sum(m.start < b and a < m.end for a, b in windows)
            count.cut_mentions += parts > 1
            count.cut_pieces += parts - 1
        before, after = list(self.prefix), list(self.suffix)
        rows = []
        for w, ((a, b), spans) in enumerate(zip(windows, pieces, strict=True)):
            inside = tokens[a:b]
            begin = inside[0].start
            shift = len(before) - a
            kept = [
                (start + shift, end + shift, label) for start, end, label in spans if start < end
            ]
            bio = [0] * (len(before) + len(inside) + len(after))
            for start, end, label in kept:
                bio[start:end] = [1 + 2 * label] + [2 + 2 * label] * (end - start - 1)
            named = [text.encode() for text in (self.corpus, document.id, document.text)]
            framed = b"".join(struct.pack("<Q", len(data)) + data for data in named)
            digest = int.from_bytes(hashlib.blake2b(framed, digest_size=8).digest(), "little")
            edge, tail = [-1] * len(before), [-1] * len(after)
            rows.append(
                Row(
                    key=rng.fold_in(rng.fold_in(digest, number), w),
                    doc_id=document.id,
                    input_ids=before + [token.id for token in inside] + after,
                    word_ids=edge + [token.word - inside[0].word for token in inside] + tail,
                    bio=bio,
                    spans=kept,
                    text=document.text[begin : inside[-1].end],
                    token_starts=edge + [token.start - begin for token in inside] + tail,
                    token_ends=edge + [token.end - begin for token in inside] + tail,
                    begin=begin,
                    first_word=inside[0].word,
                )
            )
        return rows


def stretches(document: Document, sentence: Sentence) -> list[tuple[int, int]]:
    """Return the given words that begin in a sentence, or its runs of characters that are no white space."""
    if document.words is not None:
        return [(a, b) for a, b in document.words.tolist() if sentence.start <= a < sentence.end]
    found: list[tuple[int, int]] = []
    for i in range(sentence.start, sentence.end):
        if document.text[i] in SPACES:
            continue
        if found and found[-1][1] == i:
            found[-1] = (found[-1][0], i + 1)
        else:
            found.append((i, i + 1))
    return found


def first_characters(stretch: str) -> set[int]:
    """Return where words begin: runs of letters, digits and the marks that follow them, or one other character."""
    found = set()
    in_run = False
    for i, character in enumerate(stretch):
        mark = unicodedata.category(character).startswith("M")
        if not (in_run and (character.isalnum() or mark)):
            found.add(i)
            in_run = character.isalnum()
    return found
