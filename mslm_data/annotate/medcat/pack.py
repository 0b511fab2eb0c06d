"""Digests and private copies of MedCAT model packs.

Loading a pack can run its code: most packs contain pickles, and the JSON format can name classes to
import and call. So a pack is copied to the private cache, the digest of the copy is checked, and
only this copy is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from mslm_data.annotate.medcat.data_only import is_data_only
from mslm_data.errors import AnnotateError
from mslm_data.io import archive, cache
from mslm_data.io.files import SUFFIX, hash_file, open_private

_CHUNK_BYTES = 1 << 20


def digest(path: Path) -> str:
    """Return the SHA-256 of a pack, 64 hexadecimal digits.

    For a concept table (any file except a zip), this is the SHA-256 of the file. For a folder, and
    for a zip of the same files, it is the SHA-256 of the sorted lines `SHA256  NAME` for all files,
    as printed by `sha256sum`.

    Raises:
        AnnotateError: The pack does not exist, or is a damaged zip.
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
    """Return a pack that is safe to load, a private copy with the checked digest.

    Args:
        path: Folder, zip or concept table. Unlike MedCAT, this ignores a folder beside a zip.
        sha256: Expected `digest` of the pack, or SHA-256 of a zip file. "" accepts concept tables
            and packs with data only, such as those of `mslm-data vocab concepts`.

    Raises:
        AnnotateError: The pack is invalid or has another digest, needs a digest and none is given,
            is an unsafe zip, or the disk is full.
    """
    actual = digest(path)
    expected = sha256.lower()
    if expected and expected != actual and not _is_same_zip(path, expected, actual):
        raise AnnotateError(
            f"{path}: expected a pack with sha256 {expected}, got {actual}; nothing was loaded. If "
            "this is the right pack, and you trust it, pass its sha256"
        )
    if _is_table(path) and not sha256:
        return path

    copy = _copied(path, actual)
    if copy.is_dir() and not ((copy / "cdb").is_dir() or (copy / "cdb.dat").is_file()):
        raise AnnotateError(
            f"{path}: not a MedCAT model pack, it has neither a folder cdb nor a file cdb.dat"
        )
    if not sha256 and not is_data_only(copy):
        raise AnnotateError(
            f"{path}: loading this pack runs code from it, so nothing was loaded. If you trust its "
            f"origin: --set annotate.sha256={actual}"
        )
    return copy


def _is_table(path: Path) -> bool:
    return path.is_file() and path.suffix != ".zip"


def _is_same_zip(path: Path, sha256: str, files_digest: str) -> bool:
    """Return whether a zip file has this SHA-256, and its files have this digest."""
    if path.suffix != ".zip" or not path.is_file():
        return False

    # Compute both from a private copy, since the file could change in between.
    packs = cache.folder("packs", error=AnnotateError)
    try:
        with TemporaryDirectory(prefix=".", suffix=SUFFIX, dir=packs) as temporary:
            copy = Path(temporary) / "pack.zip"
            _write(copy, _chunks(path))
            return hash_file(copy) == sha256 and digest(copy) == files_digest
    except OSError as problem:
        raise AnnotateError(
            f"{path}: cannot copy it: {problem.strerror}; is the disk full?"
        ) from None


def _copied(path: Path, expected: str) -> Path:
    """Return a private copy of a pack. It is made once, and its digest is checked each time."""

    def make(made: Path) -> None:
        if _is_table(path):
            _write(made, _chunks(path))
        elif path.is_file():
            archive.unpack(path, made, error=AnnotateError)
        else:
            made.mkdir(mode=0o700)
            for name, file in _walk(path):
                _write(made / name, _chunks(file))

        # The pack may have changed since its digest was computed.
        actual = digest(made)
        if actual != expected:
            raise AnnotateError(
                f"{path}: the pack changed while it was read (digest {expected[:16]}, then "
                f"{actual[:16]}); wait until it is complete, and run the same command again"
            )

    place = cache.make_once(_place(path, expected), make, error=AnnotateError)
    actual = digest(place)
    if actual != expected:
        raise AnnotateError(
            f"{place}: expected the files of {path.name} with the digest {expected[:16]}, got "
            f"files with {actual[:16]}; delete this folder, and it is copied again"
        )
    return place


def _place(path: Path, digest: str) -> Path:
    suffix = path.suffix if _is_table(path) else ""
    return cache.folder("packs", error=AnnotateError) / f"{digest}{suffix}"


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield relative name and path of each file below a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def _files_in_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield relative name and SHA-256 of each file."""
    for name, path in _walk(folder):
        yield name, hash_file(path)


def _files_in_zip(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of each file."""
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
    with open_private(path) as file:
        for chunk in chunks:
            file.write(chunk)
