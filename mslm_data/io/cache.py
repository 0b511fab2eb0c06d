"""The cache of downloaded corpora, copied inputs, remote shards, unpacked archives and model packs.

The root is `MSLM_DATA_CACHE`; its default is the cache folder of the platform. It is readable only
by its owner. It can be deleted at any time.

An entry is built in a temporary folder beside its final place, under a lock of that place, and
renamed when complete. A process that is killed leaves the temporary folder, which the next process
removes. Before an entry is reused, its SHA-256 is compared with the digest recorded when it was
made, or with the digest of the download.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.folders import CACHE, cache_root, first_open, is_ours
from mslm_data.io.files import hash_file, make_folder, sync_folder, writing_whole
from mslm_data.io.locks import HeldError, locked

try:
    import fcntl
except ImportError:  # Windows: `make_room` never removes files
    fcntl = None  # type: ignore[assignment]

VARIABLE = CACHE
root = cache_root

_CODE = ("packs",)
"""Kinds of entries with executable code. No parent folder of these may be writable by others."""

_HASHED: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Path -> its inode, times and size when this process hashed it, and its SHA-256."""


def folder(
    kind: str, *, cache: Path | None = None, error: type[MslmDataError] = SourceError
) -> Path:
    """Return the cache folder for a kind of entries, and create it if missing.

    Args:
        kind: `corpora`, `inputs`, `unpacked`, `shards` or `packs`.
        cache: Root folder. Default: None, `MSLM_DATA_CACHE` or the cache folder of the platform.
        error: Exception class for a folder that cannot be created, or that other users own or can
            write to. Default: `SourceError`.
    """
    path = (cache or root()) / kind
    try:
        make_folder(path)
        # For code, check all parents: whoever can write to a parent can replace the folder.
        open_folder = None if is_ours(path) else path
        if kind in _CODE:
            open_folder = open_folder or first_open(path)
    except OSError as problem:
        raise error(
            f"{path}: expected a cache folder that can be made, got {problem.strerror}; "
            f"set {VARIABLE} to another folder"
        ) from None
    if open_folder is not None:
        raise error(
            f"{path}: other users can change this cache folder: {open_folder} is owned by another "
            f"user, or writable by others; if it is yours, run `chmod go-w {open_folder}`, "
            f"otherwise set {VARIABLE} to another folder"
        )
    return path


def make_once(
    place: Path,
    make: Callable[[Path], object],
    *,
    good: Callable[[Path], bool] = Path.exists,
    error: type[MslmDataError] = SourceError,
) -> Path:
    """Return a cached file or folder, and make it first if it is missing or invalid.

    One thread of one process makes it, others wait. If this process is killed, the next makes it.

    Args:
        place: Path of the cached file or folder.
        make: Creates the file or folder at the given temporary path, which does not exist yet. An
            `OSError` is reported as a disk error.
        good: Returns whether an existing file or folder is valid; an invalid one is replaced.
            Default: it exists.
        error: Exception class for a disk that is full or not writable. Default: `SourceError`.
    """
    try:
        if not good(place):
            with hold_place(place), staging(place) as temporary:
                # Another process may have made it while this one waited for the lock.
                if not good(place):
                    made = temporary / place.name
                    make(made)
                    settle(made, place)
    except OSError as problem:
        raise error(
            f"{place}: expected to write it, got {problem.strerror or type(problem).__name__}; "
            f"is the disk full? {VARIABLE} names another cache folder"
        ) from None
    return place


def make_sealed(place: Path, make: Callable[[Path], object]) -> Path:
    """Return a cached folder of files, and make it again if a file does not match its digest.

    Args:
        place: Path of the cache entry, which has the folder `files` and the digests `files.json`.
        make: Creates the folder at the given temporary path, see `make_once`.
    """

    def make_and_seal(made: Path) -> None:
        make_folder(made)
        make(files_folder(made))
        seal(files_folder(made), digests_file(made))

    def good(entry: Path) -> bool:
        return is_intact(files_folder(entry), digests_file(entry))

    return files_folder(make_once(place, make_and_seal, good=good))


def files_folder(place: Path) -> Path:
    """Return the folder of files in an entry made by `make_sealed`."""
    return place / "files"


def digests_file(place: Path) -> Path:
    """Return the file of digests in an entry made by `make_sealed`."""
    return place / "files.json"


def seal(folder: Path, record: Path) -> None:
    """Write the SHA-256 of each file below a folder to `record`, for `is_intact`."""
    digests = {name: hash_file(path) for name, path in _files(folder).items()}
    with writing_whole(record, durable=False) as file:
        file.write(json.dumps(digests, sort_keys=True).encode())


def is_intact(folder: Path, record: Path) -> bool:
    """Return whether a folder has exactly the recorded files, with the recorded digests."""
    try:
        digests = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(digests, dict) or not folder.is_dir():
        return False

    try:
        files = _files(folder)
    except FileNotFoundError:  # another process is replacing it
        return False
    return digests.keys() == files.keys() and all(
        holds(path, digests[name]) for name, path in files.items()
    )


def file_state(path: Path) -> tuple[int, ...]:
    """Return inode, times and size of a file. Every write changes a time."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def holds(path: Path, sha256: str) -> bool:
    """Return whether a file exists and has this digest.

    A file is hashed once per process, unless its inode, times or size change.
    """
    try:
        state = file_state(path)
        known = _HASHED.get(path)
        if known is None or known[0] != state:
            known = state, hash_file(path)
            _HASHED[path] = known
    except FileNotFoundError:
        return False
    # Use the local variable: another thread may have removed the entry of `_HASHED` by now.
    return known[1] == sha256


def remember(path: Path, sha256: str) -> None:
    """Store the digest of a file that was hashed while it was written, for `holds`."""
    with suppress(OSError):  # already removed: opening it will fail
        _HASHED[path] = file_state(path), sha256


class Use:
    """Protect a cached file from removal by `make_room`, in any process, until released.

    The protection is a shared lock (`flock`) of the open file.
    """

    def __init__(self, handle: int, place: Path) -> None:
        """Take over an open, locked file. Callers use `Use.open`."""
        self.place = place
        self._end = weakref.finalize(self, _let_go, handle, os.getpid())

    @classmethod
    def open(cls, place: Path) -> Use | None:
        """Protect a file. Return None if it no longer exists.

        On file systems without locks, `make_room` removes nothing, so no lock is needed.
        """
        try:
            handle = os.open(place, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return None
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_SH)

        # The file may have been removed between opening and locking it.
        if os.fstat(handle).st_nlink == 0:
            os.close(handle)
            return None
        return cls(handle, place)

    def release(self) -> None:
        """End the protection, and mark the file as the most recently used."""
        with suppress(OSError):
            os.utime(_lock(self.place))
        self._end()


def make_room(sizes: Mapping[Path, int], max_bytes: int) -> bool:
    """Remove the least recently used files of a group until the group fits into `max_bytes`.

    Files protected by `Use` are never removed. Files that are being downloaded count with their
    full size.

    Args:
        sizes: Path -> size in bytes, for all files of the group. They share a folder.
        max_bytes: Maximum total size of the group.

    Returns:
        Whether the group fits now.
    """
    folder = next(iter(sizes)).parent
    with locked(folder / ".lock-room", error=SourceError):
        names = {entry.name for entry in os.scandir(folder)}
        present = [place for place in sizes if place.name in names]
        total = sum(sizes[place] for place in present)

        # `staging` names its temporary folders `.part-KEY-…`.
        making = {name.split("-")[1] for name in names if name.startswith(".part-")}
        total += sum(sizes[place] for place in sizes.keys() - present if _key(place) in making)

        for place in sorted(present, key=_last_use):
            if total <= max_bytes:
                break
            if _removed(place):
                total -= sizes[place]
    return total <= max_bytes


def _last_use(place: Path) -> float:
    """Return the time at which a file was made or last released."""
    # `Use.release` touches the lock file, since touching the file would change its `file_state`.
    times = [0.0]
    for path in (place, _lock(place)):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _removed(place: Path) -> bool:
    """Remove a file unless a process protects it; return whether the file is gone."""
    if fcntl is None:
        return False
    try:
        handle = os.open(place, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        place.unlink(missing_ok=True)
        _HASHED.pop(place, None)
    except OSError:  # protected, or a file system without locks
        return False
    finally:
        os.close(handle)
    return True


def _let_go(handle: int, owner: int) -> None:
    """Close a protected file."""
    # A forked child shares the lock of its parent: unlocking there would unprotect the parent.
    try:
        if os.getpid() == owner and fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError:  # a file system without locks
        pass
    finally:
        os.close(handle)


def _files(folder: Path) -> dict[str, Path]:
    """Return relative path -> path, for all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }


@contextmanager
def hold_place(place: Path) -> Iterator[None]:
    """Lock a place of the cache for one thread of one process.

    Temporary folders left by killed processes are removed.
    """
    make_folder(place.parent)
    with locked(_lock(place), error=SourceError):
        _clear(place)
        yield


@contextmanager
def staging(place: Path) -> Iterator[Path]:
    """Create a private temporary folder beside a locked place, and remove it at the end.

    Complete files are moved to the place by `settle`.
    """
    make_folder(place.parent)
    prefix = f".part-{_key(place)}-"
    with TemporaryDirectory(
        prefix=prefix, dir=place.parent, ignore_cleanup_errors=True
    ) as temporary:
        yield Path(temporary)


def settle(made: Path, place: Path) -> None:
    """Move a complete file or folder to its final place, and replace an existing one.

    A file is synced to disk first. The rename is durable.
    """
    if made.is_file():
        with made.open("rb") as file:
            os.fsync(file.fileno())
    # `replace` cannot overwrite folders. Move the old one into the temporary folder of `made`,
    # which is removed soon.
    if place.is_dir() or (made.is_dir() and place.exists()):
        place.replace(made.with_name(f"{made.name}.replaced"))
    made.replace(place)
    sync_folder(place.parent)


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing with mode 0600, regardless of the umask.

    Parent folders are created, an existing file is truncated, a symbolic link is an error.
    """
    make_folder(path.parent)
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _key(place: Path) -> str:
    return hashlib.sha256(place.name.encode()).hexdigest()[:16]


def _lock(place: Path) -> Path:
    return place.parent / f".lock-{_key(place)}"


def _clear(place: Path) -> None:
    """Remove abandoned temporary folders: those of a locked place, and of places without a lock."""
    for temporary in [*place.parent.glob(".part-*"), *place.rglob(".part-*")]:
        key = temporary.name.split("-")[1]
        if temporary.parent != place.parent or key == _key(place):
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            lock = place.parent / f".lock-{key}"
            with suppress(HeldError), locked(lock, error=SourceError, patience=0):
                shutil.rmtree(temporary, ignore_errors=True)
