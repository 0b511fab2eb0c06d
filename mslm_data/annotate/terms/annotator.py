"""Finds the names of a term table by longest match over words, in any domain, without a licence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np

from mslm_data.annotate import Annotated, semantic_types
from mslm_data.annotate.terms.matcher import TermTrie, leftmost
from mslm_data.annotate.terms.term_table import Term, read_terms
from mslm_data.annotate.terms.texts import Texts, texts_of
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError
from mslm_data.kernels.term_trie import APART

_BATCH_CHARACTERS = 1 << 20
"""Characters that are worth one call of a kernel."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Finds the names of a table in running text.

    Names and text are compared by words: runs of letters, digits and marks, or one other character,
    as everywhere in this package. So `pain` is not found in `painless`. Where a name has white
    space the text may have any, with one line end at most; where it has none the text may have
    none. Of names that overlap the leftmost is found, of those that begin together the longest. A
    name with several labels or concepts gives a mention of each. No name reaches over a sentence
    end of the source or touches a placeholder.

    With 61,620 names of diseases and drugs, one core does 10 million words a second in the kernel,
    and 2.8 million from text to mentions (7,500 notes of 1,800 characters).

    Attributes:
        table: The table: a file below `vocab/`, or a path. `table.read_terms` describes its
            columns.
        types: For a table of concepts: the table of semantic types that are mentions.
        case: "ignore"; "match" to find names only as they are written; "short" to do so for names
            of at most `short` characters, most of which are abbreviations.
        short: Characters of a short name.
        weak: Whether mentions carry concepts and confidences; a confidence is always 1.
    """

    table: str = ""
    types: str = "semantic_types.toml"
    case: Literal["ignore", "match", "short"] = "ignore"
    short: int = 3
    weak: bool = True

    def digest(self) -> str:
        """Return the SHA-256 of the table and, if there is one, of the table of types."""
        digest = hashlib.sha256(self._path().read_bytes())
        types = semantic_types.path_of(self.types)
        if types.is_file():
            digest.update(types.read_bytes())
        return digest.hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels in the table, sorted."""
        return tuple(sorted({term.label for term in read_terms(self._path(), self.types)}))

    def start(self) -> LoadedTerms:
        """Read the table."""
        terms = read_terms(self._path(), self.types)
        return LoadedTerms(terms, match_case=[self._matches_case(term.name) for term in terms])

    def _matches_case(self, name: str) -> bool:
        return self.case == "match" or (self.case == "short" and len(name) <= self.short)

    def _path(self) -> Path:
        if not self.table:
            raise AnnotateError(
                "annotator 'terms': expected table, got none; pass --set annotate.table=FILE with "
                "the columns name and label"
            )
        path = semantic_types.path_of(self.table)
        if not path.is_file():
            raise AnnotateError(
                f"annotator 'terms': expected a table below vocab/ or a path, found no "
                f"'{self.table}'"
            )
        return path


class LoadedTerms:
    """A table in memory: one trie for names whose case matters, one for the other names."""

    def __init__(self, terms: Sequence[Term], *, match_case: Sequence[bool]) -> None:
        """Build the tries.

        Args:
            terms: Terms whose names have a character that is not white space.
            match_case: For each term whether its case matters.
        """
        self._tries: list[tuple[TermTrie, list[tuple[str, str]]]] = []
        for matters in (False, True):
            of_case = [term for term, its in zip(terms, match_case, strict=True) if its == matters]
            if of_case:
                names = texts_of([term.name for term in of_case])
                meanings = [(term.label, term.concept) for term in of_case]
                self._tries.append((TermTrie(names, match_case=matters), meanings))

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents, many in one call of a kernel."""
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

        # The longest term of either trie at each word, and of these the leftmost that are flat.
        longest = [trie.longest(texts) for trie, _ in self._tries]
        past = np.maximum.reduce([of_trie[:, 0] for of_trie in longest])
        firsts = leftmost(past)

        # From words on the line of all texts to characters of each document.
        starts = texts.words[firsts, 0]
        ends = texts.words[past[firsts] - 1, 1]
        owners = np.searchsorted(texts.starts, starts, side="right") - 1
        origins = texts.starts[owners]
        places = np.stack([owners, starts - origins, ends - origins], axis=1).tolist()

        spans: list[list[Span]] = [[] for _ in documents]
        for of_trie, (trie, meanings) in zip(longest, self._tries, strict=True):
            # Node 0 is the root, where no term ends: this trie has no term of that length here.
            is_longest = of_trie[firsts, 0] == past[firsts]
            nodes = np.where(is_longest, of_trie[firsts, 1], 0).tolist()
            for (owner, start, end), node in zip(places, nodes, strict=True):
                if not node:
                    continue
                for term in trie.terms(node):
                    label, concept = meanings[term]
                    spans[owner].append(Span(start, end, label, concept))

        if len(self._tries) > 1:
            for of_document in spans:
                of_document.sort(key=itemgetter(0))
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
    """Put documents together until they are worth one call of a kernel."""
    first = 0
    characters = 0
    for number, document in enumerate(documents):
        characters += len(document.text)
        if characters >= _BATCH_CHARACTERS:
            yield documents[first : number + 1]
            first = number + 1
            characters = 0
    if first < len(documents):
        yield documents[first:]
