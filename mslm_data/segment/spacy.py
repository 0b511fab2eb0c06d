"""Sentences by spaCy: the clinical rules as a component of a pipeline, or the boundaries of a trained one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from mslm_data import _optional
from mslm_data.data.document import Document, Sentence
from mslm_data.errors import PipelineError
from mslm_data.segment.presplit import cover
from mslm_data.segment.rules import Heads, sentence_starts
from mslm_data.spacy_pipelines import digest_of, load_pipeline, pieces

COMPONENT = "mslm_clinical_sentences"
"""The name of the rules in a spaCy pipeline, after `register`."""

_ASKS = "segmenter 'spacy'"
_NOT_NEEDED = (
    "ner",
    "entity_linker",
    "lemmatizer",
    "tagger",
    "morphologizer",
    "attribute_ruler",
    "textcat",
)
_PLACEHOLDERS = "mslm_placeholders"


@dataclass(frozen=True, kw_only=True)
class SpacySentences:
    """Sentences by a spaCy pipeline; placeholders are never cut, and mentions never are.

    Without a model a blank English pipeline runs the rules of "clinical", with the same boundaries (a test holds it)
    at a fraction of the speed: use "clinical" unless you want to put more into the pipeline. A trained pipeline knows
    grammar and no layout: it was not measured here (none can be shipped), see `Clinical` for spaCy's sentencizer. It
    sees a placeholder as one unknown name.

    Attributes:
        model: A trained pipeline, by name or folder, whose parser, senter or sentencizer says where sentences begin;
            "" for the rules. It sees 100,000 characters of a document at a time.
        heads: For the rules; see `Clinical`.
    """

    model: str = ""
    heads: Heads = "next"

    def digest(self) -> str:
        """Return a digest of the model; "" for the rules."""
        return digest_of(self.model, _ASKS) if self.model else ""

    def sentences(self, document: Document) -> list[Sentence]:
        """See `Segmenter`.

        Raises:
            MissingExtraError: spaCy is not installed.
            AnnotateError: There is no such model.
            PipelineError: The model does not tell sentences.
        """
        starts = self._by_model(document) if self.model else self._by_rules(document)
        inside = {at for start, end, _ in document.placeholders for at in range(start + 1, end)}
        return cover(document, [Sentence(start, start) for start in starts if start not in inside])

    def _by_rules(self, document: Document) -> Iterator[int]:
        nlp = _rule_pipeline(self.heads)
        doc = nlp.make_doc(document.text)
        doc.user_data[_PLACEHOLDERS] = document.placeholders
        yield from _starts(nlp(doc), 0)

    def _by_model(self, document: Document) -> Iterator[int]:
        nlp = load_pipeline(self.model, _ASKS, _NOT_NEEDED)
        text = document.text
        for (
            start,
            end,
            _,
        ) in document.placeholders:  # a name it does not know, in place of marks that it splits at
            text = text[:start] + "X" + "x" * (end - start - 1) + text[end:]
        for start, end in pieces(text, document.placeholders):
            doc = nlp(text[start:end])
            if not doc.has_annotation("SENT_START"):
                raise PipelineError(
                    f"{_ASKS}: expected a model that tells sentences (parser, senter or sentencizer), got "
                    f"'{self.model}' with {', '.join(nlp.pipe_names) or 'no component'}"
                )
            yield from _starts(doc, start)


def register() -> None:
    """Make the rules known to spaCy, so that `nlp.add_pipe("mslm_clinical_sentences")` works.

    Its option is `heads`. Placeholders other than `[** **]` are taken from `doc.user_data["mslm_placeholders"]`.

    Raises:
        MissingExtraError: spaCy is not installed.
    """
    language = _optional.load("spacy", wanted_by=_ASKS).Language
    if not language.has_factory(COMPONENT):
        language.factory(
            COMPONENT, default_config={"heads": "next"}, assigns=["doc.sents"], func=_component
        )


def _component(nlp: Any, name: str, heads: str) -> Callable[[Any], Any]:  # noqa: ARG001  # spaCy passes both by name
    if heads not in ("next", "own"):
        raise ValueError(f"{COMPONENT}: expected heads 'next' or 'own', got '{heads}'")
    return _Rules(heads)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Rules:
    """The component: sets where sentences begin, and splits a token that spaCy put across a boundary."""

    heads: Heads

    def __call__(self, doc: Any) -> Any:
        starts = np.array(
            sentence_starts(doc.text, doc.user_data.get(_PLACEHOLDERS, ()), heads=self.heads),
            np.int64,
        )
        if not len(doc):
            return doc
        if not np.isin(starts, doc.to_array("IDX")).all():
            _split_tokens(doc, starts)
        begins = np.where(np.isin(doc.to_array("IDX"), starts), 1, -1)
        begins[0] = 1
        return doc.from_array(["SENT_START"], begins.astype(np.uint64))


def _split_tokens(doc: Any, starts: Any) -> None:
    """Split tokens that a sentence begins inside of, such as `pain.Denies`."""
    with doc.retokenize() as retokenizer:
        for token in doc:
            inside = starts[(starts > token.idx) & (starts < token.idx + len(token))] - token.idx
            if len(inside):
                bounds = [0, *inside.tolist(), len(token)]
                parts = [token.text[a:b] for a, b in pairwise(bounds)]
                retokenizer.split(token, parts, heads=[(token, i) for i in range(len(parts))])


@cache
def _rule_pipeline(heads: Heads) -> Any:
    register()
    nlp = _optional.load("spacy", wanted_by=_ASKS).blank("en")
    nlp.max_length = 1 << 40  # spaCy's limit is for the memory of trained components; there is none
    nlp.add_pipe(COMPONENT, config={"heads": heads})
    return nlp


def _starts(doc: Any, offset: int) -> Iterator[int]:
    """Give the first character of each sentence that is not white space."""
    for sentence in doc.sents:
        text = sentence.text
        yield offset + sentence.start_char + len(text) - len(text.lstrip())
