"""Makes local files from `--input`: copies URLs and unpacks archives.

Copies may be patients' notes, so they are cached in a folder that only its owner can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mslm_data.errors import SourceError
from mslm_data.io import archive, remote
from mslm_data.io import cache as caches
from mslm_data.io.files import hash_file
from mslm_data.io.remote import RemoteError, redact_url


def localise(inputs: Sequence[str | Path], *, cache: Path | None = None) -> list[Path]:
    """Return local files and folders for inputs. Local paths are unchanged.

    A copy is reused while the original looks unchanged (size, time, ETag, as reported by the
    server), an unpacked folder while its archive has the same bytes.

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
    if path is None:
        path = _from_url(text, caches.folder("inputs", cache=cache))

    if path.is_fifo():
        raise SourceError(
            f"{path}: expected a file or a folder, got a pipe, which can be read only once; write "
            "its output to a file, and pass that to --input"
        )
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

    return caches.make_once(folder / name, make) / name


def _from_url(url: str, folder: Path) -> Path:
    """Copy a file or a folder at a URL."""
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
