"""Downloads a pipeline's corpus from its public home, verifies its sha256 and caches it.

The result is a folder with exactly the files of the pipeline, each in a subfolder named after its
split. Downloads are cached beside it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mslm_data.errors import FetchError, SourceError
from mslm_data.io import archive, remote
from mslm_data.io import cache as caches
from mslm_data.io.files import open_private
from mslm_data.io.remote import Progress, RemoteError, redact_url
from mslm_data.pipeline import Fetch


def fetch(
    pipeline_name: str,
    entries: Sequence[Fetch],
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the folder of a pipeline's corpus, downloading missing files.

    The folder appears only when it is complete. If several processes need the corpus, one downloads
    it and the others wait. Different `entries` have different folders, so no old files remain.

    Args:
        pipeline_name: Name such as `blurb/bc2gm`, for messages and for the folder.
        entries: The pipeline's `[[source.fetch]]`.
        cache: Root of the cache; see `cache.folder`.
        progress: Callback for the progress of each file.

    Returns:
        Paths to read like those of `--input`.

    Raises:
        FetchError: The pipeline has no downloads, or a file cannot be downloaded. No partial file
            remains.
    """
    if not entries:
        raise FetchError(
            f"pipeline '{pipeline_name}': it has no download URL; pass the corpus with --input"
        )
    with _named_errors(pipeline_name):
        folder = caches.folder("corpora", cache=cache)
        names = _names(entries)

        def make(files: Path) -> None:
            for name, entry in zip(names, entries, strict=True):
                original = _download(entry, folder / "downloads", progress)
                if entry.unpack:
                    archive.unpack(original, files / name)
                else:
                    _copy(original, files / name)

        return [
            caches.make_once(folder / _folder_name(pipeline_name, entries), make, error=FetchError)
        ]


@contextmanager
def _named_errors(pipeline_name: str) -> Iterator[None]:
    """Convert errors in the block to FetchErrors that name the pipeline."""
    try:
        yield
    except FetchError as error:
        raise FetchError(f"pipeline '{pipeline_name}': {error}") from None
    except SourceError as error:
        raise FetchError(
            f"pipeline '{pipeline_name}': {error}; or pass the corpus with --input"
        ) from None


def _folder_name(pipeline_name: str, entries: Sequence[Fetch]) -> str:
    parts = [(entry.split, entry.url, entry.sha256, entry.unpack) for entry in entries]
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return f"{pipeline_name.replace('/', '--')}-{digest[:12]}"


def _names(entries: Sequence[Fetch]) -> list[Path]:
    """Return the path of each file, or of the folder of each archive, within the folder to read.

    Raises:
        FetchError: Two files of a split have the same name.
    """
    names: list[Path] = []
    for entry in entries:
        file = _file_name(entry)
        name = Path(entry.split) / (archive.stem(file) if entry.unpack else file)
        if file in ("", "..") or name in names:
            raise FetchError(
                f"{redact_url(entry.url)}: expected a file name that is unique within the split"
            )
        names.append(name)
    return names


def _file_name(entry: Fetch) -> str:
    return PurePosixPath(unquote(urlsplit(entry.url).path)).name


def _download(entry: Fetch, folder: Path, progress: Progress | None) -> Path:
    """Return a cached file, downloading it if it is missing."""

    def make(made: Path) -> None:
        try:
            if not entry.url.startswith(("http://", "https://")):
                raise RemoteError("a URL that is not http(s)", final=True)
            remote.fetch(entry.url, made, sha256=entry.sha256, progress=progress)
        except RemoteError as error:
            raise FetchError(
                f"{redact_url(entry.url)}: expected a file with sha256 {entry.sha256}, got "
                f"{error.reason}; try again later, or pass files already on disk with --input"
            ) from None

    return caches.make_once(folder / entry.sha256 / _file_name(entry), make, error=FetchError)


def _copy(original: Path, path: Path) -> None:
    # No link: its creation and removal would change the time stamps of files that builds read.
    with original.open("rb") as file, open_private(path) as copy:
        shutil.copyfileobj(file, copy)
