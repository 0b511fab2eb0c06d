"""Fetches a pipeline's corpus from its public home, checks it against its sha256 and keeps it.

The result is a folder that holds exactly the pipeline's files, each below a folder named like its
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
    """Return the folder of a pipeline's corpus, after fetching the files that it lacks.

    A file that is there is kept if its digest is right, and fetched again if not. Each file appears
    whole or not at all. Of several processes one fetches, and the others wait. A change of
    `entries` makes another folder, so nothing old is left in it.

    Args:
        pipeline_name: Such as `blurb/bc2gm`; for messages and the folder's name.
        entries: The pipeline's `[[source.fetch]]`.
        cache: Root of the cache; see `cache.folder`.
        progress: Told how far each file is.

    Returns:
        Paths to read as if they had been given with `--input`.

    Raises:
        FetchError: The pipeline names nothing to fetch, or a file cannot be had. No half file is
            left behind.
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
                    _bring(root, places, progress)
        except OSError as error:
            raise FetchError(
                f"expected to write below {root}, got {error.strerror}; is the disk full?"
            ) from None
    return [root / "files"]


@contextmanager
def _named_errors(pipeline_name: str) -> Iterator[None]:
    """Raise errors of the block as FetchError that names the pipeline."""
    try:
        yield
    except FetchError as error:
        raise FetchError(f"pipeline '{pipeline_name}': {error}") from None
    except SourceError as error:
        raise FetchError(
            f"pipeline '{pipeline_name}': {error}; or pass the corpus with --input"
        ) from None


def _bring(root: Path, places: Mapping[Path, Fetch], progress: Progress | None) -> None:
    """Download and unpack the files that are not there yet, and remove what is not of them."""
    for path in _strange(root, places):
        path.unlink()
    for place, entry in places.items():
        if not _is_whole(place, entry):
            with caches.staging(place) as temporary:
                came = temporary / place.name
                download(entry.url, came, sha256=entry.sha256, progress=progress)
                caches.settle(came, place)
        if not _is_unpacked(root, place, entry):
            _unpack(place, _unpacked(root, place, entry))


def _folder_name(pipeline_name: str, entries: Sequence[Fetch]) -> str:
    parts = [(entry.split, entry.url, entry.sha256, entry.unpack) for entry in entries]
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return f"{pipeline_name.replace('/', '--')}-{digest[:12]}"


def _places(root: Path, entries: Sequence[Fetch]) -> dict[Path, Fetch]:
    """Return where each file goes: archives beside the folder that is read, all others into it.

    Raises:
        FetchError: Two files of a split have one name.
    """
    places: dict[Path, Fetch] = {}
    taken = set()
    for entry in entries:
        name = PurePosixPath(unquote(urlsplit(entry.url).path)).name
        place = root / ("archives" if entry.unpack else "files") / entry.split / name
        read = _unpacked(root, place, entry) if entry.unpack else place
        if not name or read in taken:
            raise FetchError(
                f"{redact_url(entry.url)}: expected a file name that no other file of the split has"
            )
        taken.add(read)
        places[place] = entry
    return places


def _is_complete(root: Path, places: Mapping[Path, Fetch]) -> bool:
    try:
        return not _strange(root, places) and all(
            _is_whole(place, entry) and _is_unpacked(root, place, entry)
            for place, entry in places.items()
        )
    except FileNotFoundError:  # another process is at work in there
        return False


def _is_whole(place: Path, entry: Fetch) -> bool:
    return place.is_file() and hash_file(place) == entry.sha256


def _strange(root: Path, places: Mapping[Path, Fetch]) -> list[Path]:
    """Return the files in the folder that is read which the pipeline does not name."""
    unpacked = [_unpacked(root, place, entry) for place, entry in places.items() if entry.unpack]
    return [
        path
        for path in (root / "files").rglob("*")
        if path.is_file()
        and path not in places
        and not any(folder in path.parents for folder in unpacked)
    ]


def _unpacked(root: Path, place: Path, entry: Fetch) -> Path:
    """Return the folder that an archive is unpacked to, below the folder that is read."""
    return root / "files" / entry.split / archive.stem(place.name)


def _record(place: Path) -> Path:
    """Return the record of what an archive held, which lies beside the archive."""
    return place.with_name(f"{place.name}.json")


def _is_unpacked(root: Path, place: Path, entry: Fetch) -> bool:
    return not entry.unpack or caches.is_intact(_unpacked(root, place, entry), _record(place))


def _unpack(place: Path, folder: Path) -> None:
    with caches.staging(folder) as temporary:
        unpacked = archive.unpack(place, temporary / "unpacked")
        caches.seal(unpacked, _record(place))
        caches.settle(unpacked, folder)
