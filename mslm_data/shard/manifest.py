"""Reads and writes `manifest.json`, the record of how a folder was built and of its contents.

The manifest has no times, host names or paths, so that equal builds have equal bytes. A build
writes it last: a folder without a manifest is unfinished.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa

from mslm_data.data.accounts import Counts
from mslm_data.data.bio import MAX_LABELS, tag_names
from mslm_data.data.columns import FORMAT, schema
from mslm_data.data.document import split_order
from mslm_data.data.examples import OPTIONAL, TokenIds
from mslm_data.errors import ShardError
from mslm_data.io.files import canonical_json, write_whole
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.write import FileName, Sha256, ShardRecord

NAME = "manifest.json"
OF_FOLDER = (
    NAME,
    "README.md",
    "dataset_dict.json",
    "set_aside.jsonl",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""Files beside the folders of the splits."""
_OF_SPLIT = ("dataset_info.json", "state.json")
Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_LABELS)]


class SplitRecord(Counts, kw_only=True, omit_defaults=True):
    """Counts, input files and shards of a split.

    Attributes:
        sources: Name, size and SHA-256 of each input file.
        shards: Shards, in order.
    """

    sources: tuple[Mapping[str, Any], ...]
    shards: tuple[ShardRecord, ...]

    @property
    def bytes(self) -> int:
        """Total size of the shards in bytes."""
        return sum(shard.bytes for shard in self.shards)


class TokenizerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The tokenizer of a folder.

    Attributes:
        sha256: SHA-256 of `tokenizer.json`.
        ids: Special ids.
    """

    sha256: Sha256
    ids: TokenIds


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of `manifest.json`.

    Attributes:
        format: Version of the folder format.
        name: Name of the pipeline.
        pipeline: Options of the pipeline that affect the rows.
        plan: SHA-256 of inputs, pipeline, tokenizer, versions and work units.
        versions: Package -> version used for the build.
        annotator: Digest of the model or table of the annotator; "" for gold mentions.
        segmenter: Digest of the model of the segmenter; "" for rules.
        tokenizer: SHA-256 and special ids of the tokenizer.
        labels: Label names, by index.
        tags: Tag names, by index.
        doc_labels: Document label names, by index. Default: None, no column `doc_label`.
        about: Table `[about]` of the pipeline: licence, citation, and `protected` for patients'
            text.
        splits: Name -> counts and shards.
        found_by: Number of mentions by label and annotators, in all splits. Default: None, a single
            annotator.
        subset: For folders made by `mslm-data subset`: plan and split of the original folder,
            number of documents, seed or limits of term share, and digest of the rows; and `of`,
            the same record of the original folder if it is a subset too. Default: None.
    """

    format: int
    name: str
    pipeline: Mapping[str, Any]
    plan: str
    versions: Mapping[str, str]
    annotator: str
    segmenter: str
    tokenizer: TokenizerRecord
    labels: Labels
    tags: tuple[str, ...]
    about: Mapping[str, Any]
    splits: Mapping[FileName, SplitRecord]
    doc_labels: Labels | None = None
    found_by: tuple[FoundByRecord, ...] | None = None
    subset: Mapping[str, Any] | None = None

    @property
    def token_ids(self) -> TokenIds:
        """Special ids of the tokenizer."""
        return self.tokenizer.ids

    @property
    def kinds(self) -> set[str]:
        """Kinds of optional columns that the rows have, see `Column.when`."""
        optional = {
            "weak": self.weak,
            "text": self.keeps_text,
            "documents": self.doc_labels is not None,
            "joined": self.pipeline["encode"]["join"] != "none",
            "context": self.context,
        }
        return {kind for kind, is_present in optional.items() if is_present}

    @property
    def schema(self) -> pa.Schema:
        """Schema of all shards."""
        return schema(self.labels, self.kinds, self.doc_labels or ())

    @property
    def optional_columns(self) -> frozenset[str]:
        """Names of the columns of `examples.OPTIONAL` that the rows have."""
        kinds = self.kinds
        return frozenset(name for name, kind in OPTIONAL.items() if kind in kinds)

    @property
    def draws(self) -> list[Mapping[str, Any]]:
        """The records of `mslm-data subset` that led to this folder, the first draw first."""
        draws: list[Mapping[str, Any]] = []
        drawn = self.subset
        while drawn:
            draws.insert(0, drawn)
            drawn = drawn.get("of")
        return draws

    def files(self) -> list[str]:
        """Return the relative paths of all files of the build."""
        split_files = [
            f"{split}/{file}"
            for split, record in self.splits.items()
            for file in (*_OF_SPLIT, *(shard.file for shard in record.shards))
        ]
        return [*OF_FOLDER, *split_files]

    @property
    def keeps_text(self) -> bool:
        """Whether rows have their text (`encode.keep_text`)."""
        return bool(self.pipeline["encode"]["keep_text"])

    @property
    def weak(self) -> bool:
        """Whether mentions have concepts and scores (weak supervision)."""
        return bool(self.pipeline["annotate"]["weak"])

    @property
    def context(self) -> bool:
        """Whether mentions have context flags (`annotate.context`)."""
        return bool(self.pipeline["annotate"].get("context", False))

    @property
    def protected(self) -> bool:
        """Whether the rows are patients' text."""
        return bool(self.about.get("protected", False))


class _Source(msgspec.Struct):
    use: str


class _Annotate(msgspec.Struct):
    use: str
    weak: bool
    context: bool = False  # absent if False


class _Encode(msgspec.Struct):
    keep_text: bool
    join: Literal["none", "document"]


class _Pipeline(msgspec.Struct):
    """Options of the pipeline that readers need; others are not checked."""

    source: _Source
    annotate: _Annotate
    encode: _Encode


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json`, without optional fields that are not set."""
    write_whole(folder / NAME, [canonical_json(msgspec.to_builtins(manifest))])


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`.

    Raises:
        ShardError: The folder is missing or unfinished, has another format, or its manifest is
            damaged or inconsistent.
    """
    path = folder / NAME
    if not folder.is_dir():
        raise ShardError(f"{folder}: no such folder; make a built folder with `mslm-data build`")
    if not path.is_file():
        parent = folder.absolute().parent
        if (parent / NAME).is_file():
            raise ShardError(
                f"{folder}: this is a folder inside a built folder; open {parent} and select the "
                "split by name"
            )
        raise ShardError(
            f"{folder}: no {NAME} found; the folder was not built by mslm-data, or its build has "
            "not finished: run the same build command again to resume it"
        )

    try:
        data = path.read_bytes()
    except OSError as error:
        raise ShardError(f"{path}: cannot read the file: {error.strerror}") from None
    return parse_manifest(data, path)


def parse_manifest(data: bytes, path: Path | str) -> Manifest:
    """Parse and check the content of a manifest.

    Args:
        data: Content of the file.
        path: Path or URL of the file, for messages.

    Raises:
        ShardError: The manifest has another format, or is damaged or inconsistent.
    """
    try:
        value = msgspec.json.decode(data)
        # Check the format first: the manifest of another version may have other fields.
        _check_format(value, path)
        manifest = msgspec.convert(value, Manifest)
        msgspec.convert(manifest.pipeline, _Pipeline)
        _check(manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        # Of a message of the Unicode decoder, the class: it could have text.
        reason = type(error).__name__ if isinstance(error, UnicodeDecodeError) else error
        raise ShardError(
            f"{path}: expected a manifest of mslm-data: {reason}; build the folder again"
        ) from None

    ordered = sorted(manifest.splits, key=split_order)
    splits = {name: manifest.splits[name] for name in ordered}
    return msgspec.structs.replace(manifest, splits=splits)


def _check_format(value: Any, path: Path | str) -> None:
    """Check that this version of mslm-data can read the folder."""
    found = value.get("format") if isinstance(value, dict) else None
    if type(found) is int and found != FORMAT:
        raise ShardError(
            f"{path}: expected format {FORMAT}, got {found}; another version of mslm-data wrote "
            "the folder: use that version, or build the folder again into another --out"
        )


def _check(manifest: Manifest) -> None:
    """Check what the types of the fields do not say.

    Raises:
        ValueError: Names, ids or counts contradict each other.
    """
    if list(manifest.tags) != tag_names(manifest.labels):
        raise ValueError("the tags do not match the labels")
    for name in ("labels", "doc_labels"):
        labels = getattr(manifest, name) or ()
        if len(set(labels)) < len(labels):
            raise ValueError(f"expected different {name}")

    ids = manifest.token_ids
    largest = max(ids.mask, ids.pad, ids.unk, ids.bos, ids.eos, *ids.sentinels, *ids.special)
    if largest >= ids.size:
        raise ValueError(f"expected special ids below {ids.size}, got {largest}")

    for name, split in manifest.splits.items():
        if len({shard.file for shard in split.shards}) < len(split.shards):
            raise ValueError(f"{name}: expected each shard once")
        sums = {
            "sequences": sum(shard.rows for shard in split.shards),
            "tokens": sum(shard.tokens for shard in split.shards),
            "mentions": sum(shard.mentions for shard in split.shards),
        }
        for count, expected in sums.items():
            if getattr(split, count) != expected:
                raise ValueError(f"{name}: the counts of the shards do not add up to {count}")
        try:
            split.check()
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
