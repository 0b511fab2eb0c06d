"""Annotates with a spaCy pipeline, trained or with an entity ruler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.registry import Options
from mslm_data.spacy_pipelines import PIECE, digest_pipeline, load_pipeline, pieces


class SpacyNer(Options, frozen=True, kw_only=True):
    """Find the entities (`doc.ents`) of a spaCy pipeline.

    Mentions have the labels of the pipeline, and the concept of its entity linker or entity ruler
    (`kb_id_`, or else `ent_id_`). spaCy's entities have no confidence, so all scores are 1.
    """

    model: Annotated[
        str,
        Meta(
            description="Name of an installed pipeline, such as `en_core_sci_sm`, or its folder. "
            "Loading a pipeline runs its code."
        ),
    ] = ""
    exclude: Annotated[
        tuple[str, ...],
        Meta(
            description='Components to skip for speed, such as "parser" or "tagger", if the '
            "entities do not need them. Default: none."
        ),
    ] = ()
    batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of texts per batch. Default: 1. Larger batches are faster with a "
            "trained pipeline, but rounding then depends on the other texts of a batch, and may "
            "rarely change an entity.",
        ),
    ] = 1
    piece: Annotated[
        int,
        Meta(
            ge=1,
            lt=1_000_000,
            description="Maximum number of characters per text, below spaCy's limit of a million "
            "(E088). Longer documents are cut at an empty line, a line end or a space; no entity "
            "is found across a cut.",
        ),
    ] = PIECE
    weak: Annotated[
        bool, Meta(description="Whether to store concepts and confidences of mentions.")
    ] = True
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return a digest of the version of spaCy and all files of the pipeline."""
        return digest_pipeline(self.model, "annotate")

    def labels(self) -> tuple[str, ...]:
        """Return the sorted labels of all components that set entities."""
        nlp = self._pipeline()
        labels: set[str] = set()
        for name in nlp.pipe_names:
            if "doc.ents" in nlp.get_pipe_meta(name).assigns:
                labels.update(nlp.pipe_labels.get(name, ()))
        return tuple(sorted(labels))

    def start(self) -> CachedAnnotator:
        """Load the pipeline."""
        return CachedAnnotator(partial(self._find, self._pipeline()))

    def _pipeline(self) -> Any:
        return load_pipeline(self.model, "annotate", self.exclude)

    def _find(self, nlp: Any, documents: Sequence[Document]) -> list[FoundMentions]:
        """Find the entities of documents; long documents are processed in pieces."""
        # Batches for spaCy may have pieces of several documents.
        places = [
            (number, start, end)
            for number, document in enumerate(documents)
            for start, end in pieces(document.text, document.placeholders, limit=self.piece)
        ]
        texts = (documents[number].text[start:end] for number, start, end in places)

        spans: list[list[Span]] = [[] for _ in documents]
        docs = nlp.pipe(texts, batch_size=self.batch_size)
        for (number, offset, _), doc in zip(places, docs, strict=True):
            spans[number] += [_to_span(entity, offset) for entity in doc.ents]

        return [
            filter_mentions(found, document.placeholders, min_score=0)
            for found, document in zip(spans, documents, strict=True)
        ]


def _to_span(entity: Any, offset: int) -> Span:
    """Convert an entity to a mention, without surrounding white space.

    Args:
        entity: Entity of spaCy.
        offset: First character of the text in the document.
    """
    text = entity.text
    num_leading = len(text) - len(text.lstrip())
    start = offset + entity.start_char + num_leading
    end = start + len(text.strip())
    return Span(start, end, entity.label_, entity.kb_id_ or entity.ent_id_)
