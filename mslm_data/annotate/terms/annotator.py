"""Finds the names of a term table by longest match over words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from mslm_data.annotate import Annotations, semantic_types
from mslm_data.annotate.terms.matcher import TermTrie, leftmost
from mslm_data.annotate.terms.term_table import Term, read_terms
from mslm_data.annotate.terms.texts import Texts, find_text_words, set_apart, taken_out
from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.errors import AnnotateError
from mslm_data.registry import Help


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Find the names of a term table in running text.

    Names and text are compared by words: runs of letters, digits and marks, or one other character,
    as everywhere in this package. So `pain` is not found in `painless`. Where a name has white
    space the text may have any, with one line end at most; where it has none the text may have
    none. Of names that overlap the leftmost is found, of those that begin together the longest. A
    name with several labels or concepts gives a mention of each. No name reaches over a sentence
    end of the source or touches a placeholder.

    With 61,620 names of diseases and drugs, one core does 10 million words a second in the kernel,
    and 2.8 million from text to mentions (7,500 notes of 1,800 characters).
    """

    table: Annotated[
        str,
        Help(
            "The table: a file below `vocab/`, or a path. `table.read_terms` describes its columns."
        ),
    ] = ""
    types: Annotated[
        str, Help("For a table of concepts: the table of semantic types that are mentions.")
    ] = "semantic_types.toml"
    case: Annotated[
        Literal["ignore", "match", "short"],
        Help(
            '"ignore"; "match" to find names only as they are written; "short" to do so for names '
            "of at most `short` characters, most of which are abbreviations."
        ),
    ] = "ignore"
    short: Annotated[int, Help("Characters of a short name.")] = 3
    weak: Annotated[
        bool, Help("Whether mentions carry concepts and confidences; a confidence is always 1.")
    ] = True
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return the SHA-256 of the table and of the type table, if there is one."""
        digest = hashlib.sha256(self._path().read_bytes())
        types = semantic_types.find_table(self.types)
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
    """A term table in memory: a trie of case-sensitive names, and one of all others."""

    def __init__(self, terms: Sequence[Term], *, match_case: Sequence[bool]) -> None:
        """Build the tries.

        Args:
            terms: Terms whose names have a character that is not white space.
            match_case: For each term whether its case matters.
        """
        self._names = sorted({term.label for term in terms})
        labels = [self._names.index(term.label) for term in terms]
        self._labels = np.array(labels, np.int64)
        self._concepts = [term.concept for term in terms]

        matters = np.array(match_case, np.bool_)
        self._tries = [
            _trie([terms[number].name for number in numbers.tolist()], numbers, match_case=case)
            for case in (False, True)
            if len(numbers := np.flatnonzero(matters == case))
        ]

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate all documents in one kernel call; see `LoadedAnnotator`."""
        texts = find_text_words(documents.codes(), documents.starts, taken_out(documents))
        set_apart(texts.words, documents.sentences.starts)

        # What stands on the line between documents is of no document, and no term reaches into it.
        set_apart(texts.words, documents.ends)

        # The longest term of either trie at each word, and of these the leftmost that are flat.
        longest = [trie.longest(texts) for trie, _ in self._tries]
        past = np.maximum.reduce([trie_matches[:, 0] for trie_matches in longest])
        firsts = leftmost(past)

        found = []
        places = []
        for trie_matches, (trie, name_terms) in zip(longest, self._tries, strict=True):
            # Where this trie has no term of that length, its node is that of a shorter one.
            is_longest = trie_matches[firsts, 0] == past[firsts]
            terms, owners = trie.terms(trie_matches[firsts[is_longest], 1])
            found.append(name_terms[terms])
            places.append(firsts[is_longest][owners])

        words = np.concatenate(places)
        order = np.argsort(words, kind="stable")
        mentions = self._mentions(
            documents, texts, words[order], past, np.concatenate(found)[order]
        )
        return Annotations(mentions, {})

    def _mentions(
        self, documents: Documents, texts: Texts, words: Ints, past: Array, terms: Ints
    ) -> Mentions:
        """Convert matched terms to mentions.

        Args:
            documents: The documents.
            texts: Their words.
            words: `[S]`, the first word of each mention, never falling.
            past: `[W]`, the word past the mention that begins at each word.
            terms: `[S]`, the number of each mention's term.
        """
        starts = texts.words[words, 0].astype(np.int64)
        ends = texts.words[past[words] - 1, 1].astype(np.int64)

        # Terms between documents have been found too: they are in front of the first document, or
        # past the end of the last one that begins before them.
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


def _trie(names: Sequence[str], numbers: Ints, *, match_case: bool) -> tuple[TermTrie, Ints]:
    """Build a trie of names; return it with each name's term number."""
    line = "\n".join(names)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    texts = find_text_words(codes, make_offsets(lengths + 1)[:-1])
    return TermTrie(texts, match_case=match_case), numbers
