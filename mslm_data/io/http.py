"""Downloads files over http(s) by requests, with the retries of `remote`.

The size of a file is checked against the size announced by the server before the download.
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
"""Callback with file name, bytes so far, and total bytes (0 if unknown)."""

TIMEOUT_S = (10.0, 30.0)
"""Timeouts in seconds: for the connection, and between two pieces of data."""

_PIECE = 1 << 16
_HEADERS = {"Accept-Encoding": "identity"}
"""Disable compression by the server, so that `Content-Length` is the size of the file."""


class Announced(NamedTuple):
    """Hold the version and size of a file announced by a server.

    Attributes:
        etag: Header `ETag`. Default: "", unknown.
        modified: Header `Last-Modified`. Default: "", unknown.
        size: Size in bytes. Default: None, unknown or compressed by the server.
    """

    etag: str = ""
    modified: str = ""
    size: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether the server announces a version, so that a changed file can be detected."""
        return bool(self.etag or self.modified)

    def contradicts(self, other: Announced) -> bool:
        """Return whether the announced versions differ."""
        pairs = ((self.etag, other.etag), (self.modified, other.modified))
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


def ask(url: str) -> Announced:
    """Request version and size of a file by HTTP HEAD; all fields are unknown after an error."""
    import requests

    try:
        response = requests.head(url, allow_redirects=True, timeout=TIMEOUT_S, headers=_HEADERS)
    except requests.RequestException:
        return Announced()  # `download` will report the error
    version = _version(response.headers) if response.ok else Announced()
    # Some servers answer HEAD with size 0 for any file.
    return version._replace(size=version.size or None)


def download(
    url: str,
    target: Path,
    *,
    sha256: str = "",
    expected: Announced | None = None,
    progress: Progress | None = None,
) -> Announced:
    """Download a file, and check its size and digest.

    Args:
        url: http(s) URL.
        target: File to write, with mode 0600. Incomplete if an error is raised.
        sha256: Expected digest. Default: "", not checked.
        expected: Result of `ask`. The size must match, unless the version has changed. Default:
            None, not checked.
        progress: Callback for progress. Default: None.

    Returns:
        Version and size announced with the downloaded file.

    Raises:
        FetchError: The file is missing or unreachable, the connection broke off, or size or digest
            do not match.
        OSError: The disk is full or not writable.
    """
    announced = expected

    def attempt() -> Announced:
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
        return remote.retry(attempt)
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
    """Download a URL to an open file, and check size and digest.

    Raises:
        RemoteError: The download failed, or size or digest do not match.
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
                # The server may compress the file despite `_HEADERS`: limit the ratio.
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
    """Return version and size from the headers of a response."""
    size = headers.get("Content-Length", "")
    if headers.get("Content-Encoding", "identity") != "identity" or not size.isdecimal():
        size = ""
    return Announced(
        etag=headers.get("ETag", ""),
        modified=headers.get("Last-Modified", ""),
        size=int(size) if size else None,
    )


def _in_words(error: Exception) -> str:
    """Return a short explanation for an exception of requests."""
    import requests

    # Subclasses come before their base classes.
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
