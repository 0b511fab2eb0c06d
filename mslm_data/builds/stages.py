"""Makes the stages that a pipeline names: source, annotator and segmenter, and a loaded model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from mslm_data.annotate import ANNOTATORS, Annotator, LoadedAnnotator
from mslm_data.data.columns import schema
from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.documents import Documents, split_documents
from mslm_data.data.reason import Reason
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import MslmDataError
from mslm_data.pipeline import SHARED, AnnotateOptions, Pipeline
from mslm_data.plugins import Plugin
from mslm_data.segment import SEGMENTERS, Segmenter
from mslm_data.source import SOURCES, Source
from mslm_data.source.reading.splits import Unread, check_one_form, unread

T = TypeVar("T")

OURS = (MslmDataError, MemoryError, OSError)
"""Exceptions of a stage that no document is to blame for."""


def make_source(pipeline: Pipeline) -> Source:
    """Make the pipeline's source."""
    where = f"pipeline '{pipeline.name}', [source]"
    made: Source = SOURCES.make(pipeline.source.use, pipeline.source.options, where=where)
    return made


def make_annotator(pipeline: Pipeline) -> Annotator:
    """Make the pipeline's annotator, without loading its model."""
    made: Annotator = ANNOTATORS.make(
        pipeline.annotate.use,
        pipeline.annotate.options,
        where=f"pipeline '{pipeline.name}', [annotate]",
        also=SHARED,
    )
    return made


def make_segmenter(pipeline: Pipeline) -> Segmenter:
    """Make the pipeline's segmenter."""
    where = f"pipeline '{pipeline.name}', [segment]"
    made: Segmenter = SEGMENTERS.make(pipeline.segment.use, pipeline.segment.options, where=where)
    return made


def list_plugins(pipeline: Pipeline) -> list[Plugin]:
    """Return the plug-ins that a pipeline's stages are."""
    uses = [(SOURCES, pipeline.source.use), (SEGMENTERS, pipeline.segment.use)]
    uses += [(ANNOTATORS, use) for use in pipeline.annotate.uses()]
    found = [registry.plugin(use) for registry, use in uses]
    return [plugin for plugin in found if plugin is not None]


def make_schema(
    pipeline: Pipeline, labels: Sequence[str], doc_labels: Sequence[str] | None
) -> pa.Schema:
    """Return the schema of the rows that the stages make together.

    Args:
        pipeline: Says which columns there are.
        labels: The label of each index.
        doc_labels: The label of each index of documents; None where the source has none.
    """
    return schema(
        labels,
        weak=make_annotator(pipeline).weak,
        text=pipeline.encode.keep_text,
        doc_labels=doc_labels,
        joined=pipeline.encode.join != "none",
        context=pipeline.annotate.context,
    )


class Inputs(NamedTuple):
    """The files of a pipeline's source.

    Attributes:
        pipeline: As it was given, with the options that only all files together could decide.
        source: The source of that pipeline.
        files: Split -> its files.
        given: The files or folders that they were found in.
    """

    pipeline: Pipeline
    source: Source
    files: Mapping[str, list[Path]]
    given: tuple[Path, ...] = ()

    def splits_of_paths(self) -> dict[Path, list[str]]:
        """Return file -> the splits that have it, files in order."""
        splits: dict[Path, list[str]] = {}
        for split, paths in self.files.items():
            for path in paths:
                splits.setdefault(path, []).append(split)
        return splits

    def every_file(self) -> list[Path]:
        """Return every file that is read, with those that stand beside others, each once."""
        read = chain.from_iterable(map(self.source.files, self.splits_of_paths()))
        return list(dict.fromkeys(read))

    def names(self) -> dict[str, list[str]]:
        """Return split -> its files, by their paths below the input."""
        roots = [path for path in self.given if path.is_dir()]
        return {
            split: [_below(path, roots) for path in paths] for split, paths in self.files.items()
        }

    def unread(self, *, apart_from: Path) -> list[Unread]:
        """Return the files below input folders that are not read, each with the reason.

        Args:
            apart_from: The folder that is built; it may lie below an input.
        """
        return unread(
            self.given,
            self.every_file(),
            suffixes=self.source.suffixes,
            splits=self.source.splits,
            pattern=getattr(self.source, "pattern", "*"),
            disowns=self.source.disowns,
            apart_from=apart_from,
        )

    def batches(self, split: str) -> Iterator[Documents | SetAside | NotChosen]:
        """Read a split in columns, file by file."""
        source = self.source.for_split(split)
        return chain.from_iterable(map(source.batches, self.parts(split)))

    def parts(self, split: str) -> Iterator[Part]:
        """Give the parts that a split's files are cut into."""
        source = self.source.for_split(split)
        for path in self.files[split]:
            yield from source.cut(Part(str(path)), target_bytes=self.pipeline.shard.unit_bytes)


def _below(path: Path, roots: Sequence[Path]) -> str:
    """Return a path below the input folder that it lies in, else its name."""
    for root in roots:
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


def find_inputs(pipeline: Pipeline, inputs: Sequence[Path]) -> Inputs:
    """Find the files of a pipeline's source, and what only all of them together can decide.

    Args:
        pipeline: Only its source and `unit_bytes` are used.
        inputs: Files or folders.

    Raises:
        SourceError: No inputs of this format, two forms of one split, or a file that cannot be
            read.
    """
    source = make_source(pipeline)
    files = source.find(inputs)
    if source.one_form and not source.splits:
        by_pattern = hasattr(source, "pattern")
        check_one_form(inputs, files, suffixes=source.suffixes, by_pattern=by_pattern)
    found = Inputs(pipeline, source, files, tuple(inputs))

    decided = source.settle(sorted(found.splits_of_paths()))
    if not decided:
        return found
    options = {**pipeline.source.options, **decided}
    settled = replace(pipeline, source=replace(pipeline.source, options=options))
    return found._replace(pipeline=settled, source=make_source(settled))


_LOADED: dict[str, LoadedAnnotator] = {}
"""The annotator that this process used last, with its model: one key."""


def load_annotator(annotate: AnnotateOptions) -> LoadedAnnotator:
    """Load an annotator's model, once for all work units that this process does in a build.

    Raises:
        AnnotateError: The model is missing or damaged.
        MissingExtraError: A package is missing.
    """
    key = json.dumps([annotate.use, annotate.options], sort_keys=True, default=str)
    loaded = _LOADED.get(key)
    if loaded is None:
        _LOADED.clear()
        loaded = ANNOTATORS.make(annotate.use, annotate.options).start()
        _LOADED[key] = loaded
    return loaded


def forget_annotator() -> None:
    """Forget the annotator that this process used last, so that its files are read again.

    An annotator is known by its options, which name its files. To be called before these are
    digested, as the digest must be that of the model that annotates.
    """
    _LOADED.clear()


_TABLES: dict[str, WordTable] = {}
"""The words of the tokenizer that this process used last, and what became of them: one key."""


def attempts(
    documents: Documents,
    call: Callable[[Documents], T],
    who: str,
    refuse: Callable[[Documents, Reason], None],
) -> Iterator[tuple[Documents, T]]:
    """Give what a model says of documents at once or, if one of them makes it fail, of each.

    Args:
        documents: Those on which it fails alone are refused.
        call: Asks the model.
        who: The model, as reasons name it.
        refuse: Called with each document that is refused, alone, and the reason.
    """
    try:
        found = call(documents)
    except OURS:
        raise
    except Exception as error:  # noqa: BLE001 - it may be anything, and hold text
        if len(documents) > 1:
            for document in split_documents(documents):
                yield from attempts(document, call, who, refuse)
        else:
            refuse(documents, no_text_for_models(f"{type(error).__name__} from the {who}"))
    else:
        yield documents, found


def no_text_for_models(got: str) -> Reason:
    """Return the reason to set a document aside on which a model fails."""
    return Reason(f"expected text that the models of the pipeline can take, got {got}")


def load_word_table(tokenizer: Tokenizer) -> WordTable:
    """Return the table of words that this process has tokenised so far."""
    if tokenizer.digest not in _TABLES:
        _TABLES.clear()
        _TABLES[tokenizer.digest] = WordTable(tokenizer)
    return _TABLES[tokenizer.digest]
