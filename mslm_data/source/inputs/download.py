"""Downloads one file over http(s): under its final name it is whole and the right one, or absent.

pooch streams and times out; this module retries, checks, places, and explains what went wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from mslm_data.errors import FetchError
from mslm_data.io.cache import private, settle, staging
from mslm_data.io.files import sha256_of
from mslm_data.io.remote import shown

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far, and the bytes in all (0 if the server does not
say)."""

TRIES = 3
"""How often a download is tried when the network or the server fails."""
TIMEOUT_S = (10.0, 30.0)
"""Seconds to connect, and between two pieces."""
PAUSE_S = 1.0
"""Seconds before the second try; before each later one they grow by as much."""

_PIECE = 1 << 16
_HEADERS = {"Accept-Encoding": "identity"}
"""Asks for the file's own bytes: their length shows a connection that broke off, and archives stay
packed."""


class _Bar:
    """A progress bar as pooch takes it, which reports to a function."""

    def __init__(self, name: str, tell: Progress) -> None:
        self.total = 0
        self._name = name
        self._tell = tell
        self._done = 0

    def reset(self) -> None:
        self._done = 0

    def update(self, count: int) -> None:
        self._done += count
        if self.total:
            self._done = min(self._done, self.total)
        self._tell(self._name, self._done, self.total)

    def close(self) -> None:
        """Do nothing; pooch calls it."""


def download(url: str, path: Path, *, sha256: str = "", progress: Progress | None = None) -> Path:
    """Download a file. If its digest is given, a file that has it is kept.

    Args:
        url: http(s).
        path: Its final name, below a place that is held (`cache.alone`). Folders are made, and an
            older file is replaced.
        sha256: The digest that it must have, "" where it is unknown.
        progress: Told how far it is.

    Raises:
        FetchError: No network, no such file, a connection that broke off, a disk that is full, or
            other bytes.
    """
    wanted = f"a file with sha256 {sha256}" if sha256 else "a file"
    if not url.startswith(("http://", "https://")):
        raise FetchError(_message(url, wanted, "a URL that is not http(s)"))
    try:
        if sha256 and is_whole(path, sha256):
            return path
        with staging(path) as temporary:
            partial = temporary / path.name
            bar = _Bar(path.name, progress) if progress else None
            with private(partial) as file:
                _stream(url, file, wanted=wanted, bar=bar)
            digest = sha256_of(partial) if sha256 else ""
            if digest != sha256:
                got = f"{partial.stat().st_size} bytes with sha256 {digest}"
                raise FetchError(_message(url, wanted, got))
            settle(partial, path)
    except OSError as error:
        raise FetchError(
            f"{path}: expected to write it, got {error.strerror}; is the disk full?"
        ) from None
    return path


def is_whole(path: Path, sha256: str) -> bool:
    """Return whether a file is there and has this digest."""
    return path.is_file() and sha256_of(path) == sha256


def _stream(url: str, file: BinaryIO, *, wanted: str, bar: _Bar | None) -> None:
    """Write a URL's bytes into a file, with a few tries; a missing file is asked for only once.

    Raises:
        FetchError: The last try failed too.
    """
    import requests
    from pooch import HTTPDownloader

    downloader = HTTPDownloader(
        progressbar=bar or False, chunk_size=_PIECE, timeout=TIMEOUT_S, headers=_HEADERS
    )
    for attempt in range(1, TRIES + 1):
        if bar:
            bar.reset()
        file.seek(0)
        file.truncate()
        try:
            downloader(url, file, None)
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            got = f"HTTP status {status}"
            is_final = status < 500 and status not in (408, 429)
        except requests.RequestException as error:
            got = _in_words(error)
            is_final = isinstance(error, ValueError)
        else:
            return

        if is_final or attempt == TRIES:
            tries = f" ({attempt} tries)" if attempt > 1 else ""
            raise FetchError(_message(url, wanted, got + tries))
        time.sleep(PAUSE_S * attempt)


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


def _message(url: str, wanted: str, got: str) -> str:
    return (
        f"{shown(url)}: expected {wanted}, got {got}; try again later, or pass files already on "
        f"disk with --input"
    )
