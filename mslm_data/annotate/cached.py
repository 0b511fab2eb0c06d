"""Runs a model on single documents, and caches the mentions of each distinct document.

Processes share no cache, since the bytes of a build would depend on timing.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from mslm_data.annotate import Annotations
from mslm_data.annotate.boundaries import touches
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.data.documents import Documents, Mentions, spread_counts
from mslm_data.data.reason import Reason

_MAX_CACHED = 1 << 12
"""Maximum number of documents in the cache of a process. Texts of notes are often repeated."""


class FoundMentions(NamedTuple):
    """The mentions found in a document.

    Attributes:
        spans: Mentions in characters of the document, in any order.
        left_out: Reason -> number of mentions that were found and left out.
    """

    spans: Sequence[Span]
    left_out: Mapping[Reason, int]


BLANK = Reason("white space only")
LOW_SCORE = Reason("score below min_score")
IN_PLACEHOLDER = Reason("in a placeholder")
"""Reasons for mentions left out by annotators."""


def filter_mentions(
    mentions: Iterable[Span], placeholders: Sequence[Placeholder], *, min_score: float
) -> FoundMentions:
    """Leave out mentions without characters, with a low score, or that overlap a placeholder."""
    spans: list[Span] = []
    left_out: Counter[Reason] = Counter()
    for span in mentions:
        if span.start == span.end:
            left_out[BLANK] += 1
        elif span.score < min_score:
            left_out[LOW_SCORE] += 1
        elif touches(span.start, span.end, placeholders):
            left_out[IN_PLACEHOLDER] += 1
        else:
            spans.append(span)
    return FoundMentions(spans, left_out)


class CachedAnnotator:
    """A loaded annotator that calls its model once for each distinct document."""

    def __init__(self, find: Callable[[Sequence[Document]], Sequence[FoundMentions]]) -> None:
        """Start with an empty cache.

        Args:
            find: Function that returns the mentions of each document.
        """
        self._find = find
        self._cache: OrderedDict[bytes, FoundMentions] = OrderedDict()

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents, using the cache; see `LoadedAnnotator`."""
        single = list(documents)
        keys = [_key(document) for document in single]
        results = {key: self._cache[key] for key in keys if key in self._cache}
        new = {
            key: document for key, document in zip(keys, single, strict=True) if key not in results
        }
        results |= zip(new, self._find(list(new.values())), strict=True)

        # Use `results` below: the cache may drop documents of a large batch.
        self._cache.update(results)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return Annotations(
            Mentions.from_rows([results[key].spans for key in keys], documents.starts),
            spread_counts([results[key].left_out for key in keys]),
        )


def _key(document: Document) -> bytes:
    """Return a digest of all fields that a model may use."""
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(repr((document.placeholders, document.sentences)).encode())
    if document.words is not None:
        digest.update(document.words.tobytes())
    return digest.digest()
