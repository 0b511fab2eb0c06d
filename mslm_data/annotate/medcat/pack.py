"""MedCAT model packs on disk: their digest, which is looked at before anything in them is read, and private copies.

Loading a pack is running it: most hold pickles, and the JSON form can name classes that are imported and called. So a
pack is loaded from a copy that nobody else can write, made of just the bytes whose digest was looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from mslm_data.annotate.medcat.data import is_data
from mslm_data.errors import AnnotateError
from mslm_data.io import archive, cache
from mslm_data.io.files import sha256_of

_AT_ONCE = 1 << 20


def digest(path: Path) -> str:
    """Return the SHA-256 of a pack as 64 hexadecimal digits.

    Of a concept table (a file that is no zip) it is the file's. Of a folder, and of a zip of the same files, it is
    that of the lines `SHA256  NAME` of all files, sorted by name: what `sha256sum` prints for them.

    Raises:
        AnnotateError: There is nothing there, or it is no whole zip of plain files.
    """
    if not path.exists():
        raise AnnotateError(
            f"{path}: expected a MedCAT model pack (a folder or a zip) or a concept table (.csv), found nothing; "
            f"`mslm-data vocab concepts` makes a pack"
        )
    if _is_table(path):
        return sha256_of(path)
    files = sorted(_zipped(path) if path.is_file() else _in_folder(path))
    return hashlib.sha256(
        "".join(f"{sha256}  {name}\n" for name, sha256 in files).encode()
    ).hexdigest()


def checked(path: Path, sha256: str) -> Path:
    """Return what can be loaded in the place of a pack: a private copy of the very bytes that were looked at.

    Args:
        path: A folder, a zip, or a concept table. A folder beside a zip, which MedCAT itself would load instead of it,
            is not looked at.
        sha256: Its `digest`, or of a zip also that of the file itself. "" accepts tables, and packs that are data only,
            such as those of `mslm-data vocab concepts`.

    Raises:
        AnnotateError: No pack, another digest, or one that has to be named and is not; a zip that is not to be
            trusted; a disk that is full.
    """
    found = digest(path)
    if sha256 and sha256.lower() != found and not _is_zip_of(path, sha256.lower(), found):
        raise AnnotateError(
            f"{path}: expected a pack with sha256 {sha256.lower()}, got {found}; nothing of it was loaded. "
            f"If this is the pack you mean, and you trust it, name its sha256"
        )
    if _is_table(path) and not sha256:
        return path
    copy = _copied(path, found)
    if copy.is_dir() and not ((copy / "cdb").is_dir() or (copy / "cdb.dat").is_file()):
        raise AnnotateError(
            f"{path}: expected a MedCAT model pack with a folder cdb or a file cdb.dat, got neither"
        )
    if not sha256 and not is_data(copy):
        raise AnnotateError(
            f"{path}: expected the sha256 of a pack that holds more than data, got none; nothing of it was loaded, as "
            f"loading it runs what is in it. If you trust where it is from: --set annotate.sha256={found}"
        )
    return copy


def _is_table(path: Path) -> bool:
    return path.is_file() and path.suffix != ".zip"


def _is_zip_of(path: Path, sha256: str, found: str) -> bool:
    """Return whether a zip has this SHA-256 and files of this digest: both of one copy, so of the same bytes."""
    if path.suffix != ".zip" or not path.is_file():
        return False
    place = _place(path, found)
    try:
        with cache.alone(place), cache.staging(place) as temporary:
            copy = temporary / "pack.zip"
            _write(copy, _pieces(path))
            return sha256_of(copy) == sha256 and digest(copy) == found
    except OSError as problem:
        raise AnnotateError(
            f"{path}: expected to copy it, got {problem.strerror}; is the disk full?"
        ) from None


def _copied(path: Path, found: str) -> Path:
    """Return a private copy of the pack's files, made once and hashed each time."""

    def make(made: Path) -> None:
        if _is_table(path):
            _write(made, _pieces(path))
        elif path.is_file():
            archive.unpack(path, made, error=AnnotateError)
        else:
            made.mkdir(mode=0o700)
            for name, file in _files(path):
                _write(made / name, _pieces(file))
        if digest(made) != found:
            raise AnnotateError(
                f"{path}: expected a pack that stays as it is, got other bytes the second time"
            )

    place = cache.once(_place(path, found), make, error=AnnotateError)
    if digest(place) != found:
        raise AnnotateError(
            f"{place}: expected the files of {path.name}, got others; delete this folder"
        )
    return place


def _place(path: Path, found: str) -> Path:
    return (
        cache.folder("packs", error=AnnotateError)
        / f"{found}{path.suffix if _is_table(path) else ''}"
    )


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def _in_folder(folder: Path) -> Iterator[tuple[str, str]]:
    for name, path in _files(folder):
        yield name, sha256_of(path)


def _zipped(path: Path) -> Iterator[tuple[str, str]]:
    for name, pieces in archive.members(path, error=AnnotateError):
        if pieces is not None:
            sha256 = hashlib.sha256()
            for piece in pieces:
                sha256.update(piece)
            yield PurePosixPath(name).as_posix(), sha256.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_AT_ONCE):
            yield piece


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with cache.private(path) as file:
        for piece in pieces:
            file.write(piece)
