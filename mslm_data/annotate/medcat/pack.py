"""Digests and private copies of MedCAT model packs.

Loading a pack can run its code: most packs contain pickles, and the JSON format can name classes to
import and call. So a pack is copied to the private cache, the digest of the copy is checked, and
only this copy is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io import archive, cache
from mslm_data.io.files import open_private

_CHUNK_BYTES = 1 << 20


def digest(path: Path) -> str:
    """Return the SHA-256 of a pack, 64 hexadecimal digits.

    For a folder, and for a zip of the same files, it is the SHA-256 of the lines that `sha256sum`
    prints for all files, sorted by name.

    Raises:
        AnnotateError: The pack does not exist, or is neither a folder nor a complete zip.
    """
    return _digest(_hash_files(path))


def _digest(files: Mapping[str, str]) -> str:
    lines = "".join(f"{files[name]}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _hash_files(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a pack."""
    hashes = {}
    for name, pieces in _files(path):
        sha256 = hashlib.sha256()
        for piece in pieces:
            sha256.update(piece)
        hashes[name] = sha256.hexdigest()
    return hashes


def check_consent(path: Path, sha256: str) -> str:
    """Check that a pack is of MedCAT 2, and named by its digest. Return the digest.

    Args:
        path: Folder or zip.
        sha256: Expected digest.

    Raises:
        AnnotateError: The pack is invalid, of MedCAT 1 or has another digest, or none is given.
    """
    files = _hash_files(path)
    if "cdb.dat" in files:
        raise AnnotateError(
            f"{path}: expected a pack of MedCAT 2, got one of MedCAT 1; convert it once with "
            "`python -m medcat.utils.legacy.legacy_converter OLD NEW`"
        )
    if not any(name.startswith("cdb/") for name in files):
        raise AnnotateError(f"{path}: not a MedCAT model pack, it has no folder cdb")

    actual = _digest(files)
    if not sha256:
        raise AnnotateError(
            f"{path}: loading this pack runs code from it, so nothing was loaded. If you trust its "
            f"origin: --set annotate.sha256={actual}"
        )
    if sha256.lower() != actual:
        raise AnnotateError(
            f"{path}: expected a pack with sha256 {sha256.lower()}, got {actual}; nothing was "
            "loaded. If this is the right pack, and you trust it, pass its sha256"
        )
    return actual


def checked(path: Path, sha256: str) -> Path:
    """Return a private copy of a pack. It is made once, and its digest is checked each time.

    Args:
        path: Folder or zip. Unlike MedCAT, this ignores a folder beside a zip.
        sha256: Expected digest.

    Raises:
        AnnotateError: From `check_consent`; or the zip is unsafe, or the disk is full.
    """
    expected = check_consent(path, sha256)

    def make(made: Path) -> None:
        for name, pieces in _files(path):
            with open_private(made / name) as file:
                file.writelines(pieces)

        # The pack may have changed since its digest was computed.
        actual = digest(made)
        if actual != expected:
            raise AnnotateError(
                f"{path}: the pack changed while it was read (digest {expected[:16]}, then "
                f"{actual[:16]}); wait until it is complete, and run the same command again"
            )

    place = cache.folder("packs", error=AnnotateError) / expected
    cache.make_once(place, make, error=AnnotateError)
    actual = digest(place)
    if actual != expected:
        raise AnnotateError(
            f"{place}: expected the files of {path.name} with the digest {expected[:16]}, got "
            f"files with {actual[:16]}; delete this folder, and it is copied again"
        )
    return place


def _files(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the relative name of each file, and its content in pieces."""
    if path.is_dir():
        for file in path.rglob("*"):
            if file.is_file():
                yield file.relative_to(path).as_posix(), _pieces(file)
    elif path.suffix == ".zip" and path.is_file():
        for member in archive.members(path, error=AnnotateError):
            if member.pieces is not None:
                yield member.name.as_posix(), member.pieces
    else:
        raise AnnotateError(
            f"{path}: expected a model pack of MedCAT 2, a folder or zip, found none; for a table "
            "of terms: --set annotate.use=terms --set annotate.table=FILE"
        )


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece
