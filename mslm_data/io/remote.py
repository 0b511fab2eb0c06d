"""Brings files from URLs that fsspec knows, with a few tries and a watch for those that stall.

What came is compared with what was announced, and files are brought at the same time. Errors of
file systems may hold access tokens, and many are not an `OSError`: only the names of their classes
and the status of HTTP are passed on.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from contextvars import ContextVar
from functools import partial
from pathlib import Path, PurePosixPath
from queue import Empty, Full, Queue
from threading import Condition, Event, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mslm_data.errors import MissingExtraError
from mslm_data.io.cache import make_sealed, open_private

T = TypeVar("T")
Listing = tuple[str, Mapping[str, Mapping[str, Any]]]
"""The path of a file or folder on its file system, and path -> details of each file there."""

TRIES = 3
"""Attempts at a file when the network or the server fails, or other bytes come."""
PAUSE_S = 1.0
"""Seconds before the second try; each later one waits as long again."""
STALL_S = 60.0
"""Seconds without a byte or an answer after which a try has failed."""

TOGETHER = 8
"""Files that are brought at the same time."""

_AT_ONCE = 1 << 20
_AHEAD = 4
"""Pieces that are read while others are written."""
_LOOK_S = 0.2
"""Interval in seconds at which a waiting fetch checks for cancellation."""
_END_S = 5.0
"""Seconds for the others of `together` to end after one has failed."""
_BLOCK = 16 << 20
"""Bytes that a file system may ask for in one request, and hold in memory for each file."""
_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs"})
"""Object stores, which give any range of a file's bytes by one request."""
_ACCESSED = ("atime", "time")
"""Details of a file that reading it changes, besides those that speak of access."""
_NEVER = Event()
_STOPPED: ContextVar[Event] = ContextVar("_STOPPED", default=_NEVER)
"""Is set when the others of `together` have failed, and this thread's fetch shall end too."""
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError)
"""Errors that another attempt would not change."""

_IN_WORDS = {
    "ClientPayloadError": "a connection that broke off in the middle of the file",
    "IncompleteRead": "a connection that broke off in the middle of the file",
    "ResponseStreamingError": "a connection that broke off in the middle of the file",
    "FlexibleChecksumError": "bytes that their checksum contradicts",
    "ServerDisconnectedError": "no answer",
    "ConnectionClosedError": "no answer",
    "ClientConnectorError": "no connection",
    "EndpointConnectionError": "no connection",
    "ConnectTimeoutError": "no answer in time",
    "ReadTimeoutError": "no answer in time",
}
"""Errors of the libraries below fsspec by name, as these libraries may be missing."""


class RemoteError(Exception):
    """A remote file could not be fetched; the caller says what it was wanted for.

    Attributes:
        reason: Why, in words that hold nothing secret.
        missing: Whether the file does not exist.
        final: Whether another attempt would change nothing.
    """

    def __init__(self, reason: str, *, missing: bool = False, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        self.final = final


def redact_url(url: str) -> str:
    """Return a URL for messages: without user, password and query, which may hold secrets."""
    plain = re.split(r"[?#]", url, maxsplit=1)[0]
    return "::".join(_shown(link) for link in plain.split("::"))


def _shown(link: str) -> str:
    """Return one link of a chain of URLs, as `zip://` on top of another has them."""
    scheme, mark, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def local(text: str) -> Path | None:
    """Return the path that a text or a `file://` URL names; None for other URLs."""
    scheme, found, _ = text.partition("://")
    if not found:
        return Path(text)
    if scheme != "file":
        return None
    from urllib.request import url2pathname  # brings half of http

    return Path(url2pathname(urlsplit(text).path))


def fetch(
    url: str,
    name: str,
    target: Path,
    *,
    size: int | None = None,
    max_bytes: int | None = None,
    sha256: str = "",
) -> None:
    """Bring a file, and see that it is the right one.

    Args:
        url: A folder, or the file itself.
        name: The file's path below the folder; "" if the URL is the file's.
        target: Written privately; unfit for use if this raises.
        size: Bytes that it has; None where nobody knows.
        max_bytes: Maximum size in bytes, if `size` is not known.
        sha256: Its digest; "" where nobody knows.

    Raises:
        RemoteError: Missing, out of reach, or another file, at the last try too.
        MissingExtraError: fsspec knows the file system but lacks its package.
        OSError: The disk is full or cannot be written.
    """

    def bring() -> None:
        with open_private(target) as file:
            for piece in _checked(url, name, size=size, max_bytes=max_bytes, sha256=sha256):
                file.write(piece)

    retry(bring)


def read(url: str, name: str, *, max_bytes: int, tries: int = TRIES) -> bytes:
    """Return the bytes of a small file, at most `max_bytes` of them; see `fetch`."""
    return retry(
        lambda: b"".join(_checked(url, name, size=None, max_bytes=max_bytes, sha256="")), tries
    )


def listing(url: str, name: str = "") -> Listing:
    """Return the path of a file or folder, and the files there.

    Raises:
        RemoteError: Out of reach, or nothing there.
        MissingExtraError: See `fetch`.
    """

    def ask() -> Generator[Listing, None, None]:
        fs, root = _opened(url, name)
        try:
            info = fs.info(root)
        except FileNotFoundError:  # as some object stores say of folders
            info = {"type": "directory"}
        yield root, {root: info} if info["type"] == "file" else fs.find(root, detail=True)

    def answer() -> Listing:
        with closing(_watched(ask, url)) as answers:
            root, infos = next(answers)
        # Object stores may keep an empty object in the place of a folder.
        infos = {path: info for path, info in infos.items() if not path.endswith("/")}
        if not infos:
            raise RemoteError("nothing there", missing=True, final=True)
        return root, infos

    return retry(answer)


def copy(url: str, folder: Path, *, name: str = "") -> Path:
    """Copy a file, or a folder with all below it, into the cache, unless a copy looks unchanged.

    Args:
        url: Its URL, or that of a folder above it.
        folder: Where copies are kept.
        name: Its path below the URL.

    Raises:
        RemoteError: Out of reach, nothing there, changing while it is copied, or with a name that
            leads outside.
        MissingExtraError: See `fetch`.
        SourceError: The disk is full or cannot be written.
    """
    for _ in range(TRIES):
        root, infos = listing(url, name)
        top = PurePosixPath(_path_of(root).rstrip("/")).name
        if top in ("", ".."):
            top = "input"

        # All that the file system says of the files (sizes, times, tags) names the copy.
        stamp = repr((url, name, _details(infos)))
        place = folder / hashlib.sha256(stamp.encode()).hexdigest()[:16]
        make = partial(_copy_all, url, name, top, root, infos)
        try:
            return make_sealed(place, make) / top
        except _ChangedError:
            continue
    raise RemoteError(f"other files or other bytes after each of {TRIES} tries", final=True)


class _ChangedError(Exception):
    """Files differ from what was listed before."""


def _copy_all(
    url: str, name: str, top: str, root: str, infos: Mapping[str, Mapping[str, Any]], made: Path
) -> None:
    """Copy all listed files at the same time, and see that they stayed the same meanwhile.

    Raises:
        _ChangedError: They did not.
        RemoteError: See `copy`.
    """
    jobs = []
    for remote, info in infos.items():
        below = _inside(root, remote)
        path = "/".join(filter(None, (name, below)))
        size = info.get("size")
        known = size if isinstance(size, int) else None
        jobs.append(partial(_fetch_listed, url, path, below, made / top / below, known))

    failure: RemoteError | None = None
    try:
        together(jobs)
    except RemoteError as error:
        failure = error

    # An object that changes between two requests for parts of it may give a bit of each version.
    try:
        now = listing(url, name)[1]
    except RemoteError as error:
        now = {} if error.missing else infos
        failure = failure or error
    if _details(now) != _details(infos):
        raise _ChangedError
    if failure is not None:
        raise failure


def _fetch_listed(url: str, path: str, below: str, target: Path, size: int | None) -> None:
    """Bring a file of a folder; errors name it, as their callers name the folder alone."""
    try:
        fetch(url, path, target, size=size)
    except RemoteError as error:
        reason = f"{error.reason} for {below}" if below else error.reason
        raise RemoteError(reason, missing=error.missing, final=error.final) from None


def _details(infos: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return all that is known of files, in order, but for what reading them changes."""
    return [
        (
            path,
            sorted(
                (key, repr(value))
                for key, value in info.items()
                if key not in _ACCESSED and "access" not in key.lower()
            ),
        )
        for path, info in sorted(infos.items())
    ]


def together(jobs: Iterable[Callable[[], object]]) -> None:
    """Do jobs that fetch at the same time, `TOGETHER` at most; the first error ends all of them."""
    todo = deque(jobs)
    stop = Event()
    errors: list[BaseException] = []

    def work() -> None:
        _STOPPED.set(stop)
        while not stop.is_set():
            try:
                job = todo.popleft()
            except IndexError:
                return
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - the calling thread raises it
                errors.append(error)
                stop.set()

    threads = [
        Thread(target=work, daemon=True, name="mslm-data-together")
        for _ in range(min(TOGETHER, len(todo)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        # After an interrupt too, half files are removed before this returns; one that waits for
        # another process is left alone, as it has none.
        stop.set()
        for thread in threads:
            thread.join(timeout=_END_S)
    if errors:
        raise errors[0]


class Ahead:
    """Does jobs that fetch, in threads of its own, while the caller does something else."""

    def __init__(self) -> None:
        """Begin without a thread."""
        self._todo: deque[Callable[[], object]] = deque()
        self._changed = Condition()
        self._stop = Event()
        self._threads: list[Thread] = []
        self._error: BaseException | None = None

    def add(self, jobs: Iterable[Callable[[], object]]) -> None:
        """Have more jobs done, `TOGETHER` of all of them at a time.

        Raises:
            Exception: What an earlier job raised; the others have ended by it.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            self._todo.extend(jobs)
            self._changed.notify_all()
            missing = min(TOGETHER, len(self._todo)) - len(self._threads)

        for _ in range(missing):
            thread = Thread(target=self._work, daemon=True, name="mslm-data-ahead")
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the threads; one that waits for another process is left alone after a while."""
        self._end()
        for thread in self._threads:
            thread.join(timeout=_END_S)

    def _work(self) -> None:
        _STOPPED.set(self._stop)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._todo or self._stop.is_set())
                if self._stop.is_set():
                    return
                job = self._todo.popleft()
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - `add` raises it
                if not self._stop.is_set():
                    self._error = error
                self._end()

    def _end(self) -> None:
        with self._changed:
            self._stop.set()
            self._changed.notify_all()


def _inside(root: str, remote: str) -> str:
    """Return the path of a remote file below the remote folder; "" if they are the same."""
    name = _path_of(remote).removeprefix(_path_of(root).rstrip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or "\0" in name:
        raise RemoteError("a name that leads out of the folder", final=True)
    return name


def _opened(url: str, name: str) -> tuple[Any, str]:
    """Return a file system with an empty cache, and the path on it of a file below a URL."""
    import fsspec

    fs, root = fsspec.url_to_fs(url)
    fs.invalidate_cache()
    return fs, _below(root, name) if name else root


def _checked(
    url: str, name: str, *, size: int | None, max_bytes: int | None, sha256: str
) -> Iterator[bytes]:
    """Yield a file's bytes in pieces, and raise if their number or digest is not as expected."""
    limit = max_bytes if size is None else size
    digest = hashlib.sha256()
    count = 0
    # What the store says of a file with a known digest is not needed, so it is not asked.
    known = size if sha256 else None
    with closing(_watched(lambda: _pieces(url, name, known), url)) as pieces:
        for piece in pieces:
            count += len(piece)
            if limit is not None and count > limit:
                raise RemoteError(f"more than {limit} bytes")
            digest.update(piece)
            yield piece

    if (size is not None and count != size) or (sha256 and digest.hexdigest() != sha256):
        got = f" with sha256 {digest.hexdigest()}" if sha256 else ""
        raise RemoteError(f"{count} bytes{got}")


def _pieces(url: str, name: str, known: int | None) -> Generator[bytes, None, None]:
    """Yield a file's bytes; `known` is its size, if only its bytes are to be asked for."""
    fs, path = _opened(url, name)
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if known is not None and protocols & _STORES:
        yield from _ranges(fs, path, known)
        return

    count = 0
    with fs.open(path, "rb", block_size=_BLOCK) as file:
        while piece := file.read(_AT_ONCE):
            count += len(piece)
            yield piece

        size = getattr(file, "size", None)
        if isinstance(size, int) and size != count:
            raise RemoteError(f"{count} of {size} bytes")


def _ranges(fs: Any, path: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file of an object store, asked for range by range."""
    for start in range(0, size, _BLOCK):
        block = fs.cat_file(path, start=start, end=min(start + _BLOCK, size))
        for first in range(0, len(block), _AT_ONCE):
            yield block[first : first + _AT_ONCE]


def _below(root: str, name: str) -> str:
    """Return the path of a file in a folder; the query of a signed URL stays at the end."""
    path = _path_of(root)
    return f"{path.rstrip('/')}/{name}{root.removeprefix(path)}" if path else name


def _path_of(root: str) -> str:
    return root.partition("?")[0] if root.startswith(("http://", "https://")) else root


def retry(ask: Callable[[], T], tries: int = TRIES) -> T:
    """Call `ask` up to `tries` times, with growing pauses, until it returns or fails for good."""
    for attempt in range(1, tries + 1):
        try:
            return ask()
        except RemoteError as error:
            if error.final or attempt == tries:
                said = f"{error.reason} ({attempt} tries)" if attempt > 1 else error.reason
                raise RemoteError(said, missing=error.missing, final=error.final) from None
        time.sleep(PAUSE_S * attempt)
        _check_not_stopped()
    raise AssertionError("the last try returns or raises")


def _check_not_stopped() -> None:
    """Raise if another fetch has failed for which this one was made."""
    if _STOPPED.get().is_set():
        raise RemoteError("an end before all had come", final=True)


def _watched(make: Callable[[], Generator[T, None, None]], url: str) -> Generator[T, None, None]:
    """Yield the items of an iterator that runs in a thread of its own; one that hangs is abandoned.

    Raises:
        RemoteError: The iterator raised, or nothing came for `STALL_S` seconds.
    """
    items: Queue[Any] = Queue(_AHEAD)
    over = Event()

    def put(item: Any) -> None:
        while not over.is_set():
            try:
                items.put(item, timeout=0.1)
            except Full:
                continue
            return

    def run() -> None:
        try:
            with closing(make()) as source:
                for item in source:
                    put((item, None))
                    if over.is_set():
                        return
        except Exception as error:  # noqa: BLE001 - the other thread says what it is
            put((None, error))
        else:
            put((None, StopIteration()))

    Thread(target=run, daemon=True, name="mslm-data-remote").start()
    try:
        last = time.monotonic()
        while True:
            _check_not_stopped()
            try:
                item, error = items.get(timeout=min(STALL_S, _LOOK_S))
            except Empty:
                if time.monotonic() - last < STALL_S:
                    continue
                raise RemoteError(f"no answer for {STALL_S:g} seconds") from None
            last = time.monotonic()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise _in_words(error, url) from None
            yield item
    finally:
        over.set()


def _in_words(error: Exception, url: str) -> Exception:
    """Return the exception to raise in the place of a file system's own."""
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, ImportError):
        return MissingExtraError(f"{redact_url(url)}: fsspec needs another package: {error}")
    if isinstance(error, FileNotFoundError):
        return RemoteError("no such file", missing=True, final=True)
    reason = type(error).__name__
    protocol = url.partition("://")[0]
    if isinstance(error, ValueError) and protocol not in _protocols():
        reason = f"a protocol that fsspec does not know, '{protocol}'"
    if isinstance(error, OSError) and error.errno and error.strerror == os.strerror(error.errno):
        reason = str(error.strerror)
    status = _status(error)
    if status:
        reason = f"HTTP status {status}"
    else:
        reason = _IN_WORDS.get(type(error).__name__, reason)
    return RemoteError(reason, final=isinstance(error, _FINAL))


def _protocols() -> list[str]:
    import fsspec

    known: list[str] = fsspec.available_protocols()
    return known


def _status(error: BaseException | None) -> int:
    """Return the HTTP status that an error or its cause holds; 0 if there is none."""
    while error is not None:
        answer = getattr(error, "response", None)  # as botocore has it
        about = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
        status = about.get("HTTPStatusCode", getattr(error, "status", 0))
        if isinstance(status, int) and status >= 400:
            return status
        error = error.__cause__
    return 0
