"""Makes the stages that a pipeline names: source, annotator and segmenter, and a loaded model."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mslm_data.annotate import ANNOTATORS, Annotated, Annotator, LoadedAnnotator
from mslm_data.data.document import Document, NotChosen, SetAside
from mslm_data.pipeline import AnnotateOptions, Pipeline
from mslm_data.segment import SEGMENTERS, Segmenter
from mslm_data.source import SOURCES, Source

_REMEMBERED = 1 << 12
"""Texts whose mentions a process remembers."""


def source_of(pipeline: Pipeline) -> Source:
    """Make the pipeline's source."""
    where = f"pipeline '{pipeline.name}', [source]"
    made: Source = SOURCES.make(pipeline.source.use, pipeline.source.options, where=where)
    return made


def annotator_of(pipeline: Pipeline) -> Annotator:
    """Make the pipeline's annotator, without loading its model."""
    made: Annotator = ANNOTATORS.make(
        pipeline.annotate.use,
        pipeline.annotate.options,
        where=f"pipeline '{pipeline.name}', [annotate]",
        also=("use", "sample", "labels", "rename"),
    )
    return made


def segmenter_of(pipeline: Pipeline) -> Segmenter:
    """Make the pipeline's segmenter."""
    where = f"pipeline '{pipeline.name}', [segment]"
    made: Segmenter = SEGMENTERS.make(pipeline.segment.use, pipeline.segment.options, where=where)
    return made


class Inputs(NamedTuple):
    """The files of a pipeline's source.

    Attributes:
        pipeline: As it was given, with the options that only all files together could decide.
        source: The source of that pipeline.
        files: Split -> its files.
    """

    pipeline: Pipeline
    source: Source
    files: Mapping[str, list[Path]]

    def records(self, split: str) -> Iterator[Document | SetAside | NotChosen]:
        """Read a split, file by file."""
        source = self.source.of_split(split)
        for path in self.files[split]:
            for part in source.cut(path, target_bytes=self.pipeline.shard.unit_bytes):
                yield from source.read(part)


def find_inputs(pipeline: Pipeline, inputs: Sequence[Path]) -> Inputs:
    """Find the files of a pipeline's source.

    Args:
        pipeline: Only its source and `unit_bytes` are used.
        inputs: Files or folders.

    Raises:
        SourceError: No inputs of this format.
    """
    source = source_of(pipeline)
    files = source.find(inputs)
    every_file = sorted({path for paths in files.values() for path in paths})

    decided = source.settle(every_file)
    if decided:
        options = {**pipeline.source.options, **decided}
        pipeline = replace(pipeline, source=replace(pipeline.source, options=options))
        source = source_of(pipeline)
    return Inputs(pipeline, source, files)


class RememberingAnnotator:
    """A loaded annotator that annotates equal texts once, as notes are copied forward so often.

    Attributes:
        weak: Whether mentions have concepts and confidences for the shards.
    """

    def __init__(self, annotator: Annotator) -> None:
        """Load the model."""
        self.weak = annotator.weak
        self._loaded: LoadedAnnotator = annotator.start()
        self._known: OrderedDict[bytes, Annotated] = OrderedDict()

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents, or remember what equal ones had.

        Only weak mentions are remembered: gold ones are each document's own.
        """
        if not self.weak:
            return self._loaded.annotate(documents)

        keys = [_key(document) for document in documents]
        new = {
            key: document
            for key, document in zip(keys, documents, strict=True)
            if key not in self._known
        }
        found = {key: self._known[key] for key in keys if key in self._known}
        found |= zip(new, self._loaded.annotate(list(new.values())), strict=True)

        self._known.update(found)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return [found[key] for key in keys]


def _key(document: Document) -> bytes:
    """Return a digest of all that an annotator may look at."""
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(repr((document.placeholders, document.sentences)).encode())
    return digest.digest()


_LOADED: dict[str, RememberingAnnotator] = {}
"""The annotator that this process used last, with its model: one key."""


def load_annotator(annotate: AnnotateOptions) -> RememberingAnnotator:
    """Load an annotator's model, once a process for as long as it asks for the same one.

    Raises:
        AnnotateError: The model is missing or damaged.
        MissingExtraError: A package is missing.
    """
    key = json.dumps([annotate.use, annotate.options], sort_keys=True, default=str)
    if key not in _LOADED:
        _LOADED.clear()
        _LOADED[key] = RememberingAnnotator(ANNOTATORS.make(annotate.use, annotate.options))
    return _LOADED[key]
