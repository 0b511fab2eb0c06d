"""Downloads one file over http(s): under its final name it is whole and the right one, or absent.

requests streams and times out; this module compares what came with what was announced, retries,
places, and explains what went wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.errors import FetchError
from mslm_data.io.cache import private, settle, staging
from mslm_data.io.files import sha256_of
from mslm_data.io.limits import LIMITS
from mslm_data.io.remote import shown

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far, and the bytes in all (0 if the server does not
say)."""

TRIES = 3
"""How often a download is tried when the network or the server fails, or other bytes come."""
TIMEOUT_S = (10.0, 30.0)
"""Seconds to connect, and between two pieces."""
PAUSE_S = 1.0
"""Seconds before the second try; before each later one they grow by as much."""

_PIECE = 1 << 16
_HEADERS = {"Accept-Encoding": "identity"}
"""Asks for the file's own bytes: their length shows a connection that broke off, and archives stay
packed."""


class Announced(NamedTuple):
    """Hold what a server announces of a file.

    Attributes:
        etag: Its `ETag`; "" where the server does not say, as below.
        modified: Its `Last-Modified`.
        size: Its bytes; None where the server does not say, or packs the file on its way.
    """

    etag: str = ""
    modified: str = ""
    size: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether another version of the file would be announced in other words."""
        return bool(self.etag or self.modified)

    def contradicts(self, other: Announced) -> bool:
        """Return whether both name the file's version, and in other words."""
        pairs = ((self.etag, other.etag), (self.modified, other.modified))
        return any(mine and its and mine != its for mine, its in pairs)


def ask(url: str) -> Announced:
    """Ask what a URL holds, without fetching it; the answer is empty where the server has none."""
    import requests

    try:
        response = requests.head(url, allow_redirects=True, timeout=TIMEOUT_S, headers=_HEADERS)
    except requests.RequestException:
        return Announced()  # the download itself explains what is wrong
    version = _version(response.headers) if response.ok else Announced()
    # Some servers answer 0 to this question, whatever the file's size.
    return version._replace(size=version.size or None)


def download(
    url: str,
    path: Path,
    *,
    sha256: str = "",
    expected: Announced | None = None,
    progress: Progress | None = None,
) -> Announced:
    """Download a file, and see that it is whole. A file that has the given digest is kept.

    Args:
        url: http(s).
        path: Its final name, below a place that is held (`cache.alone`). Folders are made, and an
            older file is replaced.
        sha256: The digest that it must have, "" where it is unknown.
        expected: What `ask` returned; the file must have this size unless it changed since.
        progress: Told how far it is.

    Returns:
        What the server said of the file that came.

    Raises:
        FetchError: No network, no such file, a connection that broke off, fewer or more bytes than
            were announced, a disk that is full, or other bytes.
    """
    if not url.startswith(("http://", "https://")):
        raise FetchError(_message(url, _wanted(sha256), "a URL that is not http(s)"))
    try:
        if sha256 and is_whole(path, sha256):
            return expected or Announced()
        with staging(path) as temporary:
            partial = temporary / path.name
            with private(partial) as file:
                version = _stream(
                    url, file, sha256=sha256, expected=expected, progress=progress, name=path.name
                )
            digest = sha256_of(partial) if sha256 else ""
            if digest != sha256:
                got = f"{partial.stat().st_size} bytes with sha256 {digest}"
                raise FetchError(_message(url, _wanted(sha256), got))
            settle(partial, path)
    except OSError as error:
        raise FetchError(
            f"{path}: expected to write it, got {error.strerror}; is the disk full?"
        ) from None
    return version


def is_whole(path: Path, sha256: str) -> bool:
    """Return whether a file is there and has this digest."""
    return path.is_file() and sha256_of(path) == sha256


class _TryError(Exception):
    """One try has failed.

    Attributes:
        got: What came instead of the file.
        is_final: Whether another try would change nothing.
        size: The bytes that were announced, where as many did not come.
    """

    def __init__(self, got: str, *, is_final: bool = False, size: int | None = None) -> None:
        super().__init__(got)
        self.got = got
        self.is_final = is_final
        self.size = size


def _stream(
    url: str,
    file: BinaryIO,
    *,
    sha256: str,
    expected: Announced | None,
    progress: Progress | None,
    name: str,
) -> Announced:
    """Write a URL's bytes into a file, with a few tries; a missing file is asked for only once.

    Raises:
        FetchError: The last try failed too.
    """
    for attempt in range(1, TRIES + 1):
        file.seek(0)
        file.truncate()
        try:
            return _once(url, file, expected, progress, name)
        except _TryError as failure:
            if failure.is_final or attempt == TRIES:
                tries = f" ({attempt} tries)" if attempt > 1 else ""
                wanted = _wanted(sha256, failure.size)
                raise FetchError(_message(url, wanted, failure.got + tries)) from None
        time.sleep(PAUSE_S * attempt)
        if expected is not None:
            expected = ask(url)  # the file may have changed in the meantime
    raise AssertionError("the last try returns or raises")


def _once(
    url: str, file: BinaryIO, expected: Announced | None, progress: Progress | None, name: str
) -> Announced:
    """Write a URL's bytes into a file, and compare their number with what was announced.

    Raises:
        _TryError: No answer, another one than the file, or a part of it.
    """
    import requests

    count = 0
    try:
        with requests.get(url, stream=True, timeout=TIMEOUT_S, headers=_HEADERS) as response:
            response.raise_for_status()
            version = _version(response.headers)
            for piece in response.iter_content(_PIECE):
                count += len(piece)
                # A server may pack the file on its way all the same.
                most = LIMITS.most(response.raw.tell())
                if count > most:
                    raise _TryError(
                        f"more than the {most} bytes that they may become", is_final=True
                    )
                file.write(piece)
                if progress is not None:
                    progress(name, count, version.size or 0)
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        is_final = status < 500 and status not in (408, 429)
        raise _TryError(f"HTTP status {status}", is_final=is_final) from None
    except requests.RequestException as error:
        raise _TryError(_in_words(error), is_final=isinstance(error, ValueError)) from None

    sizes = [version.size]
    if expected is not None and not expected.contradicts(version):
        sizes.append(expected.size)
    for size in sizes:
        if size is not None and size != count:
            raise _TryError(f"{count} bytes", size=size)
    return version


def _version(headers: Mapping[str, str]) -> Announced:
    """Return what the headers of an answer say of the file."""
    size = headers.get("Content-Length", "")
    if headers.get("Content-Encoding", "identity") != "identity" or not size.isdecimal():
        size = ""
    return Announced(
        etag=headers.get("ETag", ""),
        modified=headers.get("Last-Modified", ""),
        size=int(size) if size else None,
    )


def _in_words(error: Exception) -> str:
    """Return the meaning of a failure of requests; the first class that fits is the closest."""
    import requests

    words = {
        requests.exceptions.InvalidURL: "a URL that cannot be read",
        requests.exceptions.ProxyError: "no way through the proxy",
        requests.exceptions.SSLError: "a certificate that is not trusted",
        requests.exceptions.ChunkedEncodingError: (
            "a connection that broke off in the middle of the file"
        ),
        requests.exceptions.Timeout: "no answer in time",
        requests.exceptions.ConnectionError: "no connection",
    }
    for kind, text in words.items():
        if isinstance(error, kind):
            return text
    return type(error).__name__


def _wanted(sha256: str, size: int | None = None) -> str:
    if size is not None:
        return f"a file of {size} bytes, as the server announced"
    return f"a file with sha256 {sha256}" if sha256 else "a file"


def _message(url: str, wanted: str, got: str) -> str:
    return (
        f"{shown(url)}: expected {wanted}, got {got}; try again later, or pass files already on "
        f"disk with --input"
    )
