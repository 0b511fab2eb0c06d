"""Keeps fetched corpora, copied inputs, remote shards, archives and packs between runs.

One root, private to its owner: `MSLM_DATA_CACHE`, or else the platform's cache folder. Deleting it
costs time only. What is kept is made in a temporary beside its place, by one thread of one process
at a time, and renamed when whole. Nothing that was fetched or unpacked is believed by its name: its
bytes are compared with the digests recorded when it was made, or with the digest that it was
fetched by.
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
except ImportError:  # on Windows, where nothing is let go
    fcntl = None  # type: ignore[assignment]

VARIABLE = CACHE
root = cache_root

_CODE = ("packs",)
"""Kinds whose files may be run: others must not be able to put another folder in their place."""

_HASHED: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Each cached file that this process has hashed -> its inode, times and size then, its digest."""


def folder(
    kind: str, *, cache: Path | None = None, error: type[MslmDataError] = SourceError
) -> Path:
    """Return the folder of one kind of cached thing, made if missing, for its owner alone.

    Args:
        kind: `corpora`, `inputs`, `unpacked`, `shards` or `packs`.
        cache: The root; None for `MSLM_DATA_CACHE`, or else the platform's cache folder.
        error: What is raised where it cannot be made, or where another user made it or may write
            into it.
    """
    path = (cache or root()) / kind
    try:
        make_folder(path)
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
            f"{path}: expected a cache folder that no other user can change, but {open_folder} "
            f"belongs to another user, or others may write into it; close it by `chmod go-w`, or "
            f"set {VARIABLE} to another folder"
        )
    return path


def make_once(
    place: Path,
    make: Callable[[Path], object],
    *,
    good: Callable[[Path], bool] = Path.exists,
    error: type[MslmDataError] = SourceError,
) -> Path:
    """Return a file or folder of the cache, made first if it is missing or not good.

    Threads and processes that want it at the same time wait for the one that makes it. If that one
    is killed, another makes it.

    Args:
        place: Its final name.
        make: Makes it at another name, where nothing is yet. An `OSError` that it raises is
            reported as one of the disk.
        good: Whether the file or folder at the place can be used; others are replaced.
        error: What is raised where the disk is full or cannot be written.
    """
    try:
        if not good(place):
            with hold_place(place), staging(place) as temporary:
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
    """Return a cached folder, made again if its files do not match their recorded digests.

    Args:
        place: Where the folder and the record of its digests lie.
        make: Makes the folder at another name, where nothing is yet; see `make_once`.
    """

    def make_and_seal(made: Path) -> None:
        make_folder(made)
        make(files_folder(made))
        seal(files_folder(made), digests_file(made))

    def good(found: Path) -> bool:
        return is_intact(files_folder(found), digests_file(found))

    return files_folder(make_once(place, make_and_seal, good=good))


def files_folder(place: Path) -> Path:
    """Return the folder of files at a place of `make_sealed`."""
    return place / "files"


def digests_file(place: Path) -> Path:
    """Return the record of the digests at a place of `make_sealed`."""
    return place / "files.json"


def seal(folder: Path, record: Path) -> None:
    """Record the SHA-256 of each file below a folder, for `is_intact`."""
    digests = {name: hash_file(path) for name, path in _files(folder).items()}
    with writing_whole(record, durable=False) as file:
        file.write(json.dumps(digests, sort_keys=True).encode())


def is_intact(folder: Path, record: Path) -> bool:
    """Return whether a folder has the files that were recorded, with their bytes, and no others."""
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


def holds(path: Path, sha256: str) -> bool:
    """Return whether a file is there with this digest; a process hashes an unchanged one once."""
    try:
        state = _state(path)
        known = _HASHED.get(path)
        if known is None or known[0] != state:
            known = state, hash_file(path)
            _HASHED[path] = known
    except FileNotFoundError:
        return False
    # Another thread may have removed the file by now, and with it what is known of it.
    return known[1] == sha256


def remember(path: Path, sha256: str) -> None:
    """Take down the digest of a file that was hashed when it was made; see `holds`."""
    with suppress(OSError):  # gone again: opening it says so
        _HASHED[path] = _state(path), sha256


class Use:
    """Hold a file of the cache, so that no process removes it to make room, until released."""

    def __init__(self, handle: int, place: Path) -> None:
        """Take over an open file that is locked; callers use `Use.open`."""
        self.place = place
        self._end = weakref.finalize(self, _let_go, handle, os.getpid())

    @classmethod
    def open(cls, place: Path) -> Use | None:
        """Hold a file; None where it was removed meanwhile.

        Where the file system has no locks, `make_room` removes nothing.
        """
        try:
            handle = os.open(place, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return None
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_SH)

        if os.fstat(handle).st_nlink == 0:
            os.close(handle)
            return None
        return cls(handle, place)

    def release(self) -> None:
        """Let the file go, as the one that was used last."""
        with suppress(OSError):
            os.utime(_lock(self.place))
        self._end()


def make_room(sizes: Mapping[Path, int], max_bytes: int) -> bool:
    """Remove the least recently used files of a group until it fits into `max_bytes`.

    Files that are being made count too. Files that a process holds by `Use` stay.

    Args:
        sizes: The final name of each file of the group, all in one folder -> its bytes.
        max_bytes: Maximum total size of the group.

    Returns:
        Whether the group fits now.
    """
    folder = next(iter(sizes)).parent
    with locked(folder / ".lock-room", error=SourceError):
        names = {entry.name for entry in os.scandir(folder)}
        making = {name.split("-")[1] for name in names if name.startswith(".part-")}
        present = [place for place in sizes if place.name in names]
        total = sum(sizes[place] for place in present)
        total += sum(sizes[place] for place in sizes.keys() - present if _key(place) in making)

        for place in sorted(present, key=_last_use):
            if total <= max_bytes:
                break
            if _removed(place):
                total -= sizes[place]
    return total <= max_bytes


def _last_use(place: Path) -> float:
    """Return when a file was last released or made, as `Use.release` marks its lock."""
    times = [0.0]
    for path in (place, _lock(place)):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _removed(place: Path) -> bool:
    """Remove a file that no process holds, and return whether it is gone."""
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
    except OSError:  # held, or a file system without locks
        return False
    finally:
        os.close(handle)
    return True


def _let_go(handle: int, owner: int) -> None:
    """Close a held file. A forked process has it too, whose lock is the owner's."""
    try:
        if os.getpid() == owner and fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError:  # a file system without locks
        pass
    finally:
        os.close(handle)


def _files(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths there."""
    return {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }


def _state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


@contextmanager
def hold_place(place: Path) -> Iterator[None]:
    """Hold a place as one thread of one process.

    Temporaries that killed processes left in its folder are removed.
    """
    make_folder(place.parent)
    with locked(_lock(place), error=SourceError):
        _clear(place)
        yield


@contextmanager
def staging(place: Path) -> Iterator[Path]:
    """Make a private folder beside a place that is held, and remove it afterwards.

    What is made there is renamed when it is whole.
    """
    make_folder(place.parent)
    prefix = f".part-{_key(place)}-"
    with TemporaryDirectory(
        prefix=prefix, dir=place.parent, ignore_cleanup_errors=True
    ) as temporary:
        yield Path(temporary)


def settle(made: Path, place: Path) -> None:
    """Give a finished file or folder its final name, once the bytes of a file are on disk.

    Whatever has this name goes: a folder into the temporary that `made` lies in.
    """
    if made.is_file():
        with made.open("rb") as file:
            os.fsync(file.fileno())
    if place.is_dir() or (made.is_dir() and place.exists()):
        place.replace(made.with_name(f"{made.name}.replaced"))
    made.replace(place)
    sync_folder(place.parent)


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing that its owner alone can read, whatever the umask.

    Folders above it are made; an existing file is emptied.
    """
    make_folder(path.parent)
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _key(place: Path) -> str:
    return hashlib.sha256(place.name.encode()).hexdigest()[:16]


def _lock(place: Path) -> Path:
    return place.parent / f".lock-{_key(place)}"


def _clear(place: Path) -> None:
    """Remove temporaries of a place that is held, and those beside it that nobody holds."""
    for temporary in [*place.parent.glob(".part-*"), *place.rglob(".part-*")]:
        key = temporary.name.split("-")[1]
        if temporary.parent != place.parent or key == _key(place):
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            lock = place.parent / f".lock-{key}"
            with suppress(HeldError), locked(lock, error=SourceError, patience=0):
                shutil.rmtree(temporary, ignore_errors=True)
