"""Downloads a pipeline's corpus from its public home, verifies its sha256 and caches it.

The result is a folder with exactly the files of the pipeline, each in a subfolder named after its
split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mslm_data.errors import FetchError, SourceError
from mslm_data.io import archive
from mslm_data.io import cache as caches
from mslm_data.io.files import hash_file
from mslm_data.io.http import Progress, download
from mslm_data.io.remote import redact_url
from mslm_data.pipeline import Fetch


def fetch(
    pipeline_name: str,
    entries: Sequence[Fetch],
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the folder of a pipeline's corpus, downloading missing files.

    Existing files with the right digest are kept, others are downloaded again. Files appear only
    when complete. If several processes need the corpus, one downloads it and the others wait.
    Different `entries` have different folders, so no old files remain.

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
        root = caches.folder("corpora", cache=cache) / _folder_name(pipeline_name, entries)
        places = _places(root, entries)
        try:
            if not _is_complete(root, places):
                with caches.hold_place(root):
                    _download_missing(root, places, progress)
        except OSError as error:
            raise FetchError(
                f"expected to write below {root}, got {error.strerror}; is the disk full?"
            ) from None
    return [root / "files"]


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


def _download_missing(root: Path, places: Mapping[Path, Fetch], progress: Progress | None) -> None:
    """Download and unpack missing files, and remove files that do not belong to the pipeline."""
    for path in _find_foreign(root, places):
        path.unlink()
    for place, entry in places.items():
        if not _is_whole(place, entry):
            with caches.staging(place) as temporary:
                downloaded = temporary / place.name
                download(entry.url, downloaded, sha256=entry.sha256, progress=progress)
                caches.settle(downloaded, place)
        if not _is_unpacked(root, place, entry):
            _unpack(place, _unpacked(root, place, entry))


def _folder_name(pipeline_name: str, entries: Sequence[Fetch]) -> str:
    parts = [(entry.split, entry.url, entry.sha256, entry.unpack) for entry in entries]
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return f"{pipeline_name.replace('/', '--')}-{digest[:12]}"


def _places(root: Path, entries: Sequence[Fetch]) -> dict[Path, Fetch]:
    """Return the path of each download. Archives are kept outside the folder that is read.

    Raises:
        FetchError: Two files of a split have the same name.
    """
    places: dict[Path, Fetch] = {}
    taken = set()
    for entry in entries:
        name = PurePosixPath(unquote(urlsplit(entry.url).path)).name
        place = root / ("archives" if entry.unpack else "files") / entry.split / name
        read = _unpacked(root, place, entry) if entry.unpack else place
        if not name or read in taken:
            raise FetchError(
                f"{redact_url(entry.url)}: expected a file name that is unique within the split"
            )
        taken.add(read)
        places[place] = entry
    return places


def _is_complete(root: Path, places: Mapping[Path, Fetch]) -> bool:
    try:
        return not _find_foreign(root, places) and all(
            _is_whole(place, entry) and _is_unpacked(root, place, entry)
            for place, entry in places.items()
        )
    except FileNotFoundError:  # another process is changing the folder
        return False


def _is_whole(place: Path, entry: Fetch) -> bool:
    return place.is_file() and hash_file(place) == entry.sha256


def _find_foreign(root: Path, places: Mapping[Path, Fetch]) -> list[Path]:
    """Return files in the folder to read that do not belong to the pipeline."""
    unpacked = [_unpacked(root, place, entry) for place, entry in places.items() if entry.unpack]
    return [
        path
        for path in (root / "files").rglob("*")
        if path.is_file()
        and path not in places
        and not any(folder in path.parents for folder in unpacked)
    ]


def _unpacked(root: Path, place: Path, entry: Fetch) -> Path:
    """Return the folder for an unpacked archive, within the folder to read."""
    return root / "files" / entry.split / archive.stem(place.name)


def _record(place: Path) -> Path:
    """Return the path of the record of an archive's files, beside the archive."""
    return place.with_name(f"{place.name}.json")


def _is_unpacked(root: Path, place: Path, entry: Fetch) -> bool:
    return not entry.unpack or caches.is_intact(_unpacked(root, place, entry), _record(place))


def _unpack(place: Path, folder: Path) -> None:
    with caches.staging(folder) as temporary:
        unpacked = archive.unpack(place, temporary / "unpacked")
        caches.seal(unpacked, _record(place))
        caches.settle(unpacked, folder)
