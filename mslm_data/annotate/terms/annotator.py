"""A term table, matched by longest match over words: for people with a gazetteer, in any domain, without a licence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np

from mslm_data.annotate import Annotated, semantic_types
from mslm_data.annotate.terms.table import Term, read_terms
from mslm_data.annotate.terms.trie import Texts, Trie, leftmost, texts_of
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError
from mslm_data.kernels.terms import APART

_CHARACTERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Finds the names of a table in running text.

    Names and text are compared by words: runs of letters, digits and marks, or one other character, as everywhere in
    this package; `pain` is not in `painless`. Where a name has white space, the text may have any, with one line end
    at most; where it has none, the text may have none. Of names that overlap the leftmost is found, of those that
    begin together the longest; a name with several labels or concepts gives a mention of each. No name reaches over a
    sentence end of the source or touches a placeholder. With 61,620 names of diseases and drugs, one core: 10 million
    words a second in the kernel, 2.8 million from text to mentions (7,500 notes of 1,800 characters).

    Attributes:
        table: The table; a file below `vocab/`, or a path. See `term_table.read_terms` for its columns.
        types: For a table of concepts: the semantic types that are mentions; see `semantic_types.read`.
        case: "ignore"; "match" for names as they are written only; "short" for names of at most `short` characters,
            most of which are abbreviations, and not for others.
        short: Characters.
        weak: Mentions carry concepts and confidences; a confidence is always 1.
    """

    table: str = ""
    types: str = "semantic_types.toml"
    case: Literal["ignore", "match", "short"] = "ignore"
    short: int = 3
    weak: bool = True

    def digest(self) -> str:
        """Return the SHA-256 of the table, and for a table of concepts of the table of types with it."""
        digest = hashlib.sha256(self._path().read_bytes())
        types = semantic_types.path_of(self.types)
        if types.is_file():
            digest.update(types.read_bytes())
        return digest.hexdigest()

    def start(self) -> LoadedTerms:
        """Read the table; see `Annotator`."""
        terms = read_terms(self._path(), self.types)
        return LoadedTerms(terms, match_case=[self._matches_case(term.name) for term in terms])

    def _matches_case(self, name: str) -> bool:
        return self.case == "match" or (self.case == "short" and len(name) <= self.short)

    def _path(self) -> Path:
        if not self.table:
            raise AnnotateError(
                "annotator 'terms': expected table, got none; pass --set annotate.table=FILE with the columns name and "
                "label"
            )
        path = semantic_types.path_of(self.table)
        if not path.is_file():
            raise AnnotateError(
                f"annotator 'terms': expected a table below vocab/ or a path, found no '{self.table}'"
            )
        return path


class LoadedTerms:
    """A table in memory: one trie for names whose case matters, one for those where it does not."""

    def __init__(self, terms: Sequence[Term], *, match_case: Sequence[bool]) -> None:
        """Build the tries.

        Args:
            terms: Each name has a character that is not white space.
            match_case: For each.
        """
        self._tries: list[tuple[Trie, list[tuple[str, str]]]] = []
        for matters in (False, True):
            some = [term for term, its in zip(terms, match_case, strict=True) if its == matters]
            if some:
                trie = Trie(texts_of([term.name for term in some]), match_case=matters)
                self._tries.append((trie, [term[1:] for term in some]))

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents; see `Running`."""
        return [
            Annotated(tuple(spans), {})
            for batch in _batches(documents)
            for spans in self._annotate(batch)
        ]

    def _annotate(self, documents: Sequence[Document]) -> list[list[Span]]:
        texts = texts_of(
            [document.text for document in documents],
            [document.placeholders for document in documents],
        )
        _part_sentences(documents, texts)
        longest = [trie.longest(texts) for trie, _ in self._tries]
        past = np.maximum.reduce([each[:, 0] for each in longest])
        firsts = leftmost(past)
        starts = texts.words[firsts, 0]
        owners = np.searchsorted(texts.starts, starts, side="right") - 1
        origins = texts.starts[owners]
        places = np.stack(
            [owners, starts - origins, texts.words[past[firsts] - 1, 1] - origins], axis=1
        ).tolist()
        spans: list[list[Span]] = [[] for _ in documents]
        for each, (trie, terms) in zip(longest, self._tries, strict=True):
            nodes = np.where(each[firsts, 0] == past[firsts], each[firsts, 1], 0)
            for (owner, start, end), node in zip(places, nodes.tolist(), strict=True):
                for term in trie.terms(node) if node else ():
                    label, concept = terms[term]
                    spans[owner].append(Span(start, end, label, concept))
        for some in spans if len(self._tries) > 1 else ():
            some.sort(key=itemgetter(0))
        return spans


def _part_sentences(documents: Sequence[Document], texts: Texts) -> None:
    """Set the first word of each sentence of the source apart from the word before it."""
    begins = [
        start + sentence.start
        for start, document in zip(texts.starts.tolist(), documents, strict=True)
        for sentence in document.sentences or ()
    ]
    firsts = np.searchsorted(texts.words[:, 0], begins)
    texts.words[firsts[firsts < len(texts.words)], 2] = APART


def _batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """Put documents together that are worth one call of a kernel."""
    first = characters = 0
    for i, document in enumerate(documents):
        characters += len(document.text)
        if characters >= _CHARACTERS_AT_ONCE:
            yield documents[first : i + 1]
            first, characters = i + 1, 0
    if first < len(documents):
        yield documents[first:]
