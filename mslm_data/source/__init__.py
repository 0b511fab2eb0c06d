"""Sources: readers of corpus formats, each giving documents as objects or in arrays.

`table.py` lists the formats. A reader is a struct derived from `Source`; its fields are the options
in the pipeline's `[source]` table.

| folder | content |
|---|---|
| `form.py` | the driver of forms, and containers of records |
| `formats/` | one file per format |
| `reading/` | shared by formats: files, splits, records, tagged lines, tables, offsets, XML |
| `inputs/` | makes local files from `--input` or a pipeline's public home |

CONTRIBUTING.md has the steps to add a source. A format whose records are independent of each other
is a `form`: a container of records, and a function that reads one. For other formats, `reading/`
covers the common cases:

| format | use |
|---|---|
| text files | `encodings`: derive from `TextSource`, read with `utf8`, cut if `may_be_cut` |
| a word and its tag per line | `columns`, `tagged_lines`, `marks`, `tags`, `word_documents` |
| a line of words with tags | `joined_words` |
| a text with mentions at offsets | `standoff`: derive from `OffsetSource` or `OffsetTextSource` |
| mentions without offsets | `occurrences`: place them by their words |
| rows with named columns: JSON, Arrow | `shapes`: add one, as `shapes/medcattrainer.py` does |
| several annotations per document | `versions`: choose with `VersionOptions` |
| tables (CSV, TSV, parquet) | `tables`, `csv_records` |
| XML | `elements` |
| files beside each other, plain or `.gz` | `files`: `packed_or_plain`, `stem`, `ends_with` |
| other lines | `files.lines`, `records.cut_filled_lines`, `records.cut_at_gaps` |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta, field

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.registry import Options
from mslm_data.source.reading.files import read_head
from mslm_data.source.reading.splits import sort_by_split
from mslm_data.source.table import SOURCES

__all__ = ["SOURCES", "Guess", "Sample", "Source"]


class Sample(NamedTuple):
    """A file's beginning, to guess its format.

    Attributes:
        path: The file. Names of files beside it may be used too.
        head: First 64 KiB of the file, unpacked.
    """

    path: Path
    head: bytes


class Guess(NamedTuple):
    """What a source can tell from a file's beginning. Nothing in it may quote the file.

    Attributes:
        why: Evidence that the file is in the format: a clause to follow "because", such as "its
            first line is PMID|t|title". Default: "", none.
        options: Options that the file needs, besides the defaults.
        pipeline: Name of the shipped pipeline that reads the file. Default: "", the source with
            `options`.
        problem: Why a file that seems to be in this format cannot be read, and the option that
            helps. It is shown if no format recognises the file. Default: "".
    """

    why: str = ""
    options: Mapping[str, Any] = MappingProxyType({})
    pipeline: str = ""
    problem: str = ""


class Source(Options, frozen=True, kw_only=True):
    """The reader of a format, with its options.

    The defaults suit formats in which a document is within one file, and a file within one split.

    Attributes:
        suffixes: Usual suffixes of the format's files (`.gz` may follow).
        annotations: Suffixes of files that annotate a text of the same name, which may then hold
            anything. Default: none.
        by_content: Whether files with other suffixes are recognised by content. They are read if a
            split has no file with a usual suffix. Default: False.
        columns_noun: Noun for the names in `list_columns`, for messages.
        without_mentions: Whether the format never has mentions, so that none are missed. Default:
            False.
        one_form: Whether files with different suffixes are forms of the same documents, so that a
            split may have only one of them. Default: True.
        segmenter: Default sentence segmenter. "given" uses the sentences of the source.
    """

    suffixes: ClassVar[tuple[str, ...]]
    annotations: ClassVar[tuple[str, ...]] = ()
    by_content: ClassVar[bool] = False
    columns_noun: ClassVar[str] = "the columns"
    without_mentions: ClassVar[bool] = False
    one_form: ClassVar[bool] = True
    segmenter: ClassVar[str] = "given"

    splits: Annotated[
        Mapping[str, tuple[str, ...]],
        Meta(
            description="Split -> patterns of file paths below the input, as for `fnmatch`. By "
            "default the names of files and folders give the split, as in `train.tsv` and "
            "`dev/a.txt`."
        ),
    ] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the input files of each split.

        Args:
            inputs: Files, or folders to search.

        Returns:
            Split -> files, sorted. A document in several files is represented by one of them; see
            `files`.

        Raises:
            SourceError: No file matches, or the split of a file is ambiguous.
        """
        return sort_by_split(
            inputs,
            suffixes=self.suffixes,
            splits=self.splits,
            holds=self.holds if self.by_content else None,
            disowns=self.disowns,
        )

    def sniff(self, sample: Sample) -> Guess:  # noqa: ARG002 - overridden
        """Guess from a file's beginning whether it is in this format.

        `--source auto` asks every format, and shows the evidence. A wrong guess is worse than none,
        so evidence must not fit other formats. Only files with a usual suffix are tested, unless
        `by_content` is set.
        """
        return Guess()

    def holds(self, path: Path) -> bool:
        """Return whether the content of a file is in this format, regardless of its suffix."""
        guess = self.sniff(Sample(path, read_head(path)))
        return bool(guess.why or guess.problem)

    def disowns(self, path: Path) -> str:  # noqa: ARG002 - overridden
        """Return why a file with a usual suffix is certainly not in this format, else "".

        Such a file is ignored if its split has files in this format. It is asked of each file.
        """
        return ""

    def files(self, path: Path) -> Sequence[Path]:
        """Return all files to read for `path`, including annotations in other files."""
        return [path]

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 - overridden
        """Cut a file, or a part of it, between records into parts of about `target_bytes`.

        The parts cover everything, in order; there is at least one. They depend only on the file's
        bytes, the part and `target_bytes`. A part of at most `target_bytes` is returned unchanged,
        without reading it. By default nothing is cut.

        Raises:
            SourceError: The file cannot be read, or is not in this format.
        """
        yield part

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read the records of a part. Every record gives one result, so that all are counted.

        Documents are in the order of the part, and so are records set aside and records not chosen.
        The order of the three relative to each other is undefined.

        Returns:
            A `Document`; `SetAside` for a record that cannot be used, or that a rule of the user
            removes (`Reason.is_rule`): it is listed, and its mentions are counted; or `NotChosen`
            for a record outside the corpus that the options ask for: it is counted alone. Options
            exclude records, not sentences of a record.

        Raises:
            SourceError: The part cannot be read, for example because the file is missing or
                truncated.
        """
        raise NotImplementedError

    def batches(self, part: Part) -> Iterator[Document | Documents | SetAside | NotChosen]:
        """Read the records of a part like `read`, with documents in batches of arrays or singly.

        Builds join both to batches, across the ends of files; see `documents.in_batches`. By
        default, documents are single. Formats that are read into arrays override it, to avoid an
        object per document.

        Raises:
            SourceError: As for `read`.
        """
        return self.read(part)

    def list_columns(self, path: Path) -> list[str]:  # noqa: ARG002 - overridden
        """Return the column names of a file's first record, for messages.

        Overridden by formats with named columns, and by formats whose options choose among names;
        see `columns_noun`.
        """
        return []

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:  # noqa: ARG002 - overridden
        """Return options that depend on all files together, to replace configured options.

        Raises:
            SourceError: A file cannot be read.
        """
        return {}

    def for_split(self, split: str) -> Source:  # noqa: ARG002 - overridden
        """Return a source that reads only the records of a split.

        Overridden by formats whose files contain several splits.
        """
        return self

    def estimate_share(self, split: str) -> float:  # noqa: ARG002 - overridden
        """Estimate a split's share of the files' bytes, in (0, 1].

        Overridden by formats whose files contain several splits.
        """
        return 1.0
