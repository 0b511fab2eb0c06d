"""What a build would tokenise, as text, for what is needed before there are shards: a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from mslm_data.builds.plan import find_inputs
from mslm_data.data.document import Document
from mslm_data.encode.layout import shown
from mslm_data.errors import PipelineError, ShardError
from mslm_data.loading import Shards
from mslm_data.pipeline import Pipeline
from mslm_data.registry import did_you_mean
from mslm_data.source.reading.placeholders import placeholders

Texts = Callable[[Sequence[str]], Iterator[str]]
"""Gives the texts of some splits, each time it is called anew; none is kept. It raises at once for a wrong split."""


def of_corpus(pipeline: Pipeline, inputs: Sequence[Path]) -> Texts:
    """Read documents from files as a build does, one text each, see `trainable`; those set aside are left out.

    A document whose id came before, which a build sets aside, is given again.

    Args:
        pipeline: Its source and `unit_bytes` are used.
        inputs: Files or folders.

    Raises:
        SourceError: No inputs of this format.
        PipelineError: From what is returned: no such split.
    """
    pipeline, source, found = find_inputs(pipeline, inputs)

    def texts(splits: Sequence[str]) -> Iterator[str]:
        for split in splits:
            if split not in found:
                raise PipelineError(
                    f"pipeline '{pipeline.name}': no split '{split}'{did_you_mean(split, found)}"
                )
        return chain.from_iterable(map(documents_of, splits))

    def documents_of(split: str) -> Iterator[str]:
        of_one = source.of_split(split)
        for path in found[split]:
            for part in of_one.cut(path, target_bytes=pipeline.shard.unit_bytes):
                yield from (
                    trainable(record)
                    for record in of_one.read(part)
                    if isinstance(record, Document)
                )

    return texts


def of_folder(shards: Shards) -> Texts:
    """Read the rows of a folder that was built with `keep_text`, one text each.

    Raises:
        ShardError: Notes whose placeholders had tokens, as rows may end within them. From what is returned: no such
            split, or no texts.
    """
    source = shards.manifest.pipeline["source"]
    if source["use"] == "notes" and source["options"].get("placeholders") != "drop":
        raise ShardError(
            f"{shards.folder}: expected rows that cannot end within a placeholder, got notes built without "
            "source.placeholders=drop; read the notes with --source"
        )

    def texts(splits: Sequence[str]) -> Iterator[str]:
        rows = chain.from_iterable([shards[split].texts() for split in splits])
        return (trainable(Document(id="", text=text)) for text in rows)

    return texts


def trainable(document: Document) -> str:
    """Return what a vocabulary may learn of a document: its words, and of placeholders at most the word of their kind.

    What is between a placeholder's marks never gets there, even where the pipeline keeps it for the shards.
    """
    marks = document.placeholders or placeholders(document.text, "drop")
    text = shown(document.with_placeholders(mark._replace(word=mark.word or "") for mark in marks))
    if document.words is None:
        return text
    return " ".join(text[start:end] for start, end in document.words.tolist())
