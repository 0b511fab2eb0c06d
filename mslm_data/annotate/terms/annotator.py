"""Finds the names of a term table by longest match over words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from mslm_data.annotate import Annotations, semantic_types
from mslm_data.annotate.terms.matcher import TermTrie, leftmost
from mslm_data.annotate.terms.term_table import Term, add_plurals, read_terms
from mslm_data.annotate.terms.texts import (
    Texts,
    find_document_words,
    find_name_words,
    set_apart,
)
from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.errors import AnnotateError
from mslm_data.registry import Options


class Terms(Options, frozen=True, kw_only=True, dict=True):
    """Find the names of a term table in running text.

    Names match whole words: runs of letters, digits and combining marks, or single other
    characters. So `pain` does not match in `painless`. White space in a name matches any white
    space with at most one line end; without white space in the name, the text must have none.

    Among overlapping matches, the leftmost is kept, and among matches with the same start, the
    longest. A name with several labels or concepts yields a mention for each. Matches do not cross
    sentence boundaries of the source, and do not overlap placeholders.

    Speed on one core with 61,620 names of diseases and drugs: 10 million words per second for
    matching, 2.8 million for the whole annotator (7,500 notes of 1,800 characters).
    """

    table: Annotated[
        str,
        Meta(
            description="Term table: a file below `vocab/`, or a path. CSV with the columns name "
            "and label, as written by `mslm-data vocab concepts`, or name, cui and type_ids; see "
            "`term_table.read_terms`."
        ),
    ] = ""
    types: Annotated[
        str, Meta(description="For a table of concepts: table of semantic types with their labels.")
    ] = "semantic_types.toml"
    case: Annotated[
        Literal["ignore", "match", "short"],
        Meta(
            description='"ignore" ignores case. "match" compares case. "short" compares case for '
            "names of at most `short` characters, which are mostly abbreviations."
        ),
    ] = "ignore"
    short: Annotated[int, Meta(description="Maximum number of characters in a short name.")] = 3
    plurals: Annotated[
        bool,
        Meta(
            description="Whether to find names with their last word in the plural or singular of "
            "English too: `lung cancers`, `biopsies`."
        ),
    ] = False
    weak: Annotated[
        bool,
        Meta(
            description="Whether to store concepts and confidences of mentions. Confidences are 1."
        ),
    ] = True
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return a SHA-256 of the term table and the table of semantic types."""
        digest = hashlib.sha256(self._path().read_bytes())
        types = semantic_types.find_table(self.types)
        if types.is_file():
            digest.update(types.read_bytes())
        return digest.hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the sorted labels of the table."""
        return tuple(sorted({term.label for term in self._terms}))

    def start(self) -> LoadedTerms:
        """Read the table."""
        terms = add_plurals(self._terms) if self.plurals else self._terms
        return LoadedTerms(terms, match_case=[self._matches_case(term.name) for term in terms])

    @cached_property
    def _terms(self) -> list[Term]:
        return read_terms(self._path(), self.types)

    def _matches_case(self, name: str) -> bool:
        return self.case == "match" or (self.case == "short" and len(name) <= self.short)

    def _path(self) -> Path:
        if not self.table:
            raise AnnotateError(
                "annotator 'terms': no table given; pass --set annotate.table=FILE with "
                "the columns name and label"
            )
        path = semantic_types.find_table(self.table)
        if not path.is_file():
            raise AnnotateError(
                f"annotator 'terms': no table '{self.table}', neither below vocab/ nor as a path"
            )
        return path


class LoadedTerms:
    """A term table in memory, as two tries: of case-sensitive names, and of all others."""

    def __init__(self, terms: Sequence[Term], *, match_case: Sequence[bool]) -> None:
        """Build the tries.

        Args:
            terms: Terms with non-blank names.
            match_case: Whether to compare case, for each term.
        """
        self._names = sorted({term.label for term in terms})
        labels = [self._names.index(term.label) for term in terms]
        self._labels = np.array(labels, np.int64)
        self._concepts = [term.concept for term in terms]

        matters = np.array(match_case, np.bool_)
        self._tries: list[tuple[TermTrie, Ints]] = []  # each with the term of each of its names
        for case in (False, True):
            numbers = np.flatnonzero(matters == case)
            if len(numbers):
                texts = find_name_words([terms[number].name for number in numbers.tolist()])
                self._tries.append((TermTrie(texts, match_case=case), numbers))

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate all documents in one kernel call; see `LoadedAnnotator`."""
        texts = find_document_words(documents)
        set_apart(texts.words, documents.sentences.starts)

        # The line may have characters between documents: no term may cross into these.
        set_apart(texts.words, documents.ends)

        # Find the longest term of both tries at each word, then the leftmost without overlap.
        longest = [trie.longest(texts) for trie, _ in self._tries]
        past = np.maximum.reduce([trie_matches[:, 0] for trie_matches in longest])
        firsts = leftmost(past)

        term_numbers = []
        first_words = []
        for trie_matches, (trie, name_terms) in zip(longest, self._tries, strict=True):
            # The longest term of this trie may be shorter than that of the other.
            is_longest = trie_matches[firsts, 0] == past[firsts]
            terms, owners = trie.terms(trie_matches[firsts[is_longest], 1])
            term_numbers.append(name_terms[terms])
            first_words.append(firsts[is_longest][owners])

        # Merge the terms of both tries in order of words.
        words = np.concatenate(first_words)
        order = np.argsort(words, kind="stable")
        mentions = self._mentions(
            documents, texts, words[order], past, np.concatenate(term_numbers)[order]
        )
        return Annotations(mentions, {})

    def _mentions(
        self, documents: Documents, texts: Texts, words: Ints, past: Array, terms: Ints
    ) -> Mentions:
        """Convert matched terms to mentions.

        Args:
            documents: D documents.
            texts: W words of the documents.
            words: `[S]`, first word of each mention, non-decreasing.
            past: `[W]`, word after the mention that starts at each word.
            terms: `[S]`, index of the term of each mention.
        """
        starts = texts.words[words, 0].astype(np.int64)
        ends = texts.words[past[words] - 1, 1].astype(np.int64)

        # Drop matches in characters between documents: they start before the first document, or end
        # after the end of the document before. The last item of `last_ends` is for index -1.
        owners = np.searchsorted(documents.starts, starts, side="right") - 1
        last_ends = np.append(documents.ends, 0)[owners]
        kept = np.flatnonzero(ends <= last_ends)
        counts = np.bincount(owners[kept], minlength=len(documents))
        concepts = [self._concepts[number] for number in terms[kept].tolist()]
        return Mentions(
            offsets=make_offsets(counts),
            starts=starts[kept],
            ends=ends[kept],
            labels=self._labels[terms[kept]],
            names=self._names,
            concepts=concepts if any(concepts) else None,
        )
