"""Rows of SciERC, as used by DyGIE++ and PURE: sentences of words, and mentions in each."""

from __future__ import annotations

from mslm_data.data.document import Document, NotChosen
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.word_spans import check_words
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import make_word_document


class SciErc(Shape):
    """`sentences` of words, and for each a list in `ner` of `[first, last, label, …]`.

    Words are counted over the document, and `last` is inclusive.
    """

    columns = frozenset({"doc_key", "sentences", "ner"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        sentences = row.get("sentences")
        return (
            isinstance(sentences, list)
            and isinstance(row.get("ner"), list)
            and bool(sentences)
            and all(
                isinstance(words, list) and words and isinstance(words[0], str)
                for words in sentences
            )
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        sentences = cells.column_list(row, "sentences")
        for words in sentences:
            check_words(words)
        by_sentence = cells.column_list(row, "ner")
        if len(by_sentence) != len(sentences):
            raise RecordError(
                f"expected a list of mentions for each sentence, got {len(by_sentence)} for "
                f"{len(sentences)}",
                code="mentions for each sentence",
            )
        mentions = []
        for entity in (entity for items in by_sentence for entity in cells.objects(items)):
            if not isinstance(entity, list) or len(entity) < 3:
                raise RecordError(
                    "expected mentions of first word, last word and label, got others"
                )
            ((first, last),) = cells.pairs([entity[:2]])
            mentions.append(WordSpan(first, last + 1, self.file.name(entity[2], "ner")))
        return make_word_document(doc_id, sentences, mentions, place=place)
