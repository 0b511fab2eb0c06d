"""Rows of DocRED: sentences of words, and entities with their mentions."""

from __future__ import annotations

import itertools

from mslm_data.data.document import Document, NotChosen
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.word_spans import check_words
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import make_word_document


class DocRed(Shape):
    """`sents` of words, and entities in `vertexSet`, lists of `{sent_id, pos, type}`.

    `pos` is a half-open range in words of the sentence. Relations are ignored.
    """

    columns = frozenset({"sents", "vertexSet"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        return isinstance(row.get("sents"), list) and isinstance(row.get("vertexSet"), list)

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        sentences = cells.column_list(row, "sents")
        for words in sentences:
            if not isinstance(words, list) or not words:
                raise RecordError("expected sentences that are lists of words, got another value")
            check_words(words)
        firsts = [0, *itertools.accumulate(map(len, sentences))]

        mentions = []
        for entity in cells.column_list(row, "vertexSet"):
            for mention in map(cells.mapping, cells.objects(entity)):
                ((start, stop),) = cells.pairs([mention.get("pos")])
                sentence = mention.get("sent_id")
                label = self.file.name(mention.get("type"), "type")
                if type(sentence) is not int or not 0 <= sentence < len(sentences):
                    raise RecordError("expected the number of a sentence in 'sent_id', got another")
                # A mention beyond its sentence would end up in the next one. Count it as unplaced.
                is_within = 0 <= start < stop <= len(sentences[sentence])
                first = firsts[sentence]
                mentions.append(
                    WordSpan(first + start, first + stop, label)
                    if is_within
                    else WordSpan(-1, -1, label)
                )
        return make_word_document(doc_id, sentences, mentions, place=place)
