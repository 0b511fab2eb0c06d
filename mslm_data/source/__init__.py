"""Sources: each reads one file format and gives documents, one by one or in columns.

`table.py` lists the formats. A format's reader is a frozen dataclass derived from `Source`; its
fields are the options of the pipeline's `[source]` table.

| folder | what it holds |
|---|---|
| `formats/` | one file a format |
| `reading/` | what formats share: files, splits, records, tagged lines, tables, offsets, XML |
| `inputs/` | how `--input` or a pipeline's public home becomes local files |

CONTRIBUTING.md says how a source is added. Most readers are short, because `reading/` does the work
that formats share:

| if the format has | use |
|---|---|
| text in files | `encodings`: derive from `TextOptions`, read by `utf8`, cut unless `is_one_part` |
| one word and its tag a line | `tagged_lines`, `marks`, `tags`, `word_documents` |
| a text, and mentions at offsets | `standoff`: derive from `OffsetOptions` as well |
| rows of JSON objects | `json_sources`: derive from `JsonRows`, or `JsonVersions` |
| rows with named fields of any kind | `shapes`, `json_rows`, `arrow_rows`, `cells` |
| several annotations of one document | `versions`: derive from `VersionOptions` as well |
| tables with named columns (CSV, parquet) | `tables`, `csv_records` |
| tables with or without a header | `plain_tables` |
| XML | `elements` |
| lines of any other kind | `files.lines`, `records.cut_filled_lines`, `records.cut_at_gaps` |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.documents import Documents, in_batches
from mslm_data.registry import Help
from mslm_data.source.reading.files import read_head
from mslm_data.source.reading.splits import sort_by_split
from mslm_data.source.table import SOURCES

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """The reader of one format, with its options.

    The defaults suit a format whose documents lie in one file each, and whose files belong to one
    split each.

    Attributes:
        suffixes: Usual suffixes of the format's files (`.gz` may follow).
        by_content: Whether files with other suffixes are recognised by their content. They are
            read if a split has no file with a usual suffix.
        columns_noun: The noun for the names that `list_columns` returns, for messages.
        without_mentions: Whether the format never has mentions, so that none are missed.
        one_form: Whether files with different suffixes are different forms of a corpus. Then a
            split may not have both.
        segmenter: Default sentence segmenter; "given" for formats that mark sentences.
    """

    suffixes: ClassVar[tuple[str, ...]]
    by_content: ClassVar[bool] = False
    columns_noun: ClassVar[str] = "the columns"
    without_mentions: ClassVar[bool] = False
    one_form: ClassVar[bool] = True
    segmenter: ClassVar[str] = "given"

    splits: Annotated[
        Mapping[str, tuple[str, ...]],
        Help(
            "Split -> patterns of file paths below the input, as of `fnmatch`. If empty, the names "
            "of files and folders decide, as in `train.tsv` and `dev/a.txt`."
        ),
    ] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the input files of each split.

        Args:
            inputs: Files, or folders that are searched through.

        Returns:
            Split -> files, sorted. Where a document spans several files, the one that stands for
            all of them.

        Raises:
            SourceError: No file there can be of this format.
        """
        return sort_by_split(
            inputs,
            suffixes=self.suffixes,
            splits=self.splits,
            holds=self.holds if self.by_content else None,
            disowns=self.disowns,
        )

    def holds(self, path: Path) -> bool:
        """Return whether the content of a file is in this format, whatever its suffix."""
        head = read_head(path)
        return bool(self.recognises(path, head) or self.falls_short(path, head))

    def disowns(self, path: Path) -> str:  # noqa: ARG002 - overridden
        """Return why a file with a usual suffix is not in this format, "" if it may be.

        Such a file is ignored if its split has other files that are in this format.
        """
        return ""

    def files(self, path: Path) -> Sequence[Path]:
        """Return all files that are read for `path`, such as the annotations beside it."""
        return [path]

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 - overridden
        """Cut a file, or a part of one, between records into parts of about `target_bytes`.

        The parts cover all of it, in order; there is at least one. The cuts depend on nothing but
        the file's bytes, the part and `target_bytes`. A file that is not longer comes back as it
        is, at no cost. By default, nothing is cut.

        Raises:
            SourceError: The file cannot be read, or is not of this format.
        """
        yield part

    @abstractmethod
    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read the records of a part. Each becomes one result, so none is lost uncounted.

        Documents come in the order of the part, and so do the records that are set aside. Whether
        one that is set aside comes before or after a document says nothing.

        Returns:
            A `Document`; `SetAside` for a record that cannot be used; `NotChosen` for one that the
            options leave out.

        Raises:
            SourceError: The part as a whole cannot be read, such as a missing or truncated file.
        """

    def batches(self, part: Part) -> Iterator[Documents | SetAside | NotChosen]:
        """Read the records of a part as `read` does, with the documents in columns.

        By default, the documents that `read` gives are put together. Formats whose files are read
        into arrays override it, so that no document becomes an object.

        Raises:
            SourceError: As from `read`.
        """
        return in_batches(self.read(part))

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - overridden
        """Return the evidence that a file is in this format, "" if there is none.

        `--source auto` asks every format, and shows the answer to the user. A wrong guess is worse
        than none, so evidence that also fits another format does not count. Only files with a
        usual suffix are tested, unless the format is recognised `by_content`.

        Args:
            path: The file; others beside it may be looked for by name.
            head: Its first 64 KiB, unpacked.

        Returns:
            A few words that continue "because", without any of the file's own, such as "its first
            line is PMID|t|title".
        """
        return ""

    @classmethod
    def falls_short(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - overridden
        """Return why a file that seems to be in this format cannot be read.

        `--source auto` reports it if no format recognises the file.

        Args:
            path: The file.
            head: Its first 64 KiB, unpacked.

        Returns:
            The problem, with the option that helps; "" for any other file.
        """
        return ""

    @classmethod
    def suggest_options(cls, path: Path, head: bytes) -> Mapping[str, Any]:  # noqa: ARG003 - overridden
        """Return the options that a recognised file needs besides the defaults.

        Args:
            path: The file.
            head: The file's first 64 KiB, unpacked.
        """
        return {}

    @classmethod
    def suggest_pipeline(cls, head: bytes) -> str:  # noqa: ARG003 - overridden
        """Return the shipped pipeline that reads a recognised file.

        Default: "", the source with its default options.

        Args:
            head: The file's first 64 KiB, unpacked.
        """
        return ""

    def list_columns(self, path: Path) -> list[str]:  # noqa: ARG002 - overridden
        """Return the names of the columns of a file's first record, for messages.

        Formats whose records have named columns override it, and those whose mentions stand under
        names that the options choose from; see `columns_noun`.
        """
        return []

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:  # noqa: ARG002 - overridden
        """Return options that depend on all files together. They replace the configured ones.

        Raises:
            SourceError: A file cannot be read.
        """
        return {}

    def for_split(self, split: str) -> Source:  # noqa: ARG002 - overridden
        """Return a source that reads the records of one split only.

        Formats whose files hold several splits override it.
        """
        return self

    def estimate_share(self, split: str) -> float:  # noqa: ARG002 - overridden
        """Estimate the share of the files' bytes that belongs to a split.

        Formats whose files hold several splits override it.
        """
        return 1.0
