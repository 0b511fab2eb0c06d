"""Splits sentences by a trained spaCy pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta

from mslm_data.data.document import Placeholder, overwrite
from mslm_data.data.documents import Documents, Ranges
from mslm_data.errors import PipelineError
from mslm_data.registry import Options
from mslm_data.segment.cover import cover, on_line
from mslm_data.spacy_pipelines import digest_pipeline, load_pipeline, pieces

_NOT_NEEDED = (
    "ner", "entity_linker", "lemmatizer", "tagger", "morphologizer", "attribute_ruler", "textcat",
)  # fmt: skip


class SpacySentences(Options, frozen=True, kw_only=True):
    """Split documents into sentences by a spaCy pipeline, without cutting placeholders or mentions.

    A trained pipeline uses grammar, but ignores the layout of notes; for notes, see `Clinical`.
    Each placeholder is replaced by an unknown name.
    """

    model: Annotated[
        str,
        Meta(
            description="Pipeline with a parser, senter or sentencizer: the name of an installed "
            "one, or its folder. Long documents are processed in parts of 100,000 characters."
        ),
    ] = ""

    def digest(self) -> str:
        """Return a digest of the version of spaCy and all files of the pipeline."""
        return digest_pipeline(self.model, "segment")

    def sentences(self, documents: Documents) -> Ranges:
        """Return the sentences of the pipeline, without cutting placeholders or mentions.

        Raises:
            MissingExtraError: spaCy is not installed.
            AnnotateError: The model does not exist, or none is named.
            PipelineError: The model does not set sentences.
        """
        nlp = load_pipeline(self.model, "segment", _NOT_NEEDED)
        starts = []
        for text, placeholders in documents.texts():
            inside = {at for start, end, _ in placeholders for at in range(start + 1, end)}
            starts.append([at for at in self._starts(nlp, text, placeholders) if at not in inside])
        return cover(documents, on_line(documents, starts))

    def _starts(self, nlp: Any, text: str, placeholders: Sequence[Placeholder]) -> Iterator[int]:
        """Yield the first character of each sentence, after leading white space."""
        # The model would split at the marks of placeholders: replace them by a name.
        text = overwrite(text, placeholders, lambda length: "X" + "x" * (length - 1))
        for start, end in pieces(text, placeholders):
            doc = nlp(text[start:end])
            if not doc.has_annotation("SENT_START"):
                raise PipelineError(
                    f"segmenter 'spacy': the pipeline '{self.model}' sets no sentences; it needs a "
                    "parser, senter or sentencizer, but has "
                    f"{', '.join(nlp.pipe_names) or 'no component'}"
                )
            for sentence in doc.sents:
                num_leading = len(sentence.text) - len(sentence.text.lstrip())
                yield start + sentence.start_char + num_leading
