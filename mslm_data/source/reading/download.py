"""Downloads one file over http(s): under its final name it is whole and the right one, or not there.

pooch streams and times out; this module retries, checks, places, and says in one message what went wrong.
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
"""Called with a file's name, the bytes so far, and the bytes in all (0 where the server does not say)."""

TRIES = 3
"""How often a download is tried when the network or the server fails."""
TIMEOUT_S = (10.0, 30.0)
"""Seconds to connect, and between two pieces."""
PAUSE_S = 1.0
"""Seconds before the second try; each later one waits as long again."""

_PIECE = 1 << 16
_HEADERS = {"Accept-Encoding": "identity"}
"""The file's own bytes: so a connection that breaks off is seen by its length, and archives stay packed."""


class _Bar:
    """What pooch calls a progress bar."""

    def __init__(self, name: str, tell: Progress) -> None:
        self.total = 0
        self._name, self._tell, self._done = name, tell, 0

    def reset(self) -> None:
        self._done = 0

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self.total) if self.total else self._done + count
        self._tell(self._name, self._done, self.total)

    def close(self) -> None:
        """Nothing to close."""


def download(url: str, path: Path, *, sha256: str = "", progress: Progress | None = None) -> Path:
    """Download a file; with a digest, one that is there already and right is kept.

    Args:
        url: http(s).
        path: Its final name, below a place that is held (`cache.alone`); folders are made, an older file is replaced.
        sha256: What it has to be; "" where nobody knows.
        progress: Told how far it is.

    Raises:
        FetchError: No network, no such file, a connection that broke off, a disk that is full, or other bytes.
    """
    wanted = f"a file with sha256 {sha256}" if sha256 else "a file"
    if not url.startswith(("http://", "https://")):
        raise FetchError(_message(url, wanted, "a URL that is not http(s)"))
    try:
        if sha256 and is_whole(path, sha256):
            return path
        with staging(path) as temporary:
            partial = temporary / path.name
            with private(partial) as file:
                _stream(
                    url, file, wanted=wanted, bar=_Bar(path.name, progress) if progress else None
                )
            digest = sha256_of(partial) if sha256 else ""
            if digest != sha256:
                raise FetchError(
                    _message(url, wanted, f"{partial.stat().st_size} bytes with sha256 {digest}")
                )
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
    """Bring the bytes, with a few tries; a missing file is not asked for twice."""
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
            got, final = f"HTTP status {status}", status < 500 and status not in (408, 429)
        except requests.RequestException as error:
            got, final = _in_words(error), isinstance(error, ValueError)
        else:
            return
        if final or attempt == TRIES:
            raise FetchError(
                _message(url, wanted, f"{got} ({attempt} tries)" if attempt > 1 else got)
            )
        time.sleep(PAUSE_S * attempt)


def _in_words(error: Exception) -> str:
    """Say what a failure of requests means; the first class that fits is the closest."""
    import requests

    words = {
        requests.exceptions.InvalidURL: "a URL that cannot be read",
        requests.exceptions.ProxyError: "no way through the proxy",
        requests.exceptions.SSLError: "a certificate that is not trusted",
        requests.exceptions.ChunkedEncodingError: "a connection that broke off in the middle of the file",
        requests.exceptions.Timeout: "no answer in time",
        requests.exceptions.ConnectionError: "no connection",
    }
    return next(
        (text for kind, text in words.items() if isinstance(error, kind)), type(error).__name__
    )


def _message(url: str, wanted: str, got: str) -> str:
    return f"{shown(url)}: expected {wanted}, got {got}; try again later, or pass files already on disk with --input"
