"""A tokenizer for MedCAT that splits like its spaCy tokenizer, without spaCy.

MedCAT 2.9 selects a tokenizer by name (`config.general.nlp.provider`). Both of its own have
problems: `spacy` is slow because of extension attributes; `regex` looks up tokens linearly, and
lets nested mentions through (an inclusive end index in an exclusive slice).

The results of MedCAT's tagger and normaliser depend on the text of a token only. They are computed
here, once for each distinct token, and both components are removed from the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from mslm_data.annotate.medcat.token_objects import Token, TokenDocument, TokenSpan, Word

WORDS = "mslm_data.words"
"""Provider that looks up tokens as written, like spaCy's tokenizer without lemmatizer."""

LEMMAS = "mslm_data.lemmas"
"""Provider that also looks up plural nouns as singulars, in names and in texts."""

_MAX_WORDS = 1 << 20
"""Maximum number of cached tokens. A full cache is cleared: new typing errors would fill it."""


class _Words(dict[str, Word]):
    """Cache of token -> `Word`."""

    def __init__(self, make: Callable[[str], Word]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, token: str) -> Word:
        if len(self) >= _MAX_WORDS:
            self.clear()
        # A token with a space has the same word as the token without.
        text = token.removesuffix(" ")
        word = self[text] if 0 < len(text) < len(token) else self._make(token)
        self[token] = word
        return word


class MedCatTokenizer:
    """The part of MedCAT's `BaseTokenizer` that annotation uses; splits like `spacy_split_all`.

    A token is a run of `[A-Za-z0-9@]` (and of accented Latin letters with `diacritics`), or any
    other single character. A single space after a token is not a token. All other white space is,
    since MedCAT counts tokens.
    """

    def __init__(
        self, *, diacritics: bool, lemma: Callable[[str], str], words: Callable[[str, str], Word]
    ) -> None:
        """Compile the pattern.

        Args:
            diacritics: Whether accented Latin letters belong to words.
            lemma: Function from lower-case token to dictionary form.
            words: Function from token and dictionary form to `Word`.
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
        """Split a text into tokens, each with a following space, so that no character is lost."""
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


def factory(
    lemma: Callable[[str], str], stop_words: Callable[[Any], Iterable[str]]
) -> Callable[[Any], MedCatTokenizer]:
    """Return a tokenizer factory for the registry of MedCAT.

    Args:
        lemma: Function from lower-case token to dictionary form.
        stop_words: Function from configuration to stop words, which are no mentions by themselves.
    """

    def create(config: Any) -> MedCatTokenizer:
        rules = config.preprocessing
        stops = frozenset(stop_words(config))
        skipped = re.compile(f"^({'|'.join(sorted(rules.words_to_skip))})$")

        def make(text: str, lemma: str) -> Word:
            lower = text.lower()
            is_stop = lower in stops

            # Like TagAndSkipTagger of MedCAT: a token that does not start with a letter or digit
            # is punctuation.
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
