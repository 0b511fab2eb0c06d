"""Splits sentences by spaCy: the clinical rules as a component, or a trained pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from mslm_data import _optional
from mslm_data.data.document import Placeholder
from mslm_data.data.documents import Documents, Ranges
from mslm_data.errors import PipelineError
from mslm_data.registry import Help
from mslm_data.segment.cover import cover, on_line
from mslm_data.segment.rules import Heads, sentence_starts
from mslm_data.spacy_pipelines import digest_pipeline, load_pipeline, pieces

COMPONENT = "mslm_clinical_sentences"
"""Name of the component for the rules, after `register`."""

_ASKS = "segmenter 'spacy'"
_NOT_NEEDED = (
    "ner", "entity_linker", "lemmatizer", "tagger", "morphologizer", "attribute_ruler", "textcat",
)  # fmt: skip
_PLACEHOLDERS = "mslm_placeholders"
"""Key in `doc.user_data` for placeholders."""


@dataclass(frozen=True, kw_only=True)
class SpacySentences:
    """Split documents into sentences by a spaCy pipeline, without cutting placeholders or mentions.

    Without `model`, a blank English pipeline runs the rules of `Clinical`, with the same result but
    16 times slower. Use `clinical` unless you extend the pipeline.

    A trained pipeline uses grammar, but ignores the layout of notes. Each placeholder is replaced
    by an unknown name.
    """

    model: Annotated[
        str,
        Help(
            "Trained pipeline with a parser, senter or sentencizer: its name or folder. Long "
            'documents are processed in parts of 100,000 characters. Default: "", the rules.'
        ),
    ] = ""
    heads: Annotated[
        Heads,
        Help(
            'For the rules: "next" makes a section head the start of the next sentence, "own" a '
            "sentence by itself."
        ),
    ] = "next"

    def digest(self) -> str:
        """Return a digest of the trained pipeline; "" for the rules."""
        return digest_pipeline(self.model, _ASKS) if self.model else ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return the sentences of the pipeline, without cutting placeholders or mentions.

        Raises:
            MissingExtraError: spaCy is not installed.
            AnnotateError: The model does not exist.
            PipelineError: The model does not set sentences.
        """
        find_starts = self._by_model if self.model else self._by_rules
        starts = []
        for text, placeholders in documents.texts():
            inside = {at for start, end, _ in placeholders for at in range(start + 1, end)}
            starts.append([at for at in find_starts(text, placeholders) if at not in inside])
        return cover(documents, on_line(documents, starts))

    def _by_rules(self, text: str, placeholders: Sequence[Placeholder]) -> Iterator[int]:
        nlp = _rule_pipeline(self.heads)
        doc = nlp.make_doc(text)
        doc.user_data[_PLACEHOLDERS] = placeholders
        yield from _starts(nlp(doc), 0)

    def _by_model(self, text: str, placeholders: Sequence[Placeholder]) -> Iterator[int]:
        nlp = load_pipeline(self.model, _ASKS, _NOT_NEEDED)

        # The model would split at the marks of placeholders: replace them by a name.
        for start, end, _ in placeholders:
            text = text[:start] + "X" + "x" * (end - start - 1) + text[end:]

        for start, end in pieces(text, placeholders):
            doc = nlp(text[start:end])
            if not doc.has_annotation("SENT_START"):
                raise PipelineError(
                    f"{_ASKS}: the pipeline '{self.model}' sets no sentences; it needs a parser, "
                    "senter or sentencizer, but has "
                    f"{', '.join(nlp.pipe_names) or 'no component'}"
                )
            yield from _starts(doc, start)


def register() -> None:
    """Register the rules as a spaCy component, for `nlp.add_pipe("mslm_clinical_sentences")`.

    The component has the option `heads`, see `Clinical`. Placeholders other than `[** **]` and
    `___` are read from `doc.user_data["mslm_placeholders"]`.

    Raises:
        MissingExtraError: spaCy is not installed.
    """
    language = _optional.load("spacy", wanted_by=_ASKS).Language
    if not language.has_factory(COMPONENT):
        language.factory(
            COMPONENT, default_config={"heads": "next"}, assigns=["doc.sents"], func=_component
        )


def _component(nlp: Any, name: str, heads: str) -> Callable[[Any], Any]:  # noqa: ARG001
    """Create the component. spaCy passes `nlp` and `name` as keywords."""
    if heads not in ("next", "own"):
        raise ValueError(f"{COMPONENT}: expected heads 'next' or 'own', got '{heads}'")
    return _Rules(heads)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Rules:
    """Component that sets sentence starts, and splits tokens with a start inside."""

    heads: Heads

    def __call__(self, doc: Any) -> Any:
        if not len(doc):
            return doc

        # spaCy marks tokens, not characters, so each start must be the start of a token.
        placeholders = doc.user_data.get(_PLACEHOLDERS, ())
        starts = np.array(sentence_starts(doc.text, placeholders, heads=self.heads), np.int64)
        if not np.isin(starts, doc.to_array("IDX")).all():
            _split_tokens(doc, starts)

        # SENT_START is 1 for a start, -1 for other tokens (0 is unknown).
        begins = np.where(np.isin(doc.to_array("IDX"), starts), 1, -1)
        begins[0] = 1
        return doc.from_array(["SENT_START"], begins.astype(np.uint64))


def _split_tokens(doc: Any, starts: Any) -> None:
    """Split tokens with a sentence start inside, such as `pain.Denies`."""
    with doc.retokenize() as retokenizer:
        for token in doc:
            is_inside = (starts > token.idx) & (starts < token.idx + len(token))
            if not is_inside.any():
                continue
            bounds = [0, *(starts[is_inside] - token.idx).tolist(), len(token)]
            parts = [token.text[start:end] for start, end in pairwise(bounds)]
            retokenizer.split(token, parts, heads=[(token, i) for i in range(len(parts))])


@cache
def _rule_pipeline(heads: Heads) -> Any:
    register()
    nlp = _optional.load("spacy", wanted_by=_ASKS).blank("en")
    nlp.max_length = 1 << 40  # spaCy's limit is for the memory of trained components
    nlp.add_pipe(COMPONENT, config={"heads": heads})
    return nlp


def _starts(doc: Any, offset: int) -> Iterator[int]:
    """Yield the first character of each sentence, after leading white space."""
    for sentence in doc.sents:
        text = sentence.text
        yield offset + sentence.start_char + len(text) - len(text.lstrip())
