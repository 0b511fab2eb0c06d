"""A small web server for tests, with configurable failures and a count of requests."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """The content of the server, and its failures.

    Attributes:
        files: Path -> bytes.
        broken: Paths whose connection breaks after half of the bytes.
        failing: Path -> number of requests to answer with 503 first.
        stalled: Paths whose bytes stop in the middle, without an end.
        slow_piece_s: Pause in seconds before each tenth of a body.
        short: Path -> number of requests to answer with half of the bytes, and their length.
        asked: Path -> answer to HEAD, if it differs from that to GET.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.broken: set[str] = set()
        self.stalled: set[str] = set()
        self.slow_piece_s = 0.0
        self.ended = threading.Event()
        self.failing: Counter[str] = Counter()
        self.short: Counter[str] = Counter()
        self.asked: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.slow_s = 0.0
        self.requests: Counter[str] = Counter()

    def add(self, path: str, data: bytes) -> str:
        self.files[path] = data
        return f"{self.url}{path}"


@contextmanager
def serving() -> Iterator[Site]:
    """Serve on a free local port within the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            site.requests[self.path] += 1
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            time.sleep(site.slow_s)
            data, headers = site.files.get(self.path), site.headers.get(self.path, {})
            if not with_body and self.path in site.asked:
                data, headers = site.asked[self.path]
            if data is None:
                self.send_error(404)
                return
            if with_body and site.failing[self.path] > 0:
                site.failing[self.path] -= 1
                self.send_error(503)
                return
            if with_body and site.short[self.path] > 0:
                site.short[self.path] -= 1
                data = data[: len(data) // 2]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body and site.slow_piece_s:
                for start in range(0, len(data), len(data) // 10):
                    time.sleep(site.slow_piece_s)
                    self.wfile.write(data[start : start + len(data) // 10])
            elif with_body and self.path in site.broken | site.stalled:
                self.wfile.write(data[: len(data) // 2])
                if self.path in site.stalled:
                    site.ended.wait()
            elif with_body:
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Do not log requests."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            """Do not report clients that disconnect."""

    with running(Server(("127.0.0.1", 0), Handler)) as url:
        site = Site(url)
        try:
            yield site
        finally:
            site.ended.set()


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """Run a server in a thread within the context, and yield its URL."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
