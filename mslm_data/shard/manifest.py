"""Reads and writes `manifest.json`, the record of how a folder was built and of its contents.

The manifest has no times, host names or paths, so that equal builds have equal bytes. A build
writes it last: a folder without a manifest is unfinished.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from mslm_data.data.bio import MAX_LABELS, tag_names
from mslm_data.data.columns import FORMAT, schema
from mslm_data.data.counts import Counts
from mslm_data.data.document import split_order
from mslm_data.data.examples import TokenIds
from mslm_data.errors import ShardError
from mslm_data.io.files import canonical_json, write_whole
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.write import ShardRecord

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
SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Valid names of splits. They are folder names, and cannot point outside the built folder."""
_SHARD_NAME = re.compile(r"data-[0-9]{5}-of-[0-9]{5}\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")


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


@dataclass(frozen=True, kw_only=True)
class Manifest:
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
            number of documents, seed, and digest of the rows; and `of`, the same record of the
            original folder if it is a subset too. Default: None.
    """

    format: int
    name: str
    pipeline: Mapping[str, Any]
    plan: str
    versions: Mapping[str, str]
    annotator: str
    segmenter: str
    tokenizer: Mapping[str, Any]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    about: Mapping[str, Any]
    splits: Mapping[str, SplitRecord]
    doc_labels: tuple[str, ...] | None = None
    found_by: tuple[FoundByRecord, ...] | None = None
    subset: Mapping[str, Any] | None = None

    @property
    def token_ids(self) -> TokenIds:
        """Special ids of the tokenizer."""
        return msgspec.convert(self.tokenizer["ids"], TokenIds)

    @property
    def schema(self) -> pa.Schema:
        """Schema of all shards."""
        optional = {
            "weak": self.weak,
            "text": self.pipeline["encode"]["keep_text"],
            "documents": self.doc_labels is not None,
            "joined": self.joined,
            "context": self.context,
        }
        kinds = {kind for kind, is_present in optional.items() if is_present}
        return schema(self.labels, kinds, self.doc_labels or ())

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
    def weak(self) -> bool:
        """Whether mentions have concepts and scores (weak supervision)."""
        return bool(self.pipeline["annotate"]["weak"])

    @property
    def context(self) -> bool:
        """Whether mentions have context flags (`annotate.context`)."""
        return bool(self.pipeline["annotate"].get("context", False))

    @property
    def joined(self) -> bool:
        """Whether rows may have several sentences (`encode.join`)."""
        return bool(self.pipeline["encode"]["join"] != "none")

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
    content = msgspec.to_builtins(manifest)
    for name in ("doc_labels", "found_by", "subset"):
        if content[name] is None:
            del content[name]
    write_whole(folder / NAME, [canonical_json(content)])


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
        # Check the format first: a newer manifest may have other fields.
        version = value.get("format") if isinstance(value, dict) else None
        if isinstance(version, int) and not isinstance(version, bool):
            _check_format(path, version)
        manifest = msgspec.convert(value, Manifest)
        ids = manifest.token_ids
        msgspec.convert(manifest.pipeline, _Pipeline)
    except (msgspec.DecodeError, KeyError) as error:
        raise _damaged(path, str(error)) from None
    except (TypeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, type(error).__name__) from None

    _check_labels(path, manifest)
    _check_doc_labels(path, manifest.doc_labels or ())
    _check_tokenizer(path, manifest, ids)
    for name, split in manifest.splits.items():
        _check_shards(path, name, split)
        _check_accounts(path, name, split)

    ordered = sorted(manifest.splits, key=split_order)
    return replace(manifest, splits={name: manifest.splits[name] for name in ordered})


def _damaged(path: Path | str, reason: str) -> ShardError:
    return ShardError(f"{path}: expected a manifest of mslm-data: {reason}; build the folder again")


def _check_format(path: Path | str, version: int) -> None:
    """Check that this version of mslm-data can read the folder."""
    if version == FORMAT:
        return

    if version > FORMAT:
        advice = "a newer mslm-data wrote the folder: upgrade, or build it again"
    else:
        advice = (
            "an older mslm-data wrote the folder: remove it, or choose another --out, "
            "and build it again"
        )
    raise ShardError(f"{path}: expected format {FORMAT}, got {version}; {advice}")


def _check_labels(path: Path | str, manifest: Manifest) -> None:
    """Check that labels are unique and match the tags."""
    if list(manifest.tags) != tag_names(manifest.labels):
        raise ShardError(f"{path}: the tags do not match the labels; build the folder again")
    if len(set(manifest.labels)) < len(manifest.labels) or len(manifest.labels) > MAX_LABELS:
        raise ShardError(
            f"{path}: expected at most {MAX_LABELS} labels, without duplicates; build the folder "
            "again"
        )


def _check_doc_labels(path: Path | str, doc_labels: Sequence[str]) -> None:
    """Check that document labels are unique."""
    if len(set(doc_labels)) < len(doc_labels) or len(doc_labels) > MAX_LABELS:
        raise ShardError(
            f"{path}: expected at most {MAX_LABELS} different doc_labels; build the folder again"
        )


def _check_tokenizer(path: Path | str, manifest: Manifest, ids: TokenIds) -> None:
    """Check the special ids and the tokenizer's digest."""
    if not 1 <= ids.size < 1 << 31:
        raise ShardError(f"{path}: expected a tokenizer with at least one id, got {ids.size}")

    named = [id_ for id_ in (ids.mask, ids.pad, ids.unk) if id_ != -1]
    outside = [id_ for id_ in (*named, *ids.special) if not 0 <= id_ < ids.size]
    if outside:
        raise ShardError(
            f"{path}: expected special ids below {ids.size}, got {outside[0]}; build the folder "
            "again"
        )
    if not _SHA256.fullmatch(str(manifest.tokenizer.get("sha256"))):
        raise ShardError(f"{path}: the sha256 of the tokenizer is missing; build the folder again")


def _check_shards(path: Path | str, name: str, split: SplitRecord) -> None:
    """Check that file names stay within the folder, and that counts of shards add up."""
    if not SPLIT_NAME.fullmatch(name):
        raise ShardError(
            f"{path}: a split name has characters other than letters, digits, '.', '_' and '-'"
        )

    names = {shard.file for shard in split.shards}
    if not all(map(_SHARD_NAME.fullmatch, names)) or len(names) < len(split.shards):
        raise ShardError(
            f"{path}: {name}: expected shards named data-NNNNN-of-NNNNN.arrow, each once"
        )
    if not all(_SHA256.fullmatch(shard.sha256) for shard in split.shards):
        raise ShardError(
            f"{path}: {name}: the sha256 of a shard is missing; build the folder again"
        )

    rows = sum(shard.rows for shard in split.shards)
    tokens = sum(shard.tokens for shard in split.shards)
    mentions = sum(shard.mentions for shard in split.shards)
    if (rows, tokens, mentions) != (split.sequences, split.tokens, split.mentions):
        raise ShardError(
            f"{path}: {name}: the counts of the shards do not add up to those of the split"
        )


def _check_accounts(path: Path | str, name: str, split: SplitRecord) -> None:
    """Check that all documents and mentions of a split are accounted for."""
    try:
        split.check()
    except ValueError as error:
        raise ShardError(f"{path}: {name}: {error}") from None
