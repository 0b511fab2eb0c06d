"""Opens built folders at URLs. Files are downloaded to the cache when they are needed.

The manifest is downloaded each time a folder is opened. Cached files are named by their SHA-256, so
that folders share equal shards. Each process checks the digest of a cached file once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any
from weakref import WeakSet

from mslm_data.errors import FetchError, ShardError
from mslm_data.io import cache, remote
from mslm_data.io.remote import RemoteError, redact_url
from mslm_data.log import LOGGER
from mslm_data.shard.manifest import NAME, Manifest, parse_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.write import ShardRecord

_MAX_BYTES = 1 << 30
"""Maximum size in bytes of files of unknown size: manifest and tokenizer."""

_FOLDERS: WeakSet[RemoteFolder] = WeakSet()


def _forget_held() -> None:
    for folder in _FOLDERS:
        folder.forget_held()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)


class RemoteFolder:
    """A built folder at a URL. It can be pickled for worker processes.

    With a limit for the cache, shards in use are protected from removal (`cache.Use`), also by
    other processes; the least recently used ones are closed to make room.

    Attributes:
        url: URL of the folder. It may contain secrets; messages use `str(folder)`.
        opened: SHA-256 of the manifest returned by `manifest`.
        cache_bytes: Maximum size of the folder's shards in the cache, in bytes; None for no limit.
    """

    def __init__(self, url: str, cache_bytes: int | None = None) -> None:
        """Create the folder without reading anything.

        Args:
            url: URL of the folder.
            cache_bytes: Maximum size of the folder's shards in the cache, in bytes. Default: None,
                no limit.

        Raises:
            ValueError: `cache_bytes` is not an integer of at least 1.
        """
        _check_bytes(cache_bytes)
        self.url = url
        self.opened = ""
        self.cache_bytes = cache_bytes
        self._sizes: dict[str, int] = {}
        """File name in the cache -> size in bytes, for each shard."""
        self._begin()

    def _begin(self) -> None:
        self._held: dict[RemoteShard, int] = {}
        """Shard protected by this process -> size in bytes; least recently used first."""
        self._lock = Lock()
        self._warned = False
        _FOLDERS.add(self)

    def forget_held(self) -> None:
        """Release all shards in a forked child."""
        # Another thread of the parent may have held the lock: it is never released in the child.
        self._lock = Lock()
        for shard in list(self._held):
            self.release(shard)

    def __getstate__(self) -> dict[str, Any]:
        names = ("url", "opened", "cache_bytes", "_sizes")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __str__(self) -> str:
        return redact_url(self.url)

    def __repr__(self) -> str:
        return f"RemoteFolder({str(self)!r})"

    def manifest(self) -> Manifest:
        """Download and check the manifest.

        Raises:
            FetchError: The manifest is missing or unreachable.
            ShardError: The manifest is damaged, or has another format.
        """
        try:
            data = remote.read(self.url, NAME, max_bytes=_MAX_BYTES)
        except RemoteError as error:
            raise FetchError(
                f"{self}/{NAME}: cannot read the manifest: {error.reason}; check the URL and your "
                "access to it"
            ) from None
        self.opened = hashlib.sha256(data).hexdigest()
        manifest = parse_manifest(data, f"{self}/{NAME}")
        if self.cache_bytes is not None:
            self._sizes = {
                f"{shard.sha256}.arrow": shard.bytes
                for split in manifest.splits.values()
                for shard in split.shards
            }
        return manifest

    def file(
        self,
        name: str,
        *,
        sha256: str,
        size: int | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Path:
        """Return the local path of a file, downloaded if it is not cached.

        Args:
            name: Relative path of the file.
            sha256: Digest in the manifest, already checked to be 64 hexadecimal digits.
            size: Size in bytes. Default: None, unknown.
            wanted: Returns whether the file is still needed. Called under the lock of the cached
                file, right before the download. Default: always.

        Raises:
            NotWantedError: The file is neither needed nor cached.
            FetchError: The file is missing, unreachable, or differs from the manifest; or the disk
                is full.
            ShardError: The remote folder has been rebuilt.
        """
        place = cache.folder("shards").absolute() / f"{sha256}{PurePosixPath(name).suffix}"

        downloaded = []

        def make(made: Path) -> None:
            if not wanted():
                raise NotWantedError
            self._make_room(place)
            remote.fetch(self.url, name, made, size=size, max_bytes=_MAX_BYTES, sha256=sha256)
            downloaded.append(name)

        try:
            cache.make_once(
                place, make, good=lambda path: cache.holds(path, sha256), error=FetchError
            )
        except RemoteError as error:
            self._check_unchanged()
            expected = f"{size} bytes" if size is not None else "a file"
            raise FetchError(
                f"{self}/{name}: expected {expected} with sha256 {sha256}, got {error.reason}; "
                "try again later, or build the folder there again"
            ) from None
        if downloaded:
            cache.remember(place, sha256)  # hashed during the download
        return place

    def copy(self) -> Path:
        """Download the whole folder, with parallel downloads.

        Raises:
            FetchError: The folder has no files, is unreachable, or keeps changing.
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

    def hold(self, shard: RemoteShard, place: Path) -> bool:
        """Protect a cached file from removal; return whether it still exists."""
        with self._lock:
            if shard.use is None:
                shard.use = cache.Use.open(place)
            if shard.use is not None:
                self._held[shard] = shard.record.bytes
            return shard.use is not None

    def release(self, shard: RemoteShard) -> None:
        """Allow removal of a cached file."""
        with self._lock:
            if shard.use is not None:
                shard.use.release()
            shard.use = None
            self._held.pop(shard, None)

    def close_others(self, wanted: Sequence[RemoteShard]) -> None:
        """Close the least recently used shards until `wanted` fits into `cache_bytes`."""
        if self.cache_bytes is None:
            return
        with self._lock:
            for shard in wanted:
                if shard in self._held:
                    self._held[shard] = self._held.pop(shard)  # move to the end
            held = dict(self._held)

        total = sum(({**held, **{shard: shard.record.bytes for shard in wanted}}).values())
        for shard, size in held.items():
            if total <= self.cache_bytes:
                return
            if shard not in wanted:
                shard.close()
                total -= size

    def _make_room(self, place: Path) -> None:
        """Remove cached shards to make room for another; log a warning once if there is no room."""
        if self.cache_bytes is None or place.name not in self._sizes:
            return
        sizes = {place.with_name(name): size for name, size in self._sizes.items()}
        if cache.make_room(sizes, self.cache_bytes) or self._warned:
            return

        self._warned = True
        LOGGER.warning(
            "%s: expected room in cache_bytes = %d for %s, got shards that are all in use; the "
            "cache exceeds its limit: pass a larger cache_bytes, or a smaller open_shards",
            *(self, self.cache_bytes, place.name),
        )

    def _check_unchanged(self) -> None:
        """Check that the manifest has not changed since it was opened."""
        try:
            digest = hashlib.sha256(
                remote.read(self.url, NAME, max_bytes=_MAX_BYTES, tries=1)
            ).hexdigest()
        except RemoteError as error:
            digest = "" if error.missing else self.opened
        if digest != self.opened:
            got = "another manifest" if digest else "no manifest any more"
            raise ShardError(
                f"{self}: the folder has changed since it was opened ({got}); load it again"
            )


def _check_bytes(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"cache_bytes: expected a number of bytes of at least 1, got {value!r}")


class NotWantedError(Exception):
    """A download was cancelled because its file is no longer needed."""


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
        super().__init__(Path(name), record, manifest, in_memory)
        self._folder, self._name = folder, name
        self.use: cache.Use | None = None
        """Protection of the cached file; see `RemoteFolder.hold`."""

    def fetch(self) -> Path:
        """Return the local path of the shard, downloaded if it is not cached.

        With a limit for the cache, the file is protected from removal until `close`.

        Raises:
            FetchError: See `RemoteFolder.file`.
            ShardError: See `RemoteFolder.file`.
        """
        if self._folder.cache_bytes is None:
            return self._local()
        return self._held()

    def _held(self) -> Path:
        """Download the shard if necessary, and protect it from removal."""
        while True:
            place = self._local()
            # Another process may have removed it between download and protection: try again.
            if self._folder.hold(self, place):
                return place

    def fetch_ahead(self, wanted: Callable[[], bool]) -> None:
        """Download the shard without protecting it from removal.

        Args:
            wanted: Returns whether the shard is still needed, see `RemoteFolder.file`.

        Raises:
            FetchError: See `RemoteFolder.file`.
            ShardError: See `RemoteFolder.file`.
        """
        with suppress(NotWantedError):
            self._local(wanted)

    def _local(self, wanted: Callable[[], bool] = lambda: True) -> Path:
        record = self.record
        return self._folder.file(self._name, sha256=record.sha256, size=record.bytes, wanted=wanted)

    def close(self) -> None:
        """Close the file, and allow its removal from the cache."""
        if not self._in_memory:
            super().close()
            self._folder.release(self)

    @property
    def folder(self) -> RemoteFolder:
        """The built folder."""
        return self._folder

    def __reduce__(self) -> tuple[type[RemoteShard], tuple[Any, ...]]:
        about = self.record, self.manifest, self._in_memory
        return RemoteShard, (self._folder, self._name, *about)

    def _open(self) -> None:
        while True:
            # Protect the file while it is opened, even without a limit: another process may read
            # the same folder with a limit, and remove files.
            self._path = self._held()
            try:
                super()._open()
            except ShardError:
                self._folder.release(self)
                if self.path.exists():
                    raise
                continue  # removed by the user: download it again
            if self._in_memory or self._folder.cache_bytes is None:
                self._folder.release(self)
            return


def bring(shards: Iterable[Shard]) -> None:
    """Download remote shards that are not open, in parallel.

    With a limit for the cache, the least recently used shards are closed first.

    Raises:
        FetchError: See `RemoteFolder.file`.
        ShardError: See `RemoteFolder.file`.
    """
    remote_shards = [shard for shard in shards if isinstance(shard, RemoteShard)]
    if not remote_shards:
        return
    remote_shards[0].folder.close_others(remote_shards)
    remote.together([shard.fetch for shard in _not_open(remote_shards)])


def fetches_ahead(
    shards: Iterable[Shard], wanted: Callable[[], bool]
) -> list[Callable[[], object]]:
    """Return download jobs for remote shards that are not open.

    Args:
        shards: Shards of a split.
        wanted: Returns whether the shards are still needed, see `RemoteFolder.file`.
    """
    remote_shards = [shard for shard in shards if isinstance(shard, RemoteShard)]
    return [partial(shard.fetch_ahead, wanted) for shard in _not_open(remote_shards)]


def _not_open(shards: Iterable[RemoteShard]) -> list[RemoteShard]:
    """Return the shards that are not open, one for each distinct file."""
    return list({shard.record.sha256: shard for shard in shards if not shard.is_open}.values())
