"""Lightweight tokens, spans and documents for MedCAT 2.9.

They implement what annotation uses of the protocols in `medcat.tokenizing.tokens`, which define the
names of members: neither training nor add-ons.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter


class Word:
    """Properties of a token that do not depend on its position, named as in MedCAT."""

    __slots__ = (
        "is_digit", "is_punctuation", "is_stop", "is_upper", "lemma", "lower", "norm", "text",
        "text_versions", "to_skip",
    )  # fmt: skip

    def __init__(
        self,
        text: str,
        *,
        lemma: str,
        norm: str,
        is_punctuation: bool,
        to_skip: bool,
        is_stop: bool,
    ) -> None:
        """Compute the other properties.

        Args:
            text: Text of the token.
            lemma: Dictionary form.
            norm: Normalised form, looked up first.
            is_punctuation: Whether the token is punctuation.
            to_skip: Whether the token is ignored between the words of a name.
            is_stop: Whether the token is a stop word, which is no mention by itself.
        """
        self.text = text
        self.lower = text.lower()
        self.lemma = lemma
        self.norm = norm
        self.is_punctuation = is_punctuation
        self.to_skip = to_skip
        self.is_stop = is_stop
        self.is_upper = text.isupper()
        self.is_digit = text.isdigit()
        self.text_versions = [norm, self.lower] if norm != self.lower else [norm]


class Token:
    """A token at a position: MedCAT's `BaseToken` and `MutableToken`.

    Attributes:
        document: Document of the token.
        word: Properties, shared by tokens with the same text.
        char_index: First character.
        index: Index of the token in the document.
    """

    __slots__ = ("char_index", "document", "index", "word")

    def __init__(self, document: TokenDocument, word: Word, char_index: int, index: int) -> None:
        self.document = document
        self.word = word
        self.char_index = char_index
        self.index = index

    def _with_space(self) -> str:
        end = self.char_index + len(self.word.text)
        before_space = self.document.text[end : end + 1] == " "
        if before_space and not self.word.text.isspace():
            return self.word.text + " "
        return self.word.text

    base = property(lambda self: self)
    tag = property(lambda self: None)  # noqa: ARG005
    text = property(attrgetter("word.text"))
    lower = property(attrgetter("word.lower"))
    lemma = property(attrgetter("word.lemma"))
    text_versions = property(attrgetter("word.text_versions"))
    is_upper = property(attrgetter("word.is_upper"))
    is_stop = property(attrgetter("word.is_stop"))
    is_digit = property(attrgetter("word.is_digit"))
    text_with_ws = property(_with_space)
    is_punctuation = property(attrgetter("word.is_punctuation"))
    to_skip = property(attrgetter("word.to_skip"))
    norm = property(attrgetter("word.norm"))


class TokenSpan:
    """A range of tokens of a document: MedCAT's `BaseEntity` and `MutableEntity`.

    Attributes:
        start_index: First token.
        end_index: Last token, inclusive as in the spaCy entities of MedCAT.
        start_char_index: First character.
        end_char_index: Character after the last.
    """

    base = property(lambda self: self)

    def __init__(self, document: TokenDocument, start: int, stop: int) -> None:
        """Make the span of tokens `[start, stop)`."""
        self.document = document
        self.tokens = document.tokens[start:stop]
        self.start_index = start
        self.end_index = start + len(self.tokens) - 1

        self.start_char_index = 0
        self.end_char_index = 0
        if self.tokens:
            last = self.tokens[-1]
            self.start_char_index = self.tokens[0].char_index
            self.end_char_index = last.char_index + len(last.word.text)
        self.text = document.text[self.start_char_index : self.end_char_index]

        # Set by the linker of MedCAT.
        self.label = -1
        self.link_candidates: list[str] = []
        self.context_similarity: float = 0.0
        self.confidence: float = 0.0
        self.cui = ""
        self.id = -1
        self.detected_name = ""

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)


class TokenDocument:
    """A text with its tokens: MedCAT's `BaseDocument` and `MutableDocument`."""

    base = property(lambda self: self)

    def __init__(self, text: str) -> None:
        """Make a document whose tokens are still to be set."""
        self.text = text
        self.tokens: list[Token] = []
        self.ner_ents: list[TokenSpan] = []
        self.linked_ents: list[TokenSpan] = []

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int | slice) -> Token | TokenSpan:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self.tokens))
            return TokenSpan(self, start, stop)
        return self.tokens[index]

    def get_tokens(self, start_index: int, end_index: int) -> list[Token]:
        """Return the tokens that begin at characters `start_index` to `end_index`, inclusive."""
        return [token for token in self.tokens if start_index <= token.char_index <= end_index]
