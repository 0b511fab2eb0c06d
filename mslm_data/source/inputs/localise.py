"""Makes local files of what `--input` was given: URLs are copied, archives unpacked.

Copies may be patients' notes, so they go into a cache folder that only its owner can read.
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
    """Return local files and folders for what a user passed; local paths stay as they are.

    A copy is used again while the original looks unchanged (size, time, ETag, as far as its server
    says), an unpacked folder while its archive has the same bytes. Both are compared with the
    digests that were recorded when they were made, and made again if they differ.

    Args:
        inputs: Local paths, URLs of http(s), or of any file system that fsspec knows.
        cache: Root of the cache; see `cache.folder`.

    Raises:
        SourceError: An input is empty, missing or out of reach, or an archive that is not to be
            trusted.
        MissingExtraError: fsspec knows the file system but lacks its package.
    """
    return [_localise(str(text), cache) for text in inputs]


def _localise(text: str, cache: Path | None) -> Path:
    if not text:  # as a path it would be the current folder
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
    """Unpack an archive, unless the same bytes were unpacked before."""
    digest = hash_file(path)
    name = f"{archive.stem(path.name)}-{digest[:16]}"

    def make(made: Path) -> None:
        archive.unpack(path, made / name)
        # What is kept under a digest must be of these bytes, also for later archives.
        if hash_file(path) != digest:
            raise SourceError(
                f"{path}: the archive changed while it was unpacked; wait until it is complete, "
                "and run the same command again"
            )

    return caches.make_sealed(folder / name, make) / name


def _from_http(url: str, folder: Path) -> Path:
    """Download a file, unless the server says that an earlier copy is still the same."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if name in ("", ".."):
        name = "input"

    version = ask(url)
    if version.is_named and _is_kept(_place(folder, url, version)):
        return caches.files_folder(_place(folder, url, version)) / name

    # All copies of a URL are made by whoever holds one lock, as nobody knows yet which will come.
    held = folder / _digest(url)
    try:
        with caches.hold_place(held), caches.staging(held) as temporary:
            # Another process may have downloaded it while this one waited.
            if version.is_named and _is_kept(_place(folder, url, version)):
                return caches.files_folder(_place(folder, url, version)) / name

            made = temporary / "copy"
            path = caches.files_folder(made) / name
            came = download(url, path, expected=version)
            caches.seal(caches.files_folder(made), caches.digests_file(made))

            # A copy is named by what came, which may be newer than what was announced.
            place = _place(folder, url, came if came.is_named else hash_file(path))
            if not _is_kept(place):
                caches.settle(made, place)
    except OSError as error:
        raise FetchError(
            f"{folder / name}: expected to write it, got {error.strerror}; is the disk full?"
        ) from None
    return caches.files_folder(place) / name


def _place(folder: Path, url: str, version: Announced | str) -> Path:
    """Return where a version of a URL's file is kept."""
    return folder / _digest(url, version)


def _is_kept(place: Path) -> bool:
    return caches.is_intact(caches.files_folder(place), caches.digests_file(place))


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _from_fsspec(url: str, folder: Path) -> Path:
    """Copy a file, or a folder with all below it, from a file system of fsspec."""
    try:
        return remote.copy(url, folder)
    except RemoteError as error:
        if error.missing:
            raise SourceError(
                f"{redact_url(url)}: expected a file or a folder, found none; check --input"
            ) from None
        raise SourceError(
            f"{redact_url(url)}: expected to copy it, got {error.reason}; check --input and your "
            "access to it"
        ) from None
