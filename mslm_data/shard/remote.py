"""Opens built folders at URLs; files are downloaded to the cache on demand.

The manifest is fetched whenever a folder is opened. What it names is kept under its own SHA-256, so
equal shards of several folders are kept once, and a kept file is hashed once by each process before
it is believed.
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

import pyarrow as pa

from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.examples import TokenIds
from mslm_data.errors import FetchError, ShardError
from mslm_data.io import cache, remote
from mslm_data.io.remote import RemoteError, redact_url
from mslm_data.log import LOGGER
from mslm_data.shard.manifest import NAME, Manifest, parse_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.write import ShardRecord

_MOST_BYTES = 1 << 30
"""The largest file that is fetched without a known size: the manifest or the tokenizer."""

_FOLDERS: WeakSet[RemoteFolder] = WeakSet()


def _forget_held() -> None:
    for folder in _FOLDERS:
        folder.forget_held()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)


class RemoteFolder:
    """A built folder at a URL; small enough to be pickled to workers.

    Attributes:
        url: May hold secrets, so messages show `str(folder)` instead.
        opened: SHA-256 of the manifest that `manifest` returned.
        cache_bytes: Bytes that its shards may take in the cache; None for any number.
    """

    def __init__(self, url: str, cache_bytes: int | None = None) -> None:
        """Remember where the folder is; nothing is read yet.

        Args:
            url: Where.
            cache_bytes: Bytes that its shards may take in the cache; None keeps all that come.

        Raises:
            ValueError: Not a number of bytes.
        """
        _check_bytes(cache_bytes)
        self.url = url
        self.opened = ""
        self.cache_bytes = cache_bytes
        self._sizes: dict[str, int] = {}
        """Name in the cache of each shard -> its bytes."""
        self._begin()

    def _begin(self) -> None:
        self._held: dict[RemoteShard, int] = {}
        """Shards that this process holds -> their bytes, the one used last at the end."""
        self._lock = Lock()
        self._said = False
        _FOLDERS.add(self)

    def forget_held(self) -> None:
        """Release all files after a fork, as another thread may have held the lock."""
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
            FetchError: None there, or out of reach.
            ShardError: One that cannot be believed, or of a newer format.
        """
        try:
            data = remote.read(self.url, NAME, max_bytes=_MOST_BYTES)
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
            name: Its path below the folder.
            sha256: What the manifest says that it is: 64 hexadecimal digits, which it has been
                checked for.
            size: Its bytes; None where the manifest does not say.
            wanted: Asked when nobody else can fetch it, before it is fetched.

        Raises:
            NotWantedError: It was not wanted any more, and is not in the cache.
            FetchError: Missing, out of reach, not what the manifest says, or a disk that is full.
            ShardError: The folder there is another by now.
        """
        place = cache.folder("shards") / f"{sha256}{PurePosixPath(name).suffix}"

        fetched = []

        def make(made: Path) -> None:
            if not wanted():
                raise NotWantedError
            self._make_room(place)
            remote.fetch(self.url, name, made, size=size, max_bytes=_MOST_BYTES, sha256=sha256)
            fetched.append(name)

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
        if fetched:
            cache.remember(place, sha256)  # what was fetched was hashed on its way
        return place

    def copy(self) -> Path:
        """Download the whole folder, files in parallel.

        Raises:
            FetchError: Nothing there, a file out of reach, or a folder that keeps changing.
            ShardError: A URL of http, which cannot list a folder.
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
        """Download a lexicon or score column; None if `vocab/` lacks it.

        Raises:
            FetchError: Out of reach, or a disk that is full.
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
        """Keep a file in the cache; return whether it is still there."""
        with self._lock:
            if shard.use is None:
                shard.use = cache.Use.open(place)
            if shard.use is not None:
                self._held[shard] = shard.record.bytes
            return shard.use is not None

    def release(self, shard: RemoteShard) -> None:
        """Allow a file to be evicted from the cache."""
        with self._lock:
            if shard.use is not None:
                shard.use.release()
            shard.use = None
            self._held.pop(shard, None)

    def close_others(self, wanted: Sequence[RemoteShard]) -> None:
        """Close the least recently used shards until the needed ones fit."""
        if self.cache_bytes is None:
            return
        with self._lock:
            for shard in wanted:
                if shard in self._held:
                    self._held[shard] = self._held.pop(shard)  # to the end
            held = dict(self._held)

        total = sum(({**held, **{shard: shard.record.bytes for shard in wanted}}).values())
        for shard, size in held.items():
            if total <= self.cache_bytes:
                return
            if shard not in wanted:
                shard.close()
                total -= size

    def _make_room(self, place: Path) -> None:
        """Evict shards until another one fits; warn if they do not."""
        if self.cache_bytes is None or place.name not in self._sizes:
            return
        sizes = {place.with_name(name): size for name, size in self._sizes.items()}
        if cache.make_room(sizes, self.cache_bytes) or self._said:
            return

        self._said = True
        LOGGER.warning(
            "%s: expected room in cache_bytes = %d for %s, got shards that are all being read; "
            "they take more now: pass more, or a smaller open_shards",
            *(self, self.cache_bytes, place.name),
        )

    def _check_unchanged(self) -> None:
        """Check that the remote folder still has the manifest that was opened."""
        try:
            now = hashlib.sha256(
                remote.read(self.url, NAME, max_bytes=_MOST_BYTES, tries=1)
            ).hexdigest()
        except RemoteError as error:
            now = "" if error.missing else self.opened
        if now != self.opened:
            got = "another manifest" if now else "no manifest any more"
            raise ShardError(
                f"{self}: the folder has changed since it was opened ({got}); load it again"
            )


def _check_bytes(value: Any) -> None:
    """Check that a cache size is a number of bytes or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"cache_bytes: expected a number of bytes of at least 1, got {value!r}")


class NotWantedError(Exception):
    """A download was cancelled, as its file is no longer needed."""


class RemoteShard(Shard):
    """A shard of a remote folder, downloaded when a row is first read."""

    def __init__(
        self,
        folder: RemoteFolder,
        name: str,
        record: ShardRecord,
        ids: TokenIds,
        labels: int | None = MAX_LABELS,
        in_memory: bool = False,
    ) -> None:
        """Remember where the shard is; nothing is fetched yet.

        Args:
            folder: The built folder.
            name: Its path there.
            record: What the manifest says of it.
            ids: The tokenizer's special ids, for the examples.
            labels: Passed to `Shard`.
            in_memory: Passed to `Shard`.
        """
        super().__init__(Path(name), record, ids, labels, in_memory)
        self._folder, self._name = folder, name
        self.use: cache.Use | None = None
        """Keeps the file in the cache; see `RemoteFolder.hold`."""

    def fetch(self) -> Path:
        """Return the local path of the shard, downloaded if it is not cached.

        Where the cache is bounded, the file stays there until `close`.

        Raises:
            FetchError: See `RemoteFolder.file`.
            ShardError: See `RemoteFolder.file`.
        """
        if self._folder.cache_bytes is None:
            return self._local()
        return self._held()

    def _held(self) -> Path:
        """Download the shard if needed, and keep it in the cache."""
        while True:
            place = self._local()
            if self._folder.hold(self, place):
                return place

    def fetch_ahead(self, wanted: Callable[[], bool]) -> None:
        """Download the shard; it may be evicted until it is opened.

        Args:
            wanted: Whether it is still to be read. It is asked when a reader of the shard would
                wait for this fetch, so that what is fetched is read next.

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
        """Close the file, so that it may be evicted from the cache."""
        if not self._in_memory:
            self._forget()
            self._folder.release(self)

    @property
    def folder(self) -> RemoteFolder:
        """The built folder."""
        return self._folder

    def __reduce__(self) -> tuple[type[RemoteShard], tuple[Any, ...]]:
        about = self.record, self._ids, self._labels, self._in_memory
        return RemoteShard, (self._folder, self._name, *about)

    def _open(self) -> pa.RecordBatch:
        while True:
            # Held while it is opened also where this cache is unbounded: another process may read
            # the same folder with a bound.
            self.path = self._held().resolve()
            try:
                batch = super()._open()
            except ShardError:
                self._folder.release(self)
                if self.path.exists():
                    raise
                continue  # removed by hand: it comes again
            if self._in_memory or self._folder.cache_bytes is None:
                self._folder.release(self)
            return batch

    def _check_digest(self, data: pa.Buffer | None) -> None:
        """Do nothing: `RemoteFolder.file` has checked the digest."""


def bring(shards: Iterable[Shard]) -> None:
    """Download shards that are remote and not open, in parallel.

    Where the cache is bounded, shards that were used first are closed before.

    Raises:
        FetchError: See `RemoteFolder.file`.
        ShardError: See `RemoteFolder.file`.
    """
    remote_shards = [shard for shard in shards if isinstance(shard, RemoteShard)]
    if remote_shards:
        remote_shards[0].folder.close_others(remote_shards)
    remote.together([shard.fetch for shard in _not_open(remote_shards)])


def fetches_ahead(
    shards: Iterable[Shard], wanted: Callable[[], bool]
) -> list[Callable[[], object]]:
    """Return functions that download shards that are remote and not open.

    Args:
        shards: Shards of a split.
        wanted: Whether they are still to be read; see `RemoteShard.fetch_ahead`.
    """
    remote_shards = [shard for shard in shards if isinstance(shard, RemoteShard)]
    return [partial(shard.fetch_ahead, wanted) for shard in _not_open(remote_shards)]


def _not_open(shards: Iterable[RemoteShard]) -> list[RemoteShard]:
    """Return the remote shards that are not open, each file once."""
    return list({shard.record.sha256: shard for shard in shards if not shard.is_open}.values())
