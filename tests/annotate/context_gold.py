"""The hand-made gold of mentions in context, and scores of flags against it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mslm_data.annotate.context import contexts
from mslm_data.data.context import decode_flags
from mslm_data.data.document import Document, Sentence, Span
from mslm_data.data.documents import Documents

FOLDER = Path(__file__).parent / "gold"
_MENTION = re.compile(r"\[([^\]|]*)(?:\|([^\]]*))?\]")


class Marked(NamedTuple):
    text: str
    spans: tuple[tuple[int, int], ...]
    flags: tuple[frozenset[str], ...]


def read(half: str) -> list[Marked]:
    lines = (FOLDER / f"context-{half}.txt").read_text(encoding="utf-8").splitlines()
    return [marked(line) for line in lines]


def marked(line: str) -> Marked:
    text, spans, flags, past = "", [], [], 0
    for match in _MENTION.finditer(line):
        text += line[past : match.start()]
        spans.append((len(text), len(text) + len(match[1])))
        flags.append(frozenset((match[2] or "").split(",")) - {""})
        text += match[1]
        past = match.end()
    return Marked(text + line[past:], tuple(spans), tuple(flags))


def document_of(sentence: Marked, doc_id: str = "d") -> Document:
    return Document(
        id=doc_id,
        text=sentence.text,
        spans=tuple(Span(start, end, "X") for start, end in sentence.spans),
        sentences=(Sentence(0, len(sentence.text)),),
    )


def found_in(sentences: Sequence[Marked]) -> list[tuple[frozenset[str], ...]]:
    """Return the predicted flags of each mention of each sentence."""
    documents = Documents.from_documents(
        [document_of(one, str(n)) for n, one in enumerate(sentences)]
    )
    found = iter(contexts(documents, documents.sentences).tolist())
    return [tuple(frozenset(decode_flags(next(found))) for _ in one.spans) for one in sentences]


def scores(
    sentences: Sequence[Marked], found: Sequence[Sequence[frozenset[str]]], flag: str
) -> tuple[float, float, float]:
    pairs = [
        (flag in gold, flag in got)
        for sentence, of_sentence in zip(sentences, found, strict=True)
        for gold, got in zip(sentence.flags, of_sentence, strict=True)
    ]
    right = sum(gold and got for gold, got in pairs)
    precision = right / max(sum(got for _, got in pairs), 1)
    recall = right / max(sum(gold for gold, _ in pairs), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)
