"""Opens built folders at URLs. Files are downloaded to the cache when they are first read.

The manifest is downloaded each time a folder is opened. Cached files are named by their SHA-256, so
that folders share equal shards.

The cache keeps all shards: a limit would need shared locks of open files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath

from mslm_data.errors import FetchError, ShardError
from mslm_data.io import cache, remote
from mslm_data.io.remote import RemoteError, redact_url
from mslm_data.shard.manifest import NAME, Manifest, parse_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.write import ShardRecord

_MAX_BYTES = 1 << 30
"""Maximum size in bytes of files of unknown size: manifest and tokenizer."""


class RemoteFolder:
    """A built folder at a URL. It can be pickled for worker processes.

    Attributes:
        url: URL of the folder. It may contain secrets; messages use `str(folder)`.
    """

    def __init__(self, url: str) -> None:
        """Create the folder without reading anything."""
        self.url = url

    def __str__(self) -> str:
        return redact_url(self.url)

    def __repr__(self) -> str:
        return f"RemoteFolder({str(self)!r})"

    def manifest(self) -> Manifest:
        """Download and check the manifest.

        Raises:
            FetchError: The manifest is missing or unreachable, or the disk of the cache has not
                enough room for the shards that are not cached.
            ShardError: The manifest is damaged, or has another format.
        """
        try:
            data = remote.read(self.url, NAME, max_bytes=_MAX_BYTES)
        except RemoteError as error:
            raise FetchError(
                f"{self}/{NAME}: cannot read the manifest: {error.reason}; check the URL and your "
                "access to it"
            ) from None
        manifest = parse_manifest(data, f"{self}/{NAME}")
        self._check_room(manifest)
        return manifest

    def file(self, name: str, *, sha256: str, size: int | None = None) -> Path:
        """Return the local path of a file, downloaded if it is not cached.

        Args:
            name: Relative path of the file.
            sha256: Digest in the manifest, already checked to be 64 hexadecimal digits.
            size: Size in bytes. Default: None, unknown.

        Raises:
            FetchError: The file is missing, unreachable, or differs from the manifest, as after
                another build of the folder; or the disk is full.
        """
        make = partial(
            remote.fetch, self.url, name=name, size=size, sha256=sha256, max_bytes=_MAX_BYTES
        )
        folder = cache.folder("shards", error=FetchError).absolute()
        try:
            return cache.make_once(folder / _cached_name(sha256, name), make, error=FetchError)
        except RemoteError as error:
            expected = f"{size} bytes" if size is not None else "a file"
            raise FetchError(
                f"{self}/{name}: expected {expected} with sha256 {sha256}, got {error.reason}; "
                "if the folder was built again, load it again; otherwise try again later"
            ) from None

    def copy(self) -> Path:
        """Download the whole folder, with parallel downloads.

        Raises:
            FetchError: The folder has no files, is unreachable, or changes meanwhile.
            ShardError: The URL is http(s), which cannot list files.
        """
        if self.url.startswith(("http://", "https://")):
            raise ShardError(
                f"{self}: http cannot list the files of a folder; download the folder, and verify "
                "the copy"
            )
        try:
            return remote.copy(self.url, cache.folder("inputs"))
        except RemoteError as error:
            raise FetchError(
                f"{self}: cannot copy the folder: {error.reason}; check the URL and your access to "
                "it"
            ) from None

    def artifact(self, name: str) -> Path | None:
        """Download a lexicon or score column from `vocab/`; return None if it does not exist.

        Raises:
            FetchError: The file is unreachable, or the disk is full.
        """
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return None
        try:
            return remote.copy(self.url, cache.folder("inputs"), name=f"vocab/{name}")
        except RemoteError as error:
            if error.missing:
                return None
            raise FetchError(
                f"{self}/vocab/{name}: cannot copy the file: {error.reason}; check your access to "
                "it"
            ) from None

    def _check_room(self, manifest: Manifest) -> None:
        """Check that the cache has room for all shards, before the first is downloaded."""
        folder = cache.folder("shards", error=FetchError)
        sizes = {
            shard.sha256: shard.bytes
            for split in manifest.splits.values()
            for shard in split.shards
            if not (folder / _cached_name(shard.sha256, shard.file)).exists()
        }
        free = shutil.disk_usage(folder).free
        needed = sum(sizes.values())
        if needed > free:
            raise FetchError(
                f"{self}: {len(sizes)} shards of {needed:,} bytes are to be downloaded to "
                f"{folder}, which has {free:,} bytes free, {needed - free:,} too few; free them, "
                f"or set {cache.VARIABLE} to a folder on a larger disk"
            )


def _cached_name(sha256: str, name: str) -> str:
    """Return the name of a file in the cache."""
    return f"{sha256}{PurePosixPath(name).suffix}"


class RemoteShard(Shard):
    """A shard of a remote folder, downloaded when a row is first read."""

    def __init__(
        self,
        folder: RemoteFolder,
        name: str,
        record: ShardRecord,
        manifest: Manifest,
        in_memory: bool = False,
    ) -> None:
        """Create the shard without downloading its file.

        Args:
            folder: Built folder.
            name: Relative path of the file.
            record: Record of the shard in the manifest.
            manifest: Manifest of the folder.
            in_memory: See `Shard`.
        """
        self._folder = folder
        self._name = name
        super().__init__(Path(name), record, manifest, in_memory)

    @property
    def path(self) -> Path:
        """The file of the shard, downloaded if it is not cached.

        Raises:
            FetchError: See `RemoteFolder.file`.
        """
        return self._folder.file(self._name, sha256=self.record.sha256, size=self.record.bytes)


def fetch_ahead(shards: Iterable[Shard]) -> remote.BackgroundDownload | None:
    """Start to download remote shards that are not open, one after the other.

    Reading a shard waits for its download.

    Returns:
        The download; None if all shards are local or open.
    """
    missing = [shard for shard in shards if isinstance(shard, RemoteShard) and not shard.is_open]

    def download() -> None:
        for shard in missing:
            shard.path  # noqa: B018 - downloads the file

    return remote.BackgroundDownload(download) if missing else None


def bring(shards: Iterable[Shard]) -> None:
    """Download remote shards that are not open, in parallel.

    Raises:
        FetchError: See `RemoteFolder.file`.
    """
    # One shard for each distinct file.
    missing = {
        shard.record.sha256: shard
        for shard in shards
        if isinstance(shard, RemoteShard) and not shard.is_open
    }
    remote.together([partial(getattr, shard, "path") for shard in missing.values()])
