"""Copies files from http(s) and all other URLs that fsspec knows, with retries and timeouts.

fsspec file systems raise exceptions of many libraries, whose messages may contain access tokens.
`RemoteError` replaces them. Its reason has the class name of the exception or the HTTP status only.

All of them go through one streamed `fs.open`: the files of `fs.get` have the umask of the caller.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from mslm_data.errors import CallError, MissingExtraError
from mslm_data.io.cache import make_once, temporary_folder
from mslm_data.io.files import hash_file, open_private

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""Callback with file name, bytes so far, and total bytes (0 if unknown)."""

TRIES = 3
"""Maximum number of attempts per file."""
PAUSE_S = 1.0
"""Seconds of pause after the first attempt, twice as long after each other."""
STALL_S = 30.0
"""Seconds without a byte after which an attempt fails. There is no limit for a whole file."""
TOGETHER = 8
"""Number of parallel downloads."""

_AT_ONCE = 1 << 20
_BLOCK = 16 << 20
"""Bytes per request to an object store, and of memory per file."""
_END_S = 2.0
"""Seconds to wait for cancelled downloads, which remove their incomplete files."""
_HTTP = ("http://", "https://")
_VERSIONS = frozenset({"ETag", "Last-Modified", "Content-MD5", "Digest"})
"""Headers by which an http server tells that a file has changed."""
_ACCESSED = re.compile(r"access|^a?time$", re.IGNORECASE)
"""Details of a file that reading changes."""
_IS_CANCELLED = "a cancelled download"
_CANCELLED: ContextVar[Event] = ContextVar("_CANCELLED", default=Event())  # noqa: B039 - never set
"""Event that cancels the downloads of the current thread."""
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError)
"""Exceptions after which no retry is made."""
_FINAL_STATUS = (401, 403, 404, 405, 410)
"""HTTP statuses after which no retry is made."""

_REASONS = {
    "Certificate": "a certificate that is not trusted",
    "Timeout": "no answer in time",
    "Disconnected|Closed": "no answer",
    "Connect": "no connection",
    "Payload|IncompleteRead|Streaming": "a connection that broke off in the middle of the file",
    "Checksum": "bytes that their checksum contradicts",
}
"""Part of the class name of an exception -> reason. Names, since the libraries that fsspec uses may
not be installed."""


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

    def __str__(self) -> str:
        return self.reason


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
    """Return the local path for a path, whose `~` is expanded, or `file://` URL; else None."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text).expanduser()
    if scheme != "file":
        return None
    from urllib.request import url2pathname  # slow to import

    return Path(url2pathname(urlsplit(text).path))


def output(out: str | Path) -> Path:
    """Return the path of a new folder; a leading `~` is expanded.

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
    target: Path,
    *,
    name: str = "",
    size: int | None = None,
    sha256: str = "",
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Download a file, and compare its size with the server's, and with those given.

    Args:
        url: URL of the file, or of a folder above it.
        target: File to write, with mode 0600. Incomplete if an error is raised.
        name: Path of the file below the folder. Default: "", `url` is the file.
        size: Expected size in bytes. Default: None, unknown.
        sha256: Expected digest. Default: "", not checked.
        max_bytes: Maximum size in bytes, used if `size` is None. Default: None, no limit.
        progress: Callback for progress. Default: None.

    Raises:
        RemoteError: The last attempt failed: the file is missing, unreachable or different.
        MissingExtraError: The package for this protocol is not installed.
        OSError: The disk is full or not writable.
    """

    def attempt() -> None:
        with open_private(target) as file:
            for piece, total in _stream(url, name, size=size, sha256=sha256, max_bytes=max_bytes):
                file.write(piece)
                if progress is not None:
                    progress(target.name, file.tell(), total)

    _retry(attempt)


def read(url: str, name: str, *, max_bytes: int, tries: int = TRIES) -> bytes:
    """Return the content of a file of at most `max_bytes` bytes; see `fetch`."""

    def attempt() -> bytes:
        return b"".join(piece for piece, _ in _stream(url, name, max_bytes=max_bytes))

    return _retry(attempt, tries)


def copy(url: str, folder: Path, *, name: str = "") -> Path:
    """Copy a remote file or folder into the cache, unless it has an up-to-date copy.

    Args:
        url: URL of the file or folder, or of a folder above it.
        folder: Local folder of all copies.
        name: Path below the URL. Default: "".

    Returns:
        Path of the copy.

    Raises:
        RemoteError: The URL is unreachable, has no files, has a file name with `..`, or a file is
            not as listed.
        MissingExtraError: See `fetch`.
        SourceError: The disk is full or not writable.
    """
    root, infos = _retry(partial(_list, url, name))
    top = PurePosixPath(_path_of(root).rstrip("/")).name
    if url.startswith(_HTTP):
        top = unquote(top)
    if top in ("", "..") or "/" in top or "\0" in top:
        top = "input"

    def make(made: Path) -> None:
        together(
            [
                partial(_fetch_listed, url, name, _inside(root, path), info, made / top)
                for path, info in infos.items()
            ]
        )

    # A changed file has other details (sizes, times, etags), and so another copy.
    if not url.startswith(_HTTP) or _VERSIONS & infos[root].keys():
        details = [
            (path, sorted((key, repr(info[key])) for key in info if not _ACCESSED.search(key)))
            for path, info in sorted(infos.items())
        ]
        return make_once(folder / _digest(url, name, details), make) / top

    # The server does not tell whether the file has changed: copy it each time.
    with temporary_folder(folder / _digest(url, name)) as temporary:
        made = make_once(temporary / "copy", make)
        return make_once(folder / _digest(url, hash_file(made / top)), made.rename) / top


def together(jobs: Iterable[Callable[[], object]]) -> None:
    """Run download jobs in up to `TOGETHER` threads. The first error cancels all others."""
    todo = list(jobs)
    shared = iter(todo)
    cancelled = Event()
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            for job in shared:
                job()
        except BaseException as error:  # noqa: BLE001 - the calling thread raises it
            ended.put(error)
        else:
            ended.put(None)

    threads = [BackgroundDownload(work, cancelled) for _ in range(min(TOGETHER, len(todo)))]
    try:
        for _ in threads:
            error = ended.get()
            if error is not None:
                raise error
    finally:
        cancelled.set()
        for thread in threads:
            thread.join(_END_S / len(threads))


class BackgroundDownload(Thread):
    """A download job in the background, whose errors are ignored."""

    def __init__(self, job: Callable[[], object], cancelled: Event | None = None) -> None:
        """Start the job.

        Args:
            job: The job.
            cancelled: Event that cancels the job. Default: None, an event of its own.
        """
        # A daemon: after an interrupt, a job may wait for a server for `STALL_S` seconds, or for a
        # file that another process downloads.
        super().__init__(daemon=True)
        self._job = job
        self._cancelled = cancelled or Event()
        self.start()

    def run(self) -> None:
        """Run the job."""
        _CANCELLED.set(self._cancelled)
        with suppress(Exception):
            self._job()

    def cancel(self) -> None:
        """Cancel the job, and wait until it has removed its incomplete file."""
        self._cancelled.set()
        self.join(_END_S)


def _retry(ask: Callable[[], T], tries: int = TRIES) -> T:
    """Call `ask` until it returns, up to `tries` times, with growing pauses.

    Raises:
        RemoteError: The error of the last attempt, or the first final error.
    """
    for attempt in range(1, tries + 1):
        try:
            return ask()
        except RemoteError as error:
            if error.final or attempt == tries:
                if attempt > 1:
                    error.reason += f" ({attempt} tries)"
                raise
        if _CANCELLED.get().wait(PAUSE_S * 2 ** (attempt - 1)):
            raise RemoteError(_IS_CANCELLED, final=True)
    raise AssertionError("the last try returns or raises")


def _fetch_listed(url: str, name: str, below: str, info: Mapping[str, Any], target: Path) -> None:
    """Download a listed file, and name it in errors. Callers name the URL only."""
    name = "/".join(filter(None, (name, below)))
    size = info.get("size") or None  # some servers say 0 for any file
    try:
        fetch(url, target / below, name=name, size=size)
    except RemoteError as error:
        if name:
            error.reason += f" for {name}"
        raise


def _list(url: str, name: str) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Return the path of a file or folder in its file system, and path -> details of its files.

    Raises:
        RemoteError: The URL is unreachable, or there are no files.
        MissingExtraError: See `fetch`.
    """
    try:
        fs, root = _filesystem(url, name)
        info = fs.info(root)
        infos = {root: info} if info["type"] == "file" else fs.find(root, detail=True)
    except Exception as error:  # noqa: BLE001 - libraries raise anything
        raise _in_words(error, url) from None

    # Object stores may have an empty object for a folder.
    infos = {path: info for path, info in infos.items() if not path.endswith("/")}
    if not infos:
        raise RemoteError("nothing there", missing=True, final=True)
    return root, infos


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _inside(root: str, remote: str) -> str:
    """Return the path of a remote file relative to its root; "" if the file is the root."""
    name = _path_of(remote).removeprefix(_path_of(root).rstrip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or "\0" in name:
        raise RemoteError("a file name that points outside the folder", final=True)
    return name


def _stream(
    url: str,
    name: str,
    *,
    size: int | None = None,
    sha256: str = "",
    max_bytes: int | None = None,
) -> Iterator[tuple[bytes, int]]:
    """Yield the content of a file in pieces, each with the size that the server told, or 0.

    Raises:
        RemoteError: The file is missing, unreachable, cut off, or not as expected; see `fetch`.
        MissingExtraError: See `fetch`.
    """
    # By http, one streamed request, without a request for the size before; else blocks.
    is_http = url.startswith(_HTTP)
    how = {"block_size": 0, "size": 1} if is_http else {"block_size": _BLOCK}
    limit = max_bytes if size is None else size
    digest = hashlib.sha256()
    count = 0
    try:
        fs, path = _filesystem(url, name)
        with fs.open(path, "rb", **how) as file:
            told = file.r.content_length if is_http else getattr(file, "size", None)
            while piece := file.read(_AT_ONCE):
                count += len(piece)
                if limit is not None and count > limit:
                    raise RemoteError(f"more than {limit} bytes")
                if _CANCELLED.get().is_set():
                    raise RemoteError(_IS_CANCELLED, final=True)
                digest.update(piece)
                yield piece, told or 0
    except Exception as error:  # noqa: BLE001 - libraries raise anything
        raise _in_words(error, url) from None

    # By http, aiohttp compares the size, which may be that of a compressed response.
    if not is_http and told is not None and count != told:
        raise RemoteError(f"{count} of {told} bytes")
    if (size is not None and count != size) or (sha256 and digest.hexdigest() != sha256):
        got = f" with sha256 {digest.hexdigest()}" if sha256 else ""
        raise RemoteError(f"{count} bytes{got}")


def _filesystem(url: str, name: str) -> tuple[Any, str]:
    """Return the file system for a URL, and the path of a file below the URL."""
    import fsspec

    protocols = {link.partition("://")[0] for link in url.split("::")}
    options = {protocol: _options(protocol) for protocol in protocols}
    fs, root = fsspec.url_to_fs(url, **{key: value for key, value in options.items() if value})
    # fsspec shares instances and caches listings, which may be outdated.
    fs.invalidate_cache()
    # Some repeat a request by themselves; `retry` is enough.
    if hasattr(fs, "retries"):
        fs.retries = 1

    path = _path_of(root)
    if name and path:
        root = f"{path.rstrip('/')}/{name}{root.removeprefix(path)}"
    return fs, root or name


def _options(protocol: str) -> dict[str, Any]:
    """Return the options of a file system: time limits, added to those that the user configured.

    Other protocols have their own limits.
    """
    import fsspec

    if protocol not in ("http", "https", "s3", "s3a"):
        return {}
    configured = fsspec.config.apply_config(fsspec.get_filesystem_class(protocol), {})
    if protocol in ("http", "https"):
        import aiohttp

        limits = aiohttp.ClientTimeout(total=None, sock_connect=STALL_S, sock_read=STALL_S)
        client = {"trust_env": True, **configured.get("client_kwargs", {}), "timeout": limits}
        # No compression by the server, so that the size that it tells is that of the file.
        headers = {**configured.get("headers", {}), "Accept-Encoding": "identity"}
        return {"client_kwargs": client, "headers": headers}
    own = {"connect_timeout": STALL_S, "read_timeout": STALL_S, "retries": {"max_attempts": 0}}
    return {"config_kwargs": {**configured.get("config_kwargs", {}), **own}}


def _path_of(root: str) -> str:
    """Return a path without the query of a signed URL."""
    return root.partition("?")[0] if root.startswith(_HTTP) else root


def _in_words(error: Exception, url: str) -> Exception:
    """Convert an exception of a file system to a `RemoteError` or `MissingExtraError`."""
    import fsspec

    if isinstance(error, RemoteError):
        return error
    if isinstance(error, ImportError):
        return MissingExtraError(f"{redact_url(url)}: fsspec needs another package: {error}")

    # By http, fsspec reports each failure to find the size as a missing file.
    status = _status(error)
    if isinstance(error, FileNotFoundError) and url.startswith(_HTTP) and status not in (404, 410):
        error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    if isinstance(error, FileNotFoundError):
        return RemoteError("no such file", missing=True, final=True)
    if status:
        return RemoteError(f"HTTP status {status}", final=status in _FINAL_STATUS)

    name = type(error).__name__
    reason = next((text for part, text in _REASONS.items() if re.search(part, name)), name)
    protocol = url.partition("://")[0]
    if isinstance(error, ValueError) and protocol not in fsspec.available_protocols():
        reason = f"a protocol that fsspec does not know: '{protocol}'"
    # A message of the operating system has no secrets; a library may set another one.
    if isinstance(error, OSError) and error.errno and error.strerror == os.strerror(error.errno):
        reason = str(error.strerror)
    return RemoteError(reason, final=isinstance(error, _FINAL))


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
