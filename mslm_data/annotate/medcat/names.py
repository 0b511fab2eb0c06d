"""Finds the same concepts as the components of MedCAT, without an object per token.

MedCAT's recogniser queries its database for every token, and its linker for every name, although
results depend on the text of the name only. `NameFinder` caches these results in a trie that is
built on demand, with a dictionary lookup per token. Only ambiguous names, which depend on context,
are passed to the linker of MedCAT.

Models with other components or unusual settings use MedCAT itself, see `make_finder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.tokenizer import MedCatTokenizer

_MAX_KNOWN = 1 << 20
"""Maximum number of cached results. A full cache is cleared: new typing errors would fill it."""


class FoundConcept(NamedTuple):
    """A concept found in a text.

    Attributes:
        start: First character.
        end: Character after the last.
        concept: Concept identifier.
        similarity: Confidence of MedCAT.
    """

    start: int
    end: int
    concept: str
    similarity: float


class _Name(NamedTuple):
    """A name of the database that can be a mention.

    Attributes:
        text: Name in the database.
        concepts: Possible concepts.
        is_clear: Whether the name has a single concept, in any context.
    """

    text: str
    concepts: tuple[str, ...]
    is_clear: bool


class _Prefix(dict[str, "_Prefix | None"]):
    """A trie node, for a prefix of names: next token -> node of the longer prefix.

    Items are computed on first access. An item is None if no name has the longer prefix, and
    `_SKIPPED` for a token that is ignored inside names, such as punctuation.

    Attributes:
        text: The prefix.
        name: Name equal to the prefix; None if there is none.
    """

    __slots__ = ("_extend", "name", "text")

    def __init__(
        self, text: str, name: _Name | None, extend: Callable[[str, str], _Prefix | None]
    ) -> None:
        super().__init__()
        self.text = text
        self.name = name
        self._extend = extend

    def __missing__(self, token: str) -> _Prefix | None:
        longer = self._extend(self.text, token)
        self[token] = longer
        return longer


_SKIPPED = _Prefix("", None, lambda words, token: None)  # noqa: ARG005


def make_finder(cat: Any) -> NameFinder | None:
    """Return a finder equivalent to a model; None for other components or unusual settings.

    Args:
        cat: `CAT` of MedCAT with its final settings.
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


def read_concepts(document: Any) -> list[FoundConcept]:
    """Return the linked concepts of a MedCAT document, which is None for an empty text."""
    entities = document.linked_ents if document else ()
    return [
        FoundConcept(
            entity.base.start_char_index,
            entity.base.end_char_index,
            entity.cui,
            entity.context_similarity,
        )
        for entity in entities
    ]


class NameFinder:
    """Finder of the names of a concept database in texts."""

    def __init__(self, cat: Any, linker: Any) -> None:
        """Start with an empty cache.

        Args:
            cat: `CAT` of MedCAT, see `make_finder`.
            linker: Component that links ambiguous names by context.
        """
        components = cat.config.components
        self._tokenizer: MedCatTokenizer = cat.pipe.tokenizer
        self._linker = linker
        self._cdb = cat.cdb
        self._separator = cat.config.general.separator
        self._ner = components.ner
        self._linking = components.linking
        self._by_context = import_module("medcat.utils.defaults").StatusTypes.DO_DISAMBUGATION

        self._root = _Prefix("", None, self._first)
        self._num_known = 0

    def find(self, text: str) -> list[FoundConcept]:
        """Return the concepts of a text, including nested ones."""
        if self._num_known > _MAX_KNOWN:
            self._root.clear()
            self._num_known = 0

        tokens = self._tokenizer.split(text)
        names = self._names(tokens)
        if not names:
            return []

        # Tokens include a following space, which is not part of the name.
        starts = list(accumulate(map(len, tokens), initial=0))
        concepts = []
        ambiguous = []
        for first, last, name in names:
            if name.is_clear:
                end = starts[last] + len(self._tokenizer.word(tokens[last]).text)
                concepts.append(FoundConcept(starts[first], end, name.concepts[0], 1.0))
            else:
                ambiguous.append((first, last, name))
        if ambiguous:
            concepts += self._link_by_context(text, ambiguous)
        return concepts

    def _names(self, tokens: Sequence[str]) -> list[tuple[int, int, _Name]]:
        """Return first token, last token and name of each mention."""
        max_skipped = self._ner.max_skip_tokens
        names = []
        for first, begun in enumerate(map(self._root.__getitem__, tokens)):
            if begun is None:
                continue
            if begun.name is not None:
                names.append((first, first, begun.name))

            # Walk the trie while some name has these tokens as prefix.
            prefix = begun
            skipped = 0
            for last in range(first + 1, len(tokens)):
                longer = prefix[tokens[last]]
                if longer is None:
                    break
                if longer is _SKIPPED:
                    skipped += 1
                    if skipped > max_skipped:
                        break
                    continue

                prefix = longer
                skipped = 0
                if longer.name is not None:
                    names.append((first, last, longer.name))
        return names

    def _link_by_context(
        self, text: str, names: Sequence[tuple[int, int, _Name]]
    ) -> list[FoundConcept]:
        """Return the concepts assigned to names by the linker of MedCAT."""
        document = self._tokenizer(text)
        for first, last, name in names:
            entity = self._tokenizer.create_entity(document, first, last + 1, "concept")
            entity.detected_name = name.text
            entity.link_candidates = list(name.concepts)
            document.ner_ents.append(entity)
        return read_concepts(self._linker(document))

    def _first(self, _: str, token: str) -> _Prefix | None:
        """Return the node for the first token of names; None if no name begins with it."""
        self._num_known += 1
        word = self._tokenizer.word(token)
        if word.to_skip:
            return None
        # MedCAT uses the first version of a word that is in the database.
        for version in word.text_versions:
            if self._cdb.has_subname(version):
                is_name = not word.is_stop
                name = self._name(version, in_capitals=word.is_upper) if is_name else None
                return _Prefix(version, name, self._longer)
        return None

    def _longer(self, words: str, token: str) -> _Prefix | None:
        """Return the node for a prefix extended by a token; None if no name has it."""
        self._num_known += 1
        word = self._tokenizer.word(token)
        if word.to_skip:
            return _SKIPPED
        for version in word.text_versions:
            longer = words + self._separator + version
            if self._cdb.has_subname(longer):
                return _Prefix(longer, self._name(longer, in_capitals=False), self._longer)
        return None

    def _name(self, text: str, *, in_capitals: bool) -> _Name | None:
        """Return the name for a text; None if the text cannot be a mention.

        Args:
            text: Words of the name.
            in_capitals: Whether the text is a single word in capitals, which may be short.
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
