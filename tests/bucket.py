"""A local S3 server behind a proxy with scripted faults.

Tests read through the proxy, and store objects directly.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.source.server import running

BUCKET = "corpora"
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Answer(NamedTuple):
    """A response of the proxy.

    `length` is the announced length, or None to omit it.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    length: int | None


Fault = Callable[[Answer], Answer | None]
"""Transforms a response; None closes the connection without one. A fault may wait."""


@dataclass
class Rule:
    """Applies a fault to the next `times` requests of a method for keys with this ending."""

    fault: Fault
    ending: str
    times: int
    method: str


class Meeting:
    """Holds requests for keys with this ending until a number of them wait at the same time."""

    def __init__(self, ending: str, wanted: int) -> None:
        self.ending = ending
        self.most = 0
        self._wanted = wanted
        self._there = 0
        self._changed = threading.Condition()

    def hold(self) -> None:
        with self._changed:
            self._there += 1
            self.most = max(self.most, self._there)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._wanted, timeout=3)
            self._there -= 1


class Bucket:
    """A bucket behind the proxy.

    Attributes:
        url: URL of the proxy.
        requests: Number of requests for each method and key.
        meeting: Where GET requests wait for each other.
    """

    def __init__(self, server: str) -> None:
        import boto3
        from botocore.config import Config

        self.url = ""
        self.requests: Counter[tuple[str, str]] = Counter()
        self.meeting: Meeting | None = None
        self.closing = threading.Event()
        self._rules: deque[Rule] = deque()
        self._lock = threading.Lock()
        self._s3 = boto3.client(
            "s3",
            endpoint_url=server,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(proxies={}),
        )
        self._s3.create_bucket(Bucket=BUCKET)

    def reset(self) -> None:
        """Remove all faults and counts of requests."""
        self._rules.clear()
        self.requests.clear()
        self.meeting = None

    def put(self, key: str, data: bytes) -> str:
        """Store an object directly, and return its URL."""
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def put_all(self, folder: Path, key: str) -> str:
        """Store all files of a folder, and return the URL of the folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{key}"

    def befall(self, fault: Fault, ending: str, *, times: int = 999, method: str = "GET") -> None:
        self._rules.append(Rule(fault, ending, times, method))

    def fault_of(self, method: str, key: str) -> Fault | None:
        """Count a request, and return its fault."""
        with self._lock:
            self.requests[method, key] += 1
            for rule in self._rules:
                if rule.times and rule.method == method and key.endswith(rule.ending):
                    rule.times -= 1
                    return rule.fault
        return None


# Faults --------------------------------------------------------------------------------------------------------------


def broken(answer: Answer) -> Answer:
    """Announce the full length, and send half of the bytes."""
    return answer._replace(body=answer.body[: len(answer.body) // 2])


def short(answer: Answer) -> Answer:
    """Announce and send half of the bytes."""
    half = answer.body[: len(answer.body) // 2]
    return answer._replace(body=half, length=len(half))


def halved(answer: Answer) -> Answer:
    """Announce and send half of the bytes, without a content range."""
    headers = {k: v for k, v in answer.headers.items() if k.lower() != "content-range"}
    return short(answer)._replace(headers=headers)


def unmeasured(answer: Answer) -> Answer:
    """Announce no length, and send half of the bytes."""
    return short(answer)._replace(length=None)


def reset(answer: Answer) -> None:
    """Close the connection without a response."""


def busy(answer: Answer) -> Answer:
    return Answer(503, {"Content-Type": "application/xml"}, BUSY, len(BUSY))


def denied(answer: Answer) -> Answer:
    body = BUSY.replace(b"SlowDown", b"AccessDenied")
    return Answer(403, {"Content-Type": "application/xml"}, body, len(body))


@contextmanager
def serving() -> Iterator[Bucket]:
    """Serve a bucket on free local ports inside the context."""
    from moto.server import ThreadedMotoServer  # late, as it takes a second

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # The server writes one line per request.
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    bucket = Bucket(f"http://{host}:{port}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on()

        def do_HEAD(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            path = self.path.partition("?")[0]
            fault = bucket.fault_of(self.command, path.removeprefix(f"/{BUCKET}/"))
            meeting = bucket.meeting
            if meeting is not None and self.command == "GET" and path.endswith(meeting.ending):
                meeting.hold()

            upstream = http.client.HTTPConnection(host, port, timeout=30)
            upstream.request(self.command, self.path, headers=dict(self.headers))
            response = upstream.getresponse()
            headers = dict(response.getheaders())
            length = int(headers.pop("Content-Length", "0"))
            answer: Answer | None = Answer(response.status, headers, response.read(), length)
            upstream.close()

            if fault is not None and answer is not None:
                answer = fault(answer)
            self.close_connection = True
            if answer is not None:
                self._send(answer)

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            if answer.length is not None:
                self.send_header("Content-Length", str(answer.length))
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, *args: object) -> None:
            """Ignore clients that disconnect early."""

    try:
        with running(Server(("127.0.0.1", 0), Handler)) as bucket.url:
            try:
                yield bucket
            finally:
                bucket.closing.set()
    finally:
        moto.stop()
