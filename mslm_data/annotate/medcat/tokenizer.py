"""A tokenizer for MedCAT that splits like its spaCy tokenizer, without spaCy.

MedCAT 2.9 takes a tokenizer by name (`config.general.nlp.provider`). It ships two. `spacy` spends
its time in extension attributes. `regex` looks tokens up linearly and lets nested mentions through
(an inclusive end index in an exclusive slice).

What MedCAT's tagger and normaliser say of a token depends on its characters alone. So it is worked
out here once for each distinct token, and those two components are left out of the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from mslm_data.annotate.medcat.token_objects import Token, TokenDocument, TokenSpan, Word

WORDS = "mslm_data.words"
"""Provider: tokens as written. Finds what spaCy's tokenizer finds without a lemmatizer."""

LEMMAS = "mslm_data.lemmas"
"""Provider: plural nouns are also looked up as singulars, in names and in texts alike."""

_MAX_WORDS = 1 << 20
"""Distinct tokens kept in memory; typing errors never end, so the table is then cleared."""


class _Words(dict[str, Word]):
    """A cache of token -> its word."""

    def __init__(self, make: Callable[[str], Word]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, token: str) -> Word:
        if len(self) >= _MAX_WORDS:
            self.clear()
        text = token.removesuffix(" ")
        word = self[text] if 0 < len(text) < len(token) else self._make(token)
        self[token] = word
        return word


class MedCatTokenizer:
    """Split like MedCAT's `spacy_split_all`; implements its `BaseTokenizer`.

    A token is a run of `[A-Za-z0-9@]` (with `diacritics` accented Latin letters too) or any one
    other character. One space after something that is not white space is not a token. All other
    white space is, because MedCAT counts tokens.
    """

    def __init__(
        self, *, diacritics: bool, lemma: Callable[[str], str], words: Callable[[str, str], Word]
    ) -> None:
        """Compile the split.

        Args:
            diacritics: Whether accented Latin letters belong to words.
            lemma: Lower-case token -> its dictionary form.
            words: Token and its dictionary form -> what MedCAT is told of it.
        """
        letters = "A-Za-z0-9@" + ("À-ÖØ-öø-ÿ" if diacritics else "")
        self._pattern = re.compile(rf"[{letters}]+ ?|[^{letters}\s] ?|\s")
        self._words = _Words(lambda text: words(text, lemma(text.lower())))

    def __call__(self, text: str) -> TokenDocument:
        """Return the tokens of a text."""
        document = TokenDocument(text)
        tokens = self.split(text)
        starts = accumulate(map(len, tokens), initial=0)
        document.tokens = [
            Token(document, self._words[token], start, index)
            for index, (token, start) in enumerate(zip(tokens, starts, strict=False))
        ]
        return document

    def split(self, text: str) -> list[str]:
        """Split a text into tokens, each with the space after it.

        Together they are the text.
        """
        return self._pattern.findall(text)

    def word(self, token: str) -> Word:
        """Return the properties of a token from `split`."""
        return self._words[token]

    def create_entity(
        self,
        doc: TokenDocument,
        token_start_index: int,
        token_end_index: int,
        label: str,  # noqa: ARG002
    ) -> TokenSpan:
        """Return tokens `[token_start_index, token_end_index)`."""
        return TokenSpan(doc, token_start_index, token_end_index)

    def entity_from_tokens(self, tokens: list[Token]) -> TokenSpan:
        """Return the span from the first to the last of these tokens."""
        return TokenSpan(tokens[0].document, tokens[0].index, tokens[-1].index + 1)

    def entity_from_tokens_in_doc(self, tokens: list[Token], doc: TokenDocument) -> TokenSpan:
        """Return the document's span of these tokens, or a new one."""
        place = (tokens[0].index, tokens[-1].index)
        for span in doc.ner_ents + doc.linked_ents:
            if (span.start_index, span.end_index) == place:
                return span
        return self.entity_from_tokens(tokens)

    def get_doc_class(self) -> type[TokenDocument]:
        """Return the class on which add-ons register document paths."""
        return TokenDocument

    def get_entity_class(self) -> type[TokenSpan]:
        """Return the class on which add-ons register entity paths."""
        return TokenSpan


def factory(
    lemma: Callable[[str], str], stop_words: Callable[[Any], Iterable[str]]
) -> Callable[[Any], MedCatTokenizer]:
    """Return a tokenizer factory for MedCAT's registry.

    Args:
        lemma: Lower-case token -> its dictionary form.
        stop_words: Configuration -> words that are not a mention when they stand alone.
    """

    def create(config: Any) -> MedCatTokenizer:
        rules = config.preprocessing
        stops = frozenset(stop_words(config))
        skipped = re.compile(f"^({'|'.join(sorted(rules.words_to_skip))})$")

        def make(text: str, lemma: str) -> Word:
            lower = text.lower()
            is_stop = lower in stops

            # As MedCAT's TagAndSkipTagger: a token that does not begin with a letter or digit is
            # punctuation.
            is_punctuation = not _BEGINS_PLAIN.match(lower) and text not in rules.keep_punct
            to_skip = (
                is_punctuation
                or bool(skipped.match(lower))
                or bool(rules.skip_stopwords and is_stop)
            )
            norm = lemma if len(lower) >= rules.min_len_normalize else lower
            return Word(
                text,
                lemma=lemma,
                norm=norm,
                is_punctuation=is_punctuation,
                to_skip=to_skip,
                is_stop=is_stop,
            )

        return MedCatTokenizer(diacritics=config.general.diacritics, lemma=lemma, words=make)

    return create


_BEGINS_PLAIN = re.compile("[a-z0-9]")
_NOT_PLURAL = ("ss", "us", "is", "ous")
_ENDINGS = (
    ("aches", "ache"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"),
    ("ruses", "rus"), ("stases", "stasis"), ("noses", "nosis"), ("roses", "rosis"),
    ("moses", "mosis"), ("ies", "y"), ("s", ""),
)  # fmt: skip
"""Ending -> its singular; the first that fits is taken."""


def singular(word: str) -> str:
    """Return the singular of a lower-case English noun: `headaches` -> `headache`.

    The rules are few and there is no dictionary, so a word that is not a plural may change too
    (`diabetes`). This does no harm: names and texts change alike and are also looked up as written.
    MedCAT leaves words of under five letters alone.
    """
    if not word.endswith("s") or word.endswith(_NOT_PLURAL):
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending):
            return word[: -len(ending)] + replacement
    return word
