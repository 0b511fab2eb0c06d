"""Makes local files from `--input`: copies URLs and unpacks archives.

Copies may be patients' notes, so they are cached in a folder that only its owner can read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mslm_data.errors import FetchError, SourceError
from mslm_data.io import archive, remote
from mslm_data.io import cache as caches
from mslm_data.io.files import hash_file
from mslm_data.io.http import Announced, ask, download
from mslm_data.io.remote import RemoteError, redact_url


def localise(inputs: Sequence[str | Path], *, cache: Path | None = None) -> list[Path]:
    """Return local files and folders for inputs. Local paths are unchanged.

    A copy is reused while the original looks unchanged (size, time, ETag, as reported by the
    server), an unpacked folder while its archive has the same bytes. Both are verified against the
    digests recorded when they were made, and made again if they differ.

    Args:
        inputs: Local paths, http(s) URLs, or URLs of any file system known to fsspec.
        cache: Root of the cache; see `cache.folder`.

    Raises:
        SourceError: An input is empty, missing or unreachable, or an archive is unsafe.
        MissingExtraError: fsspec needs another package for the file system.
    """
    return [_localise(str(text), cache) for text in inputs]


def _localise(text: str, cache: Path | None) -> Path:
    if not text:  # Path("") would be the current folder
        raise SourceError(
            "--input: expected a file or a folder, got an empty name; is a shell variable unset?"
        )
    path = remote.local(text)
    if path is not None:
        path = path.expanduser()
    elif text.startswith(("http://", "https://")):
        path = _from_http(text, caches.folder("inputs", cache=cache))
    else:
        path = _from_fsspec(text, caches.folder("inputs", cache=cache))

    if not path.exists():
        raise SourceError(f"{path}: expected a file or a folder, found none; check --input")
    if path.is_file() and archive.is_archive(path.name):
        return _unpacked(path, caches.folder("unpacked", cache=cache))
    return path


def _unpacked(path: Path, folder: Path) -> Path:
    """Unpack an archive, unless the same bytes have been unpacked before."""
    digest = hash_file(path)
    name = f"{archive.stem(path.name)}-{digest[:16]}"

    def make(made: Path) -> None:
        archive.unpack(path, made / name)
        # The folder is named by digest, so its content must not come from other bytes.
        if hash_file(path) != digest:
            raise SourceError(
                f"{path}: the archive changed while it was unpacked; wait until it is complete, "
                "and run the same command again"
            )

    return caches.make_sealed(folder / name, make) / name


def _from_http(url: str, folder: Path) -> Path:
    """Download a file, unless the server reports that a cached copy is current."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if name in ("", ".."):
        name = "input"

    # Without ETag and Last-Modified, the file is downloaded again: it may have changed.
    version = ask(url)
    if version.is_named and _is_kept(_place(folder, url, version)):
        return caches.files_folder(_place(folder, url, version)) / name

    # One lock for all versions of a URL, because the version to be downloaded is not known yet.
    held = folder / _digest(url)
    try:
        with caches.hold_place(held), caches.staging(held) as temporary:
            # Another process may have downloaded it while this one waited for the lock.
            if version.is_named and _is_kept(_place(folder, url, version)):
                return caches.files_folder(_place(folder, url, version)) / name

            made = temporary / "copy"
            path = caches.files_folder(made) / name
            downloaded = download(url, path, expected=version)
            caches.seal(caches.files_folder(made), caches.digests_file(made))

            # Name the copy by the version received, which may be newer than the one announced.
            place = _place(folder, url, downloaded if downloaded.is_named else hash_file(path))
            if not _is_kept(place):
                caches.settle(made, place)
    except OSError as error:
        raise FetchError(
            f"{folder / name}: expected to write it, got {error.strerror}; is the disk full?"
        ) from None
    return caches.files_folder(place) / name


def _place(folder: Path, url: str, version: Announced | str) -> Path:
    """Return the folder of a version of a URL's file."""
    return folder / _digest(url, version)


def _is_kept(place: Path) -> bool:
    return caches.is_intact(caches.files_folder(place), caches.digests_file(place))


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _from_fsspec(url: str, folder: Path) -> Path:
    """Copy a file or a folder from a file system of fsspec."""
    try:
        return remote.copy(url, folder)
    except RemoteError as error:
        if error.missing:
            raise SourceError(
                f"{redact_url(url)}: expected a file or a folder, found none; check --input"
            ) from None
        raise SourceError(
            f"{redact_url(url)}: cannot copy it: {error.reason}; check --input and your access to "
            "it"
        ) from None
