"""Finds the concepts that MedCAT's components find, without an object per token.

MedCAT's recogniser asks its database about every token, and its linker about every name, though the
answer for a name is the same wherever it stands. Here each answer is kept, by the characters of the
token, so that a text takes a look at a table for each token. Only names whose concept their context
decides are given to MedCAT's linker.

A model with other components, or with settings for them that are rarely used, is left to MedCAT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.tokenizer import MedCatTokenizer

_MAX_KNOWN = 1 << 20
"""Answers that are kept; typing errors never end, so all of them are then forgotten."""


class FoundConcept(NamedTuple):
    """A concept found in a text.

    Attributes:
        start: First character.
        end: Character after the last.
        concept: The concept.
        similarity: How sure MedCAT is of it.
        entity: MedCAT's own object, where there is one.
    """

    start: int
    end: int
    concept: str
    similarity: float
    entity: Any = None


class _Name(NamedTuple):
    """A name that counts as a mention.

    Attributes:
        text: The name, as the database has it.
        concepts: What it can stand for.
        is_clear: Whether it stands for the first of these in any context.
    """

    text: str
    concepts: tuple[str, ...]
    is_clear: bool


class _Beginning(dict[str, "_Beginning | None"]):
    """A prefix of names, as a trie node: next token -> longer prefix.

    An item is None where no name begins so, and `_SKIPPED` where the token counts for nothing.

    Attributes:
        text: The words.
        name: The name that they are, None if they are not one.
    """

    __slots__ = ("_ask", "name", "text")

    def __init__(
        self, text: str, name: _Name | None, ask: Callable[[str, str], _Beginning | None]
    ) -> None:
        super().__init__()
        self.text = text
        self.name = name
        self._ask = ask

    def __missing__(self, token: str) -> _Beginning | None:
        longer = self._ask(self.text, token)
        self[token] = longer
        return longer


_SKIPPED = _Beginning("", None, lambda words, token: None)  # noqa: ARG005


class _First(NamedTuple):
    """A token that begins names.

    Attributes:
        beginning: The token as the beginning of names.
        alone: The name that it is alone, None if it is not one.
    """

    beginning: _Beginning
    alone: _Name | None


class _Firsts(dict[str, "_First | None"]):
    """Token -> the names that it begins; None if there are none."""

    def __init__(self, ask: Callable[[str], _First | None]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, token: str) -> _First | None:
        first = self._ask(token)
        self[token] = first
        return first


def make_finder(cat: Any) -> NameFinder | None:
    """Return a finder equivalent to a model; None if only MedCAT itself can find its concepts.

    Args:
        cat: MedCAT's `CAT`, whose settings no longer change.
    """
    ner = import_module("medcat.components.ner.vocab_based_ner").NER
    linker = import_module("medcat.components.linking.context_based_linker").Linker
    components = list(cat.pipe.iter_all_components())
    has_others = [type(component) for component in components] != [ner, linker]
    if has_others or type(cat.pipe.tokenizer) is not MedCatTokenizer:
        return None

    config = cat.config
    linking = config.components.linking
    is_usual = (
        config.general.show_nested_entities
        and not config.components.ner.check_upper_case_names
        and not config.components.ner.try_reverse_word_order
        and not linking.train
        and not linking.always_calculate_similarity
        and linking.similarity_threshold_type == "static"
        and linking.similarity_threshold <= 1
        and "" not in cat.cdb.name2info
    )
    return NameFinder(cat, components[1]) if is_usual else None


def found_by(document: Any) -> list[FoundConcept]:
    """Return the concepts in a document of MedCAT, which is None for an empty text."""
    entities = document.linked_ents if document else ()
    return [
        FoundConcept(
            entity.base.start_char_index,
            entity.base.end_char_index,
            entity.cui,
            entity.context_similarity,
            entity,
        )
        for entity in entities
    ]


class NameFinder:
    """Find names of a concept database in texts."""

    def __init__(self, cat: Any, linker: Any) -> None:
        """Begin with no answers.

        Args:
            cat: A model as `make_finder` takes it.
            linker: Its component that decides by context.
        """
        components = cat.config.components
        self._tokenizer: MedCatTokenizer = cat.pipe.tokenizer
        self._linker = linker
        self._cdb = cat.cdb
        self._separator = cat.config.general.separator
        self._ner = components.ner
        self._linking = components.linking
        self._by_context = import_module("medcat.utils.defaults").StatusTypes.DO_DISAMBUGATION

        self._firsts = _Firsts(self._first)
        self._beginnings: dict[str, _Beginning] = {}
        self._num_known = 0

    def find(self, text: str) -> list[FoundConcept]:
        """Return the concepts of a text, including nested ones."""
        if self._num_known > _MAX_KNOWN:
            self._firsts.clear()
            self._beginnings.clear()
            self._num_known = 0

        tokens = self._tokenizer.split(text)
        names = self._names(tokens)
        if not names:
            return []

        # A name may end before a space, which its last token has with it.
        starts = list(accumulate(map(len, tokens), initial=0))
        found = []
        unclear = []
        for first, last, name in names:
            if name.is_clear:
                end = starts[last] + len(self._tokenizer.word(tokens[last]).text)
                found.append(FoundConcept(starts[first], end, name.concepts[0], 1.0))
            else:
                unclear.append((first, last, name))
        if unclear:
            found += self._linked(text, unclear)
        return found

    def _names(self, tokens: Sequence[str]) -> list[tuple[int, int, _Name]]:
        """Return the first token, last token and name of each mention."""
        max_skipped = self._ner.max_skip_tokens
        names = []
        for first, begins in enumerate(map(self._firsts.__getitem__, tokens)):
            if begins is None:
                continue
            beginning, alone = begins
            if alone is not None:
                names.append((first, first, alone))

            # Go on for as long as some name begins with these tokens.
            skipped = 0
            for last in range(first + 1, len(tokens)):
                longer = beginning[tokens[last]]
                if longer is None:
                    break
                if longer is _SKIPPED:
                    skipped += 1
                    if skipped > max_skipped:
                        break
                    continue

                beginning = longer
                skipped = 0
                if longer.name is not None:
                    names.append((first, last, longer.name))
        return names

    def _linked(self, text: str, names: Sequence[tuple[int, int, _Name]]) -> list[FoundConcept]:
        """Return the concepts that MedCAT's linker assigns to names by context."""
        document = self._tokenizer(text)
        for first, last, name in names:
            entity = self._tokenizer.create_entity(document, first, last + 1, "concept")
            entity.detected_name = name.text
            entity.link_candidates = list(name.concepts)
            document.ner_ents.append(entity)
        return found_by(self._linker(document))

    def _first(self, token: str) -> _First | None:
        """Return the names that a token begins, or None."""
        self._num_known += 1
        word = self._tokenizer.word(token)
        if word.to_skip:
            return None
        for version in word.text_versions:
            if self._cdb.has_subname(version):
                is_name = not word.is_stop
                alone = self._name(version, in_capitals=word.is_upper) if is_name else None
                return _First(self._beginning(version), alone)
        return None

    def _longer(self, words: str, token: str) -> _Beginning | None:
        """Extend a prefix of names by one token."""
        self._num_known += 1
        word = self._tokenizer.word(token)
        if word.to_skip:
            return _SKIPPED
        for version in word.text_versions:
            longer = words + self._separator + version
            if self._cdb.has_subname(longer):
                return self._beginning(longer)
        return None

    def _beginning(self, words: str) -> _Beginning:
        if words not in self._beginnings:
            name = self._name(words, in_capitals=False)
            self._beginnings[words] = _Beginning(words, name, self._longer)
        return self._beginnings[words]

    def _name(self, text: str, *, in_capitals: bool) -> _Name | None:
        """Return the database's name for a text, None if it cannot be a mention.

        Args:
            text: Words.
            in_capitals: Whether they are one word in capitals, which may be short.
        """
        info = self._cdb.name2info.get(text)
        is_short = len(text) < self._ner.upper_case_limit_len and not in_capitals
        if info is None or is_short or len(text) < self._ner.min_name_len:
            return None

        status = info["per_cui_status"]
        concepts = tuple(status)
        is_clear = (
            len(concepts) == 1
            and len(text) >= self._linking.disamb_length_limit
            and status[concepts[0]] not in self._by_context
        )
        if not concepts or (is_clear and not self._linking.filters.check_filters(concepts[0])):
            return None
        return _Name(text, concepts, is_clear)
