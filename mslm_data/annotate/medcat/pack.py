"""MedCAT model packs on disk: digests, and private copies.

Loading a pack is running it: most packs hold pickles, and the JSON form can name classes that are
imported and called. So the digest is compared before anything is read, and the pack is loaded from
a copy that nobody else can write, made of just the bytes whose digest was compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from mslm_data.annotate.medcat.data_only import is_data_only
from mslm_data.errors import AnnotateError
from mslm_data.io import archive, cache
from mslm_data.io.files import hash_file

_CHUNK_BYTES = 1 << 20


def digest(path: Path) -> str:
    """Return a pack's SHA-256 as 64 hexadecimal digits.

    A concept table (a file that is not a zip) has the file's. A folder, and a zip of the same
    files, have that of the lines `SHA256  NAME` of all files, sorted by name: the lines that
    `sha256sum` prints for them.

    Raises:
        AnnotateError: Nothing is there, or it is not a whole zip of plain files.
    """
    if not path.exists():
        raise AnnotateError(
            f"{path}: no such file or folder; pass a MedCAT model pack (folder or zip) or a "
            "concept table (.csv), or make a pack with `mslm-data vocab concepts`"
        )
    if _is_table(path):
        return hash_file(path)

    files = sorted(_files_in_zip(path) if path.is_file() else _files_in_folder(path))
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def checked(path: Path, sha256: str) -> Path:
    """Return a pack that is safe to load: a private copy of the bytes that were checked.

    Args:
        path: A folder, a zip, or a concept table. A folder beside a zip is ignored, though MedCAT
            itself would load it in place of the zip.
        sha256: The `digest` of the pack; of a zip also that of the file itself. "" accepts tables,
            and packs that are data only, such as those of `mslm-data vocab concepts`.

    Raises:
        AnnotateError: It is not a pack; its digest is another; it has to be named by its digest and
            is not; the zip must not be trusted; the disk is full.
    """
    found = digest(path)
    named = sha256.lower()
    if named and named != found and not _is_same_zip(path, named, found):
        raise AnnotateError(
            f"{path}: expected a pack with sha256 {named}, got {found}; nothing was loaded. If "
            "this is the right pack, and you trust it, pass its sha256"
        )
    if _is_table(path) and not sha256:
        return path

    copy = _copied(path, found)
    if copy.is_dir() and not ((copy / "cdb").is_dir() or (copy / "cdb.dat").is_file()):
        raise AnnotateError(
            f"{path}: not a MedCAT model pack, it has neither a folder cdb nor a file cdb.dat"
        )
    if not sha256 and not is_data_only(copy):
        raise AnnotateError(
            f"{path}: loading this pack runs code from it, so nothing was loaded. If you trust its "
            f"origin: --set annotate.sha256={found}"
        )
    return copy


def _is_table(path: Path) -> bool:
    return path.is_file() and path.suffix != ".zip"


def _is_same_zip(path: Path, sha256: str, found: str) -> bool:
    """Return whether a zip has this SHA-256, and its files this digest.

    Both are taken of one private copy, so they are of the same bytes.
    """
    if path.suffix != ".zip" or not path.is_file():
        return False

    place = _place(path, found)
    try:
        with cache.hold_place(place), cache.staging(place) as temporary:
            copy = temporary / "pack.zip"
            _write(copy, _chunks(path))
            return hash_file(copy) == sha256 and digest(copy) == found
    except OSError as problem:
        raise AnnotateError(
            f"{path}: expected to copy it, got {problem.strerror}; is the disk full?"
        ) from None


def _copied(path: Path, found: str) -> Path:
    """Return a private copy of the pack's files, made once and hashed each time."""

    def make(made: Path) -> None:
        if _is_table(path):
            _write(made, _chunks(path))
        elif path.is_file():
            archive.unpack(path, made, error=AnnotateError)
        else:
            made.mkdir(mode=0o700)
            for name, file in _walk(path):
                _write(made / name, _chunks(file))

        # The pack may have changed since its digest was taken.
        copied = digest(made)
        if copied != found:
            raise AnnotateError(
                f"{path}: the pack changed while it was read (digest {found[:16]}, then "
                f"{copied[:16]}); wait until it is complete, and run the same command again"
            )

    place = cache.make_once(_place(path, found), make, error=AnnotateError)
    copied = digest(place)
    if copied != found:
        raise AnnotateError(
            f"{place}: expected the files of {path.name} with the digest {found[:16]}, got files "
            f"with {copied[:16]}; delete this folder, and it is copied again"
        )
    return place


def _place(path: Path, found: str) -> Path:
    suffix = path.suffix if _is_table(path) else ""
    return cache.folder("packs", error=AnnotateError) / f"{found}{suffix}"


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder with their relative names."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def _files_in_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and SHA-256 of each file."""
    for name, path in _walk(folder):
        yield name, hash_file(path)


def _files_in_zip(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and SHA-256 of each file."""
    for name, chunks in archive.members(path, error=AnnotateError):
        if chunks is None:  # a folder
            continue
        sha256 = hashlib.sha256()
        for chunk in chunks:
            sha256.update(chunk)
        yield PurePosixPath(name).as_posix(), sha256.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    with cache.open_private(path) as file:
        for chunk in chunks:
            file.write(chunk)
