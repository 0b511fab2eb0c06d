"""Opens built folders at URLs, whose files come into the cache as they are wanted.

The manifest is fetched whenever a folder is opened. What it names is kept under its own SHA-256, so
equal shards of several folders are kept once, and a kept file is hashed once by each process before
it is believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.examples import TokenIds
from mslm_data.errors import FetchError, ShardError
from mslm_data.io import cache, remote
from mslm_data.io.remote import RemoteError, shown
from mslm_data.shard.manifest import NAME, Manifest, parse_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.write import ShardRecord

_MOST_BYTES = 1 << 30
"""The largest file that is fetched without a known size: the manifest or the tokenizer."""


class RemoteFolder:
    """Open a built folder at a URL; small, so that it travels to workers.

    Attributes:
        url: May hold secrets, so messages show `str(folder)` instead.
        opened: SHA-256 of the manifest that `manifest` returned.
    """

    def __init__(self, url: str) -> None:
        """Remember where the folder is; nothing is read yet."""
        self.url = url
        self.opened = ""

    def __str__(self) -> str:
        return shown(self.url)

    def __repr__(self) -> str:
        return f"RemoteFolder({str(self)!r})"

    def manifest(self) -> Manifest:
        """Fetch the manifest and check it.

        Raises:
            FetchError: None there, or out of reach.
            ShardError: One that cannot be believed, or of a newer format.
        """
        try:
            data = remote.read(self.url, NAME, most=_MOST_BYTES)
        except RemoteError as error:
            raise FetchError(
                f"{self}/{NAME}: expected the manifest of a built folder, got {error.reason}; "
                "check the URL and your access to it"
            ) from None
        self.opened = hashlib.sha256(data).hexdigest()
        return parse_manifest(data, f"{self}/{NAME}")

    def file(self, name: str, *, sha256: str, size: int | None = None) -> Path:
        """Return the local path of a file, which is fetched if it is not in the cache.

        Args:
            name: Its path below the folder.
            sha256: What the manifest says that it is: 64 hexadecimal digits, which it has been
                checked for.
            size: Its bytes; None where the manifest does not say.

        Raises:
            FetchError: Missing, out of reach, not what the manifest says, or a disk that is full.
            ShardError: The folder there is another by now.
        """
        place = cache.folder("shards") / f"{sha256}{PurePosixPath(name).suffix}"

        fetched = []

        def make(made: Path) -> None:
            remote.fetch(self.url, name, made, size=size, most=_MOST_BYTES, sha256=sha256)
            fetched.append(name)

        try:
            cache.once(place, make, good=lambda path: cache.holds(path, sha256), error=FetchError)
        except RemoteError as error:
            self._refuse_change()
            wanted = f"{size} bytes" if size is not None else "a file"
            raise FetchError(
                f"{self}/{name}: expected {wanted} with sha256 {sha256}, got {error.reason}; "
                "try again later, or build the folder there again"
            ) from None
        if fetched:
            cache.remember(place, sha256)  # what was fetched was hashed on its way
        return place

    def copy(self) -> Path:
        """Return a local copy of the whole folder, whose files are fetched at the same time.

        Raises:
            FetchError: Nothing there, a file out of reach, or a folder that keeps changing.
            ShardError: A URL of http, which cannot list a folder.
        """
        if self.url.startswith(("http://", "https://")):
            raise ShardError(
                f"{self}: expected a folder that can be listed, got http, which cannot list; "
                "verify a copy of the folder"
            )
        try:
            return remote.copy(self.url, cache.folder("inputs"))
        except RemoteError as error:
            raise FetchError(
                f"{self}: expected to copy a built folder, got {error.reason}; check the URL and "
                "your access to it"
            ) from None

    def artifact(self, name: str) -> Path | None:
        """Return the local copy of a lexicon or score column, None if `vocab/` lacks it.

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
                f"{self}/vocab/{name}: expected to copy it, got {error.reason}; "
                "check your access to it"
            ) from None

    def _refuse_change(self) -> None:
        """Raise if the manifest there is known to be another than the one that was opened."""
        try:
            now = hashlib.sha256(remote.read(self.url, NAME, most=_MOST_BYTES, tries=1)).hexdigest()
        except RemoteError as error:
            now = "" if error.missing else self.opened
        if now != self.opened:
            got = "another" if now else "none any more"
            raise ShardError(
                f"{self}: expected the folder that was opened, got {got}; it has changed since: "
                "load it again"
            )


class RemoteShard(Shard):
    """Read one shard of a remote folder, which is fetched when a row of it is first wanted."""

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

    def fetch(self) -> Path:
        """Return the local path of the shard, which is fetched if it is not in the cache.

        Raises:
            FetchError: See `RemoteFolder.file`.
            ShardError: See `RemoteFolder.file`.
        """
        return self._folder.file(self._name, sha256=self.record.sha256, size=self.record.bytes)

    def __reduce__(self) -> tuple[type[RemoteShard], tuple[Any, ...]]:
        about = self.record, self._ids, self._labels, self._in_memory
        return RemoteShard, (self._folder, self._name, *about)

    def _open(self) -> pa.RecordBatch:
        self.path = self.fetch().resolve()
        return super()._open()

    def _refuse_altered(self, data: pa.Buffer | None) -> None:
        """Do nothing: `RemoteFolder.file` has compared the bytes already."""


def bring(shards: Iterable[Shard]) -> None:
    """Fetch those of some shards that are remote and not open yet, at the same time.

    Raises:
        FetchError: See `RemoteFolder.file`.
        ShardError: See `RemoteFolder.file`.
    """
    wanted = {
        shard.record.sha256: shard.fetch
        for shard in shards
        if isinstance(shard, RemoteShard) and not shard.is_open
    }
    remote.together(wanted.values())
