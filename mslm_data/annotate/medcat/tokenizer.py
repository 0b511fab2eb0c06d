"""A tokenizer for MedCAT: the splits of its spaCy tokenizer, without spaCy.

MedCAT 2.9 takes a tokenizer by name (`config.general.nlp.provider`). Of the two it ships, `spacy` spends its time in
extension attributes, and `regex` looks tokens up linearly and lets nested mentions through (an inclusive end index in
an exclusive slice). What MedCAT's tagger and normaliser say of a token depends on its characters alone, so it is
worked out once for each distinct token here, and those two components are left out of the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from mslm_data.annotate.medcat.tokens import Token, TokenDocument, TokenSpan, Word

WORDS = "mslm_data.words"
"""Provider: tokens as they are written; finds what spaCy's tokenizer finds without a lemmatizer."""

LEMMAS = "mslm_data.lemmas"
"""Provider: plural nouns are also looked up as singulars, in names and in texts alike."""

_MOST_WORDS = 1 << 20
"""Distinct tokens that are remembered; numbers and typing errors never end, so it starts anew then."""


class _Words(dict[str, Word]):
    """Text of a token -> its word, worked out when it is first met."""

    def __init__(self, make: Callable[[str], Word]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> Word:
        if len(self) >= _MOST_WORDS:
            self.clear()
        word = self[text] = self._make(text)
        return word


class Tokenizer:
    """Splits as MedCAT's `spacy_split_all` does; its `BaseTokenizer`.

    A token is a run of `[A-Za-z0-9@]` (with `diacritics` accented Latin letters too) or any one other character,
    but for one space after something that is not white space. White space counts where MedCAT counts tokens.
    """

    def __init__(
        self, *, diacritics: bool, lemma: Callable[[str], str], words: Callable[[str, str], Word]
    ) -> None:
        """Make one; see `creator`."""
        letters = "A-Za-z0-9@" + ("À-ÖØ-öø-ÿ" if diacritics else "")
        self._pattern = re.compile(rf"[{letters}]+|(?<!\S) |[^{letters} ]")
        self._words = _Words(lambda text: words(text, lemma(text.lower())))

    def __call__(self, text: str) -> TokenDocument:
        """Return the tokens of a text."""
        document, words = TokenDocument(text), self._words
        document.tokens = [
            Token(document, words[match[0]], match.start(), index)
            for index, match in enumerate(self._pattern.finditer(text))
        ]
        return document

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
        """Return the span from the first of these tokens to the last."""
        return TokenSpan(tokens[0].document, tokens[0].index, tokens[-1].index + 1)

    def entity_from_tokens_in_doc(self, tokens: list[Token], doc: TokenDocument) -> TokenSpan:
        """Return the document's span of these tokens, or a new one."""
        place = (tokens[0].index, tokens[-1].index)
        found = (
            span
            for span in doc.ner_ents + doc.linked_ents
            if (span.start_index, span.end_index) == place
        )
        return next(found, None) or self.entity_from_tokens(tokens)

    def get_doc_class(self) -> type[TokenDocument]:
        """Return what add-ons register paths with."""
        return TokenDocument

    def get_entity_class(self) -> type[TokenSpan]:
        """Return what add-ons register paths with."""
        return TokenSpan


def creator(
    lemma: Callable[[str], str], stop_words: Callable[[Any], Iterable[str]]
) -> Callable[[Any], Tokenizer]:
    """Return what MedCAT's registry of tokenizers wants: a function of its configuration.

    Args:
        lemma: Lower-case token -> its dictionary form.
        stop_words: Configuration -> words that are no mention when they stand alone.
    """

    def create(config: Any) -> Tokenizer:
        rules, stops = config.preprocessing, frozenset(stop_words(config))
        skipped = re.compile(f"^({'|'.join(sorted(rules.words_to_skip))})$")

        def make(text: str, lemma: str) -> Word:
            lower, stop = text.lower(), text.lower() in stops
            # As MedCAT's TagAndSkipTagger: what does not begin with a letter or digit is punctuation.
            punctuation = not _PLAIN.match(lower) and text not in rules.keep_punct
            skip = punctuation or bool(skipped.match(lower)) or (rules.skip_stopwords and stop)
            norm = lemma if len(lower) >= rules.min_len_normalize else lower
            return Word(text, lemma=lemma, norm=norm, skip=(punctuation, skip), is_stop=stop)

        return Tokenizer(diacritics=config.general.diacritics, lemma=lemma, words=make)

    return create


_PLAIN = re.compile("[a-z0-9]")
_SAME = ("ss", "us", "is", "ous")
_ENDINGS = (
    ("aches", "ache"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"), ("ruses", "rus"),
    ("stases", "stasis"), ("noses", "nosis"), ("roses", "rosis"), ("moses", "mosis"), ("ies", "y"), ("s", ""),
)  # fmt: skip


def singular(word: str) -> str:
    """Return the singular of a lower-case English noun, `headaches` -> `headache`, `biopsies` -> `biopsy`.

    A few rules and no dictionary: a word that is no plural may change too (`diabetes`), which does no harm, since
    names and texts change alike and are also looked up as written. MedCAT leaves words of under five letters alone.
    """
    if not word.endswith("s") or word.endswith(_SAME):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    return word
