"""Downloads files from fsspec URLs, in parallel, with retries and a timeout for stalled transfers.

The size and the digest of each file are checked.

fsspec file systems raise exceptions of many libraries, whose messages may contain access tokens.
`RemoteError` replaces them. Its reason has the class name of the exception or the HTTP status only.
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

from mslm_data.errors import CallError, MissingExtraError
from mslm_data.io.cache import make_sealed, open_private

T = TypeVar("T")
Listing = tuple[str, Mapping[str, Mapping[str, Any]]]
"""Path of a file or folder on its file system, and path -> details for each file there."""

TRIES = 3
"""Maximum number of attempts per file."""
PAUSE_S = 1.0
"""Seconds of pause after the first attempt, twice as long after the second."""
STALL_S = 60.0
"""Seconds without data after which an attempt fails."""

TOGETHER = 8
"""Number of parallel downloads."""

_AT_ONCE = 1 << 20
_AHEAD = 4
"""Number of pieces of `_AT_ONCE` bytes read ahead of the writer."""
_POLL_S = 0.2
"""Seconds between two checks for cancellation while waiting for data."""
_END_S = 5.0
"""Seconds to wait for the threads to end after an error or interrupt."""
_BLOCK = 16 << 20
"""Bytes per request, and of memory per file."""
_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs"})
"""Protocols of object stores, which serve any byte range of a file in one request."""
_ACCESSED = ("atime", "time")
"""Details of a file that reading changes, besides those with "access" in their name."""
_NEVER = Event()
_STOPPED: ContextVar[Event] = ContextVar("_STOPPED", default=_NEVER)
"""Event that cancels the downloads of the current thread."""
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError)
"""Exceptions after which no retry is made."""

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
"""Class name -> reason, for exceptions of libraries used by fsspec. Names, since these libraries
may not be installed."""


class RemoteError(Exception):
    """A remote file could not be downloaded. Callers add the purpose of the file.

    Attributes:
        reason: Short explanation without secrets.
        missing: Whether the file does not exist. Default: False.
        final: Whether a retry is useless. Default: False.
    """

    def __init__(self, reason: str, *, missing: bool = False, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        self.final = final


def redact_url(url: str) -> str:
    """Remove user, password and query, which may be secret, from a URL for messages."""
    plain = re.split(r"[?#]", url, maxsplit=1)[0]
    # fsspec chains URLs by `::`, such as `zip://a.txt::s3://bucket/b.zip`.
    return "::".join(_without_user(link) for link in plain.split("::"))


def _without_user(link: str) -> str:
    scheme, mark, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def local(text: str) -> Path | None:
    """Return the local path for a path or `file://` URL; None for other URLs."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text)
    if scheme != "file":
        return None
    from urllib.request import url2pathname  # slow to import

    return Path(url2pathname(urlsplit(text).path))


def output(out: str | Path) -> Path:
    """Return the path of a new folder.

    Raises:
        CallError: It is a URL, which as a path would name a folder such as `s3:` here.
    """
    path = local(str(out))
    if path is None:
        raise CallError(
            "out: expected a folder of this machine, got a URL; write it here, then copy it there"
        )
    return path


def fetch(
    url: str,
    name: str,
    target: Path,
    *,
    size: int | None = None,
    max_bytes: int | None = None,
    sha256: str = "",
) -> None:
    """Download a file, and check its size and digest.

    Args:
        url: URL of the file, or of a folder above it.
        name: Path of the file below the folder; "" if `url` is the file.
        target: File to write, with mode 0600. Incomplete if an error is raised.
        size: Expected size in bytes. Default: None, unknown.
        max_bytes: Maximum size in bytes, used if `size` is None. Default: None, no limit.
        sha256: Expected digest. Default: "", not checked.

    Raises:
        RemoteError: The last attempt failed: the file is missing, unreachable or different.
        MissingExtraError: The package for this protocol is not installed.
        OSError: The disk is full or not writable.
    """

    def attempt() -> None:
        with open_private(target) as file:
            for piece in _checked(url, name, size=size, max_bytes=max_bytes, sha256=sha256):
                file.write(piece)

    retry(attempt)


def read(url: str, name: str, *, max_bytes: int, tries: int = TRIES) -> bytes:
    """Return the content of a file of at most `max_bytes` bytes; see `fetch`."""
    return retry(
        lambda: b"".join(_checked(url, name, size=None, max_bytes=max_bytes, sha256="")), tries
    )


def listing(url: str, name: str = "") -> Listing:
    """List the files below a remote folder; a file lists itself.

    Raises:
        RemoteError: The URL is unreachable, or there are no files.
        MissingExtraError: See `fetch`.
    """

    def ask() -> Generator[Listing, None, None]:
        fs, root = _opened(url, name)
        try:
            info = fs.info(root)
        except FileNotFoundError:  # some object stores have no folders
            info = {"type": "directory"}
        yield root, {root: info} if info["type"] == "file" else fs.find(root, detail=True)

    def answer() -> Listing:
        with closing(_watched(ask, url)) as answers:
            root, infos = next(answers)
        # Object stores may have an empty object for a folder.
        infos = {path: info for path, info in infos.items() if not path.endswith("/")}
        if not infos:
            raise RemoteError("nothing there", missing=True, final=True)
        return root, infos

    return retry(answer)


def copy(url: str, folder: Path, *, name: str = "") -> Path:
    """Copy a remote file or folder into the cache, unless it has an up-to-date copy.

    Args:
        url: URL of the file or folder, or of a folder above it.
        folder: Local folder of all copies.
        name: Path below the URL. Default: "".

    Returns:
        Path of the copy.

    Raises:
        RemoteError: The URL is unreachable, has no files, has a file name with `..`, or changed
            during each of `TRIES` attempts.
        MissingExtraError: See `fetch`.
        SourceError: The disk is full or not writable.
    """
    for _ in range(TRIES):
        root, infos = listing(url, name)
        top = PurePosixPath(_path_of(root).rstrip("/")).name
        if top in ("", ".."):
            top = "input"

        # Name the copy by all details of the listing (sizes, times, etags), so that a changed file
        # leads to a new copy.
        stamp = repr((url, name, _details(infos)))
        place = folder / hashlib.sha256(stamp.encode()).hexdigest()[:16]
        make = partial(_copy_all, url, name, top, root, infos)
        try:
            return make_sealed(place, make) / top
        except _ChangedError:
            continue
    raise RemoteError(f"other files or other bytes after each of {TRIES} tries", final=True)


class _ChangedError(Exception):
    """The listing of remote files has changed."""


def _copy_all(
    url: str, name: str, top: str, root: str, infos: Mapping[str, Mapping[str, Any]], made: Path
) -> None:
    """Copy all listed files in parallel, and check that they did not change meanwhile.

    Raises:
        _ChangedError: The files changed.
        RemoteError: See `copy`.
    """
    jobs = []
    for remote, info in infos.items():
        below = _inside(root, remote)
        path = "/".join(filter(None, (name, below)))
        listed = info.get("size")
        size = listed if isinstance(listed, int) else None
        jobs.append(partial(_fetch_listed, url, path, below, made / top / below, size))

    failure: RemoteError | None = None
    try:
        together(jobs)
    except RemoteError as error:
        failure = error

    # List again: a file that changes between two range requests is copied as a mix of two versions.
    # A change also explains an error, so it takes precedence.
    try:
        infos_after = listing(url, name)[1]
    except RemoteError as error:
        infos_after = {} if error.missing else infos
        failure = failure or error
    if _details(infos_after) != _details(infos):
        raise _ChangedError
    if failure is not None:
        raise failure


def _fetch_listed(url: str, path: str, below: str, target: Path, size: int | None) -> None:
    """Download a file of a folder, and name it in errors. Callers name the folder only."""
    try:
        fetch(url, path, target, size=size)
    except RemoteError as error:
        reason = f"{error.reason} for {below}" if below else error.reason
        raise RemoteError(reason, missing=error.missing, final=error.final) from None


def _details(infos: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return the details of files in comparable form, except access times."""
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
    """Run download jobs in up to `TOGETHER` threads. The first error cancels all others."""
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
        # Give the threads time to remove incomplete files, also after an interrupt. A thread that
        # waits for the lock of another process does not end in time, but has no such file.
        stop.set()
        for thread in threads:
            thread.join(timeout=_END_S)
    if errors:
        raise errors[0]


class Ahead:
    """Runs download jobs in background threads."""

    def __init__(self) -> None:
        """Start without threads; `add` starts them."""
        self._todo: deque[Callable[[], object]] = deque()
        self._changed = Condition()
        self._stop = Event()
        self._threads: list[Thread] = []
        self._error: BaseException | None = None

    def add(self, jobs: Iterable[Callable[[], object]]) -> None:
        """Queue jobs. Up to `TOGETHER` jobs run in parallel.

        Raises:
            Exception: The exception of an earlier job, which has cancelled all others.
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
        """Stop the threads, and wait up to `_END_S` seconds for each."""
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
    """Return the path of a remote file relative to its root; "" if the file is the root."""
    name = _path_of(remote).removeprefix(_path_of(root).rstrip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or "\0" in name:
        raise RemoteError("a file name that points outside the folder", final=True)
    return name


def _opened(url: str, name: str) -> tuple[Any, str]:
    """Return the file system for a URL, and the path of a file below the URL."""
    import fsspec

    fs, root = fsspec.url_to_fs(url)
    # fsspec shares instances and caches listings, which may be outdated.
    fs.invalidate_cache()
    return fs, _below(root, name) if name else root


def _checked(
    url: str, name: str, *, size: int | None, max_bytes: int | None, sha256: str
) -> Iterator[bytes]:
    """Yield the content of a file in pieces, and check its size and digest."""
    limit = max_bytes if size is None else size
    digest = hashlib.sha256()
    count = 0
    # With a known size and digest, the size in the store need not be checked: saves a request.
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
    """Yield the content of a file in pieces. With a known size, request only byte ranges."""
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
    """Yield the content of a file in an object store, one range request per `_BLOCK`."""
    for start in range(0, size, _BLOCK):
        block = fs.cat_file(path, start=start, end=min(start + _BLOCK, size))
        for first in range(0, len(block), _AT_ONCE):
            yield block[first : first + _AT_ONCE]


def _below(root: str, name: str) -> str:
    """Return the path of a file in a folder, and keep the query of a signed URL at the end."""
    path = _path_of(root)
    return f"{path.rstrip('/')}/{name}{root.removeprefix(path)}" if path else name


def _path_of(root: str) -> str:
    return root.partition("?")[0] if root.startswith(("http://", "https://")) else root


def retry(ask: Callable[[], T], tries: int = TRIES) -> T:
    """Call `ask` until it returns, up to `tries` times, with growing pauses.

    Raises:
        RemoteError: The error of the last attempt, or the first final error.
    """
    for attempt in range(1, tries + 1):
        try:
            return ask()
        except RemoteError as error:
            if error.final or attempt == tries:
                reason = f"{error.reason} ({attempt} tries)" if attempt > 1 else error.reason
                raise RemoteError(reason, missing=error.missing, final=error.final) from None
        time.sleep(PAUSE_S * attempt)
        _check_not_stopped()
    raise AssertionError("the last try returns or raises")


def _check_not_stopped() -> None:
    """Raise if the downloads of this thread are cancelled."""
    if _STOPPED.get().is_set():
        raise RemoteError("a cancelled download", final=True)


def _watched(make: Callable[[], Generator[T, None, None]], url: str) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a daemon thread.

    A library may block without a timeout, and a thread cannot be killed. After a timeout, the
    thread is abandoned.

    Args:
        make: Makes the generator, in the thread.
        url: URL for error messages.

    Raises:
        RemoteError: The generator raised an exception, or yielded nothing for `STALL_S` seconds.
    """
    items: Queue[Any] = Queue(_AHEAD)
    over = Event()

    def put(item: Any) -> None:
        # Wait with a timeout: the consumer may have stopped, and the queue stays full.
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
        except Exception as error:  # noqa: BLE001 - the other thread raises it
            put((None, error))
        else:
            put((None, StopIteration()))

    Thread(target=run, daemon=True, name="mslm-data-remote").start()
    try:
        last = time.monotonic()
        while True:
            _check_not_stopped()
            try:
                item, error = items.get(timeout=min(STALL_S, _POLL_S))
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
    """Convert an exception of a file system to a `RemoteError` or `MissingExtraError`."""
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, ImportError):
        return MissingExtraError(f"{redact_url(url)}: fsspec needs another package: {error}")
    if isinstance(error, FileNotFoundError):
        return RemoteError("no such file", missing=True, final=True)

    reason = type(error).__name__
    protocol = url.partition("://")[0]
    if isinstance(error, ValueError) and protocol not in _protocols():
        reason = f"a protocol that fsspec does not know: '{protocol}'"
    # A message of the operating system has no secrets; a library may set another one.
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

    protocols: list[str] = fsspec.available_protocols()
    return protocols


def _status(error: BaseException | None) -> int:
    """Return the HTTP status of an exception or its causes; 0 if there is none."""
    while error is not None:
        # botocore has the status in a dict `response`, aiohttp in the attribute `status`.
        response = getattr(error, "response", None)
        metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        status = metadata.get("HTTPStatusCode", getattr(error, "status", 0))
        if isinstance(status, int) and status >= 400:
            return status
        error = error.__cause__
    return 0
