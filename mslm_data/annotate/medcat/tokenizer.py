"""A tokenizer for MedCAT that splits like its spaCy tokenizer, without spaCy.

MedCAT 2.9 selects a tokenizer by name (`config.general.nlp.provider`). Both of its own have
problems: `spacy` is slow because of extension attributes; `regex` looks up tokens linearly, and
lets nested mentions through (an inclusive end index in an exclusive slice).

The results of MedCAT's tagger and normaliser depend on the text of a token only. They are computed
here, once for each distinct token, and both components are removed from the pipeline.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from mslm_data import _optional
from mslm_data.annotate.medcat.token_objects import Token, TokenDocument, TokenSpan, Word

WORDS = "mslm_data.words"
"""Provider that looks up tokens as written, like spaCy's tokenizer without lemmatizer."""

LEMMAS = "mslm_data.lemmas"
"""Provider that also looks up plural nouns as singulars, in names and in texts."""

_BEGINS_PLAIN = re.compile("[a-z0-9]")

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

    def __init__(self, config: Any, lemma: Callable[[str], str]) -> None:
        """Compile the patterns of a configuration.

        Args:
            config: Configuration of MedCAT.
            lemma: Function from lower-case token to dictionary form.
        """
        self._rules = config.preprocessing
        self._lemma = lemma
        self._stop_words = frozenset(_stop_words(config))
        self._skipped = re.compile(f"^({'|'.join(sorted(self._rules.words_to_skip))})$")

        letters = "A-Za-z0-9@" + ("À-ÖØ-öø-ÿ" if config.general.diacritics else "")
        self._pattern = re.compile(rf"[{letters}]+ ?|[^{letters}\s] ?|\s")
        self._words = _Words(self._make_word)

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

    def _make_word(self, text: str) -> Word:
        lower = text.lower()
        is_stop = lower in self._stop_words

        # Like TagAndSkipTagger of MedCAT: a token that does not start with a letter or digit
        # is punctuation.
        is_punctuation = not _BEGINS_PLAIN.match(lower) and text not in self._rules.keep_punct
        to_skip = (
            is_punctuation
            or bool(self._skipped.match(lower))
            or bool(self._rules.skip_stopwords and is_stop)
        )

        lemma = self._lemma(lower)
        return Word(
            text,
            lemma=lemma,
            norm=lemma if len(lower) >= self._rules.min_len_normalize else lower,
            is_punctuation=is_punctuation,
            to_skip=to_skip,
            is_stop=is_stop,
        )


def factory(lemma: Callable[[str], str]) -> Callable[[Any], MedCatTokenizer]:
    """Return a function from configuration to tokenizer, for the registry of MedCAT.

    Args:
        lemma: Function from lower-case token to dictionary form.
    """

    def create(config: Any) -> MedCatTokenizer:
        return MedCatTokenizer(config, lemma)

    return create


def _stop_words(config: Any) -> set[str]:
    """Return the stop words of a MedCAT configuration, or else spaCy's for its language."""
    if config.preprocessing.stopwords is not None:
        return set(config.preprocessing.stopwords)

    # A pack has its spaCy model in a folder `tokenizer_internals_LANGUAGE_…`.
    folder = os.path.basename(config.general.nlp.modelname)
    language, _, _ = folder.removeprefix("tokenizer_internals_").partition("_")
    return _spacy_stop_words(language) or _spacy_stop_words("en")


def _spacy_stop_words(language: str) -> set[str]:
    """Return spaCy's stop words for a language; empty if there are none."""
    # Run only the file of stop words: importing spaCy takes 2 s per process, and 5 s with torch.
    package = importlib.util.find_spec("spacy")
    if package is None or package.origin is None:
        _optional.load("spacy", wanted_by="annotator 'medcat'")
        return set()

    path = Path(package.origin).parent / "lang" / language / "stop_words.py"
    spec = importlib.util.spec_from_file_location(f"_stop_words_{language}", path)
    if not language.isalpha() or not path.is_file() or spec is None or spec.loader is None:
        return set()

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.STOP_WORDS)
