"""Makes the stages of a pipeline: source, annotator and segmenter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from mslm_data.annotate import ANNOTATORS, Annotator, LoadedAnnotator
from mslm_data.data.columns import schema
from mslm_data.data.documents import Documents, split_documents
from mslm_data.data.reason import Reason
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import MslmDataError, SourceError, place_of
from mslm_data.pipeline import AnnotateOptions, Pipeline, SourceOptions
from mslm_data.plugins import Plugin
from mslm_data.segment import SEGMENTERS, Segmenter
from mslm_data.source import SOURCES, Source
from mslm_data.source.reading.files import stem
from mslm_data.source.reading.splits import Unread, check_one_form, unread

T = TypeVar("T")

OURS = (MslmDataError, MemoryError, OSError)
"""Errors that no document causes, so no document is set aside for them."""


def make_source(pipeline: Pipeline) -> Source:
    """Make the pipeline's source."""
    where = f"pipeline '{pipeline.name}', [source]"
    source: Source = SOURCES.make(
        pipeline.source.use,
        pipeline.source.options,
        where=where,
        also=SourceOptions.__struct_fields__,
    )
    return source


def make_annotator(pipeline: Pipeline) -> Annotator:
    """Make the pipeline's annotator, without loading its model."""
    annotator: Annotator = ANNOTATORS.make(
        pipeline.annotate.use,
        pipeline.annotate.options,
        where=f"pipeline '{pipeline.name}', [annotate]",
        also=AnnotateOptions.__struct_fields__,
    )
    return annotator


def make_segmenter(pipeline: Pipeline) -> Segmenter:
    """Make the pipeline's segmenter."""
    where = f"pipeline '{pipeline.name}', [segment]"
    segmenter: Segmenter = SEGMENTERS.make(
        pipeline.segment.use, pipeline.segment.options, where=where
    )
    return segmenter


def list_plugins(pipeline: Pipeline) -> list[Plugin]:
    """Return the plug-ins among a pipeline's stages."""
    uses = [(SOURCES, pipeline.source.use), (SEGMENTERS, pipeline.segment.use)]
    uses += [(ANNOTATORS, use) for use in pipeline.annotate.uses()]
    plugins = [registry.plugin(use) for registry, use in uses]
    return [plugin for plugin in plugins if plugin is not None]


def make_schema(
    pipeline: Pipeline, labels: Sequence[str], doc_labels: Sequence[str] | None
) -> pa.Schema:
    """Return the Arrow schema of a pipeline's rows.

    Args:
        pipeline: Its options decide the columns.
        labels: Labels of mentions, by index.
        doc_labels: Labels of documents, by index; None if the source has none.
    """
    optional = {
        "weak": make_annotator(pipeline).weak,
        "text": pipeline.encode.keep_text,
        "documents": doc_labels is not None,
        "joined": pipeline.encode.join != "none",
        "context": pipeline.annotate.context,
    }
    kinds = {kind for kind, is_present in optional.items() if is_present}
    return schema(labels, kinds, doc_labels or ())


class Inputs(NamedTuple):
    """The input files of a pipeline.

    Attributes:
        pipeline: The pipeline, with the options derived from all files by `Source.settle`.
        source: The source of this pipeline.
        files: Split -> its files.
        given: The files or folders named by the user.
    """

    pipeline: Pipeline
    source: Source
    files: Mapping[str, list[Path]]
    given: tuple[Path, ...] = ()

    def splits_of_paths(self) -> dict[Path, list[str]]:
        """Return file -> its splits, files in order."""
        splits: dict[Path, list[str]] = {}
        for split, paths in self.files.items():
            for path in paths:
                splits.setdefault(path, []).append(split)
        return splits

    def every_file(self) -> list[Path]:
        """Return all files to read, including companion files, without duplicates."""
        read = chain.from_iterable(map(self.source.files, self.splits_of_paths()))
        return list(dict.fromkeys(read))

    def names(self) -> dict[str, list[str]]:
        """Return split -> the paths of its files, relative to the input folder."""
        return {split: [self.name(path) for path in paths] for split, paths in self.files.items()}

    def name(self, path: Path) -> str:
        """Return the path of a file relative to the input folder; the name of an input file."""
        return _below(path, self.given)

    def unread(self, *, apart_from: Path) -> list[Unread]:
        """Return the unread files in input folders, each with the reason.

        Args:
            apart_from: The output folder, which may be inside an input folder.
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

    def prefixes(self) -> dict[Path, str]:
        """Return a prefix for ids made from file names, for files that share a name in a split.

        Two files `news/train.txt` and `web/train.txt` get `news/` and `web/`. The prefix is the
        part of the folders that differs, so it does not depend on where the input is.
        """
        prefixes: dict[Path, str] = {}
        for paths in self.files.values():
            namesakes: dict[str, list[Path]] = {}
            for path in paths:
                namesakes.setdefault(stem(path), []).append(path)
            for same in namesakes.values():
                if len(same) > 1:
                    folders = [path.parent.parts for path in same]
                    prefixes |= zip(same, _tell_apart(folders), strict=True)
        return prefixes


def _tell_apart(folders: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the parts of paths between what all share at the beginning and at the end."""
    shortest = min(map(len, folders))
    start = _count_shared(folders, shortest)
    end = _count_shared([parts[::-1] for parts in folders], shortest - start)
    return ["".join(f"{part}/" for part in parts[start : len(parts) - end]) for parts in folders]


def _count_shared(rows: Sequence[Sequence[str]], most: int) -> int:
    """Return the number of leading items that are the same in all rows, at most `most`."""
    columns = islice(zip(*rows, strict=False), most)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _below(path: Path, given: Sequence[Path]) -> str:
    for root in given:
        if path != root and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


def find_inputs(pipeline: Pipeline, inputs: Sequence[Path]) -> Inputs:
    """Find a pipeline's input files, and settle the options derived from all of them.

    Args:
        pipeline: Uses its source and `shard.input_bytes`.
        inputs: Files or folders.

    Raises:
        SourceError: No file has this format, a split has no documents or files of two forms, or a
            file cannot be read.
    """
    source = make_source(pipeline)
    files = source.find(inputs)
    for split, paths in files.items():
        if not paths:
            raise SourceError(
                f"split '{split}': expected files of documents, found only files that belong to "
                "others, such as annotations; check [source] splits"
            )
    if source.one_form and not source.splits:
        by_pattern = hasattr(source, "pattern")
        check_one_form(inputs, files, suffixes=source.suffixes, by_pattern=by_pattern)
    found = Inputs(pipeline, source, files, tuple(inputs))

    settled_options = source.settle(sorted(found.splits_of_paths()))
    if not settled_options:
        return found
    options = {**pipeline.source.options, **settled_options}
    settled = replace(pipeline, source=replace(pipeline.source, options=options))
    return found._replace(pipeline=settled, source=make_source(settled))


_LOADED: dict[str, LoadedAnnotator] = {}
"""Cache of the last annotator of this process, loaded: at most one key."""


def load_annotator(annotate: AnnotateOptions) -> LoadedAnnotator:
    """Load an annotator with its model; cached, so a process loads it once for all work units.

    Raises:
        AnnotateError: The model is missing or damaged.
        MissingExtraError: A package is missing.
    """
    # One key is enough: the work units of a build have the same annotator.
    key = json.dumps([annotate.use, annotate.options], sort_keys=True, default=str)
    loaded = _LOADED.get(key)
    if loaded is None:
        _LOADED.clear()
        loaded = ANNOTATORS.make(annotate.use, annotate.options).start()
        _LOADED[key] = loaded
    return loaded


def forget_annotator() -> None:
    """Clear the annotator cache, because its files may have changed.

    The cache key has the paths of files, not their content. Call this before digesting the files,
    so that the digest matches the loaded model.
    """
    _LOADED.clear()


_TABLES: dict[str, WordTable] = {}
"""Cache of the last word table of this process: at most one key."""


def attempts(
    documents: Documents,
    call: Callable[[Documents], T],
    who: str,
    refuse: Callable[[Documents, Reason], None],
) -> Iterator[tuple[Documents, T]]:
    """Call a model on a batch of documents; if it raises, call it on each document alone.

    Args:
        documents: The batch.
        call: Calls the model.
        who: Name of the model in reasons.
        refuse: Called with each document that makes the model raise alone, and the reason.

    Yields:
        Documents, and the result of the call.
    """
    try:
        result = call(documents)
    except OURS:
        raise
    except Exception as error:  # noqa: BLE001 - any class, and its message may contain text
        if len(documents) > 1:
            for document in split_documents(documents):
                yield from attempts(document, call, who, refuse)
        else:
            raised = f"{type(error).__name__} in {place_of(error)} from the {who}"
            refuse(documents, no_text_for_models(raised))
    else:
        yield documents, result


def no_text_for_models(got: str) -> Reason:
    """Return the reason for a document on which a model fails."""
    return Reason(f"expected text that the models of the pipeline can take, got {got}")


def load_word_table(tokenizer: Tokenizer) -> WordTable:
    """Return the table of words tokenised by this process so far; cached."""
    if tokenizer.digest not in _TABLES:
        _TABLES.clear()
        _TABLES[tokenizer.digest] = WordTable(tokenizer)
    return _TABLES[tokenizer.digest]
