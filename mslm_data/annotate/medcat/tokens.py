"""Tokens, spans and documents for MedCAT 2.9, as objects that cost little.

The names of their members are those of MedCAT's protocols in `medcat.tokenizing.tokens`.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, ClassVar


class Word:
    """What is true of a token wherever it stands; the names are MedCAT's."""

    __slots__ = (
        "is_digit", "is_punctuation", "is_stop", "is_upper", "lemma", "lower", "norm", "text", "text_versions",
        "to_skip",
    )  # fmt: skip

    def __init__(
        self, text: str, *, lemma: str, norm: str, skip: tuple[bool, bool], is_stop: bool
    ) -> None:
        """Make one.

        Args:
            text: Its characters.
            lemma: Its dictionary form.
            norm: What is looked up first.
            skip: Whether it is punctuation, and whether names may have it between their words.
            is_stop: Whether it is no mention when it stands alone.
        """
        self.text = text
        self.lower = text.lower()
        self.lemma = lemma
        self.norm = norm
        self.is_punctuation, self.to_skip = skip
        self.is_stop = is_stop
        self.is_upper = text.isupper()
        self.is_digit = text.isdigit()
        self.text_versions = [norm, self.lower] if norm != self.lower else [norm]


class Token:
    """A word at a place: MedCAT's `BaseToken` and `MutableToken` in one.

    Attributes:
        document: What it is a token of.
        word: What it says; a component that says something else of it gives it a word of its own.
        char_index: Its first character.
        index: Its number in the document.
    """

    __slots__ = ("char_index", "document", "index", "word")

    def __init__(self, document: TokenDocument, word: Word, char_index: int, index: int) -> None:
        self.document = document
        self.word = word
        self.char_index = char_index
        self.index = index

    def _with_space(self) -> str:
        end = self.char_index + len(self.word.text)
        space = self.document.text[end : end + 1] == " " and not self.word.text.isspace()
        return self.word.text + (" " if space else "")

    def _change(self, **changes: Any) -> None:
        word = self.word
        now = {name: getattr(word, name) for name in ("is_punctuation", "to_skip", "norm")}
        new = now | changes
        if new != now:
            skip = (bool(new["is_punctuation"]), bool(new["to_skip"]))
            self.word = Word(
                word.text, lemma=word.lemma, norm=str(new["norm"]), skip=skip, is_stop=word.is_stop
            )

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
    is_punctuation = property(
        attrgetter("word.is_punctuation"), lambda self, value: self._change(is_punctuation=value)
    )
    to_skip = property(attrgetter("word.to_skip"), lambda self, value: self._change(to_skip=value))
    norm = property(attrgetter("word.norm"), lambda self, value: self._change(norm=value))


class _Extras:
    """What add-ons (MetaCAT) keep with documents and spans, under names that they register with the class."""

    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls.defaults = {}

    @classmethod
    def register_addon_path(cls, path: str, def_val: Any = None, force: bool = True) -> None:
        """Take a name and what it stands for where nothing was kept."""
        if force or path not in cls.defaults:
            cls.defaults[path] = def_val

    def _place(self) -> tuple[dict[Any, Any], tuple[int, ...]]:
        """Return where values are kept, and what is this object's there."""
        raise NotImplementedError

    def set_addon_data(self, path: str, val: Any) -> None:
        """Keep a value."""
        kept, key = self._place()
        kept[(path, *key)] = val

    def get_addon_data(self, path: str) -> Any:
        """Return what was kept."""
        kept, key = self._place()
        return kept.get((path, *key), self.defaults.get(path))

    def has_addon_data(self, path: str) -> bool:
        """Return whether something was kept."""
        return bool(self.get_addon_data(path))

    def get_available_addon_paths(self) -> list[str]:
        """Return the names under which something was kept."""
        return [path for path in self.defaults if self.has_addon_data(path)]


class TokenSpan(_Extras):
    """Tokens of a document; MedCAT's `BaseEntity` and `MutableEntity` in one.

    Attributes:
        start_index: The first token.
        end_index: The last, inclusive as in MedCAT's spaCy entities.
        start_char_index: The first character.
        end_char_index: The one after the last.
    """

    base = property(lambda self: self)

    def __init__(self, document: TokenDocument, start: int, stop: int) -> None:
        """Make the span of tokens `[start, stop)`."""
        self.document = document
        self.tokens = document.tokens[start:stop]
        self.start_index = start
        self.end_index = start + len(self.tokens) - 1
        self.start_char_index = self.tokens[0].char_index if self.tokens else 0
        self.end_char_index = (
            self.tokens[-1].char_index + len(self.tokens[-1].word.text) if self.tokens else 0
        )
        self.text = document.text[self.start_char_index : self.end_char_index]
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

    def _place(self) -> tuple[dict[Any, Any], tuple[int, ...]]:
        return self.document.extras, (self.start_index, self.end_index)


class TokenDocument(_Extras):
    """A text and its tokens; MedCAT's `BaseDocument` and `MutableDocument` in one."""

    base = property(lambda self: self)

    def __init__(self, text: str) -> None:
        """Make one without tokens."""
        self.text = text
        self.tokens: list[Token] = []
        self.ner_ents: list[TokenSpan] = []
        self.linked_ents: list[TokenSpan] = []
        self.extras: dict[Any, Any] = {}

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
        """Return the tokens that begin at characters `start_index` to `end_index`, both inclusive."""
        return [token for token in self.tokens if start_index <= token.char_index <= end_index]

    def isupper(self) -> bool:
        """Return whether the text is in capitals."""
        return self.text.isupper()

    def _place(self) -> tuple[dict[Any, Any], tuple[int, ...]]:
        return self.extras, ()
