"""Reads the text that a build would tokenise, for a vocabulary, which comes before shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from mslm_data.builds.losses import refuse_set_aside
from mslm_data.builds.stages import find_inputs
from mslm_data.data.document import Document, SetAside
from mslm_data.encode.layout import tokenised_text
from mslm_data.errors import PipelineError, ShardError
from mslm_data.loading import Shards
from mslm_data.pipeline import Pipeline
from mslm_data.registry import did_you_mean
from mslm_data.source.reading.placeholders import CLOSES, OPENS, placeholders

Texts = Callable[[Sequence[str]], Iterator[str]]
"""Gives the texts of some splits, read anew at each call. It raises at once for a wrong split."""


class CorpusTexts:
    """Reads documents from files as a build does, one text each; see `trainable` and `Texts`.

    A document whose id came before is given again, though a build sets it aside.

    Attributes:
        set_aside: Split -> reason -> documents that its last reading set aside.
    """

    def __init__(self, pipeline: Pipeline, inputs: Sequence[Path]) -> None:
        """Find the files.

        Args:
            pipeline: Only its source, `max_loss` and `unit_bytes` are used.
            inputs: Files or folders.

        Raises:
            SourceError: No inputs of this format.
        """
        self.set_aside: dict[str, Counter[str]] = {}
        self._inputs = find_inputs(pipeline, inputs)

    def __call__(self, splits: Sequence[str]) -> Iterator[str]:
        """Give the texts of some splits.

        Raises:
            PipelineError: There is no such split.
            BuildError: At the end of a split: more of it than `source.max_loss` was set aside.
        """
        for split in splits:
            if split not in self._inputs.files:
                known = did_you_mean(split, self._inputs.files)
                raise PipelineError(
                    f"pipeline '{self._inputs.pipeline.name}': no split '{split}'{known}"
                )
        return chain.from_iterable(map(self._of_split, splits))

    def _of_split(self, split: str) -> Iterator[str]:
        given = 0
        aside: list[SetAside] = []
        for record in self._inputs.records(split):
            if isinstance(record, Document):
                given += 1
                yield trainable(record)
            elif isinstance(record, SetAside):
                aside.append(record)

        self.set_aside[split] = Counter(one.reason for one in aside)
        refuse_set_aside(self._inputs, split, aside, read=given + len(aside))


def of_folder(shards: Shards) -> Texts:
    """Read the rows of a folder that was built with `keep_text`, one text each.

    Raises:
        ShardError: The folder has notes whose placeholders had tokens, so that rows may end within
            one. Raised by the result: there is no such split, there are no texts, or a row of them
            ends within a placeholder.
    """
    source = shards.manifest.pipeline["source"]
    if source["use"] == "notes" and source["options"].get("placeholders") != "drop":
        raise ShardError(
            f"{shards.folder}: expected rows that cannot end within a placeholder, got notes built "
            "without source.placeholders=drop; read the notes with --source"
        )

    def texts(splits: Sequence[str]) -> Iterator[str]:
        rows = chain.from_iterable([shards[split].texts() for split in splits])
        return (trainable(Document(id="", text=whole(text))) for text in rows)

    def whole(text: str) -> str:
        if text.count(OPENS) != text.count(CLOSES):
            raise ShardError(
                f"{shards.folder}: expected rows that do not end within a placeholder, got one "
                "with half of one; read the source with --source"
            )
        return text

    return texts


def trainable(document: Document) -> str:
    """Return the text of a document from which a vocabulary may learn.

    This is its words and, for each placeholder, at most the word of its kind. The characters
    between a placeholder's marks are left out, even if the pipeline keeps them for the shards.
    """
    marks = document.placeholders or placeholders(document.text, "drop")
    hidden = [mark._replace(word=mark.word or "") for mark in marks]
    text = tokenised_text(document.text, hidden)

    if document.words is None:
        return text
    return " ".join(text[start:end] for start, end in document.words.tolist())
