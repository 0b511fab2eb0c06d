"""Downloads files over http(s) by requests, with the tries and errors of `remote`.

requests streams and times out; this module compares what came with what was announced, and explains
what went wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.errors import FetchError
from mslm_data.io import remote
from mslm_data.io.cache import open_private
from mslm_data.io.limits import LIMITS
from mslm_data.io.remote import RemoteError, redact_url

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far, and the bytes in all (0 if the server does not
say)."""

TIMEOUT_S = (10.0, 30.0)
"""Seconds to connect, and between two pieces."""

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
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


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
    target: Path,
    *,
    sha256: str = "",
    expected: Announced | None = None,
    progress: Progress | None = None,
) -> Announced:
    """Download a file, and see that it is whole and the right one.

    Args:
        url: http(s).
        target: Written privately; unfit for use if this raises.
        sha256: The digest that it must have, "" where it is unknown.
        expected: What `ask` returned; the file must have this size unless it changed since.
        progress: Told how far it is.

    Returns:
        What the server said of the file that came.

    Raises:
        FetchError: No network, no such file, a connection that broke off, fewer or more bytes than
            were announced, or other bytes.
        OSError: The disk is full or cannot be written.
    """
    announced = expected

    def bring() -> Announced:
        nonlocal announced
        try:
            with open_private(target) as file:
                return _stream(url, file, sha256, announced, progress, target.name)
        except RemoteError as error:
            if announced is not None and not error.final:
                announced = ask(url)  # the file may have changed in the meantime
            raise

    try:
        if not url.startswith(("http://", "https://")):
            raise RemoteError("a URL that is not http(s)", final=True)
        return remote.retry(bring)
    except RemoteError as error:
        wanted = f"a file with sha256 {sha256}" if sha256 else "a file"
        raise FetchError(
            f"{redact_url(url)}: expected {wanted}, got {error.reason}; try again later, "
            "or pass files already on disk with --input"
        ) from None


def _stream(
    url: str,
    file: BinaryIO,
    sha256: str,
    expected: Announced | None,
    progress: Progress | None,
    name: str,
) -> Announced:
    """Write a URL's bytes into a file, and compare them with what was announced.

    Raises:
        RemoteError: No answer, another one than the file, or a part of it.
    """
    import requests

    count = 0
    digest = hashlib.sha256()
    try:
        with requests.get(url, stream=True, timeout=TIMEOUT_S, headers=_HEADERS) as response:
            response.raise_for_status()
            version = _version(response.headers)
            for piece in response.iter_content(_PIECE):
                count += len(piece)
                # A server may pack the file on its way all the same.
                max_bytes = LIMITS.max_unpacked(response.raw.tell())
                if count > max_bytes:
                    raise RemoteError(f"more than {max_bytes} unpacked bytes", final=True)
                digest.update(piece)
                file.write(piece)
                if progress is not None:
                    progress(name, count, version.size or 0)
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        is_final = status < 500 and status not in (408, 429)
        raise RemoteError(f"HTTP status {status}", final=is_final) from None
    except requests.RequestException as error:
        raise RemoteError(_in_words(error), final=isinstance(error, ValueError)) from None

    sizes = [version.size]
    if expected is not None and not expected.contradicts(version):
        sizes.append(expected.size)
    for size in sizes:
        if size is not None and size != count:
            raise RemoteError(f"{count} of {size} bytes that the server announced")
    if sha256 and digest.hexdigest() != sha256:
        raise RemoteError(f"{count} bytes with sha256 {digest.hexdigest()}", final=True)
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
