"""Files at URLs, on reliable and on faulty file systems."""

from __future__ import annotations

import errno
import importlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

from mslm_data.errors import CallError, MissingExtraError, SourceError
from mslm_data.io import remote
from mslm_data.io.files import hash_file
from mslm_data.io.remote import RemoteError, copy, fetch, local, output, read, redact_url, together
from tests import faulty
from tests.faulty import Fault, Faulty
from tests.source.server import serving
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file of more than a megabyte, also available as `faulty://`."""
    folder = tmp_path / "there"
    (folder / "more").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(range(256)) * 5000)
    (folder / "more" / "b.bin").write_bytes(b"b")
    with faulty.registered():
        yield folder


def url_of(path: Path) -> str:
    return f"faulty://{path}"


def bring(folder: Path, target: Path, **options: object) -> Path:
    fetch(url_of(folder), target, name="a.bin", **options)  # type: ignore[arg-type]
    return target


@pytest.mark.parametrize(
    "fault", [faulty.cut, faulty.flipped, faulty.longer, faulty.refused, faulty.reset]
)
def test_fetch__retries(fault: Fault, there: Path, tmp_path: Path) -> None:
    Faulty.faults["a.bin"] = [fault, fault]

    target = bring(there, tmp_path / "a", size=1_280_000, sha256=hash_file(there / "a.bin"))

    assert target.read_bytes() == (there / "a.bin").read_bytes()
    assert Faulty.opened["a.bin"] == 3


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        (faulty.cut, "640000 bytes with sha256 [0-9a-f]{64} (3 tries)", 3),
        (faulty.flipped, "1280000 bytes with sha256 [0-9a-f]{64} (3 tries)", 3),
        (faulty.longer, "more than 1280000 bytes (3 tries)", 3),
        (faulty.refused, "NoCredentialsError (3 tries)", 3),
        (faulty.reset, "Connection reset by peer (3 tries)", 3),
        (faulty.told, "OSError (3 tries)", 3),
        (faulty.denied, "PermissionError", 1),
    ],
)
def test_fetch__reports_the_reason_without_secrets(
    fault: Fault, reason: str, tries: int, there: Path, tmp_path: Path
) -> None:
    Faulty.faults["a.bin"] = [fault] * 9

    with pytest.raises(
        RemoteError, match="^" + reason.replace("(", r"\(").replace(")", r"\)") + "$"
    ) as caught:
        bring(there, tmp_path / "a", size=1_280_000, sha256=hash_file(there / "a.bin"))
    assert faulty.SECRET not in str(caught.value)
    assert Faulty.opened["a.bin"] == tries


def test_fetch__increases_its_delays(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(remote, "PAUSE_S", 0.5)
    monkeypatch.setattr(threading.Event, "wait", lambda _, seconds: pauses.append(seconds))
    Faulty.faults["a.bin"] = [faulty.reset, faulty.reset]

    bring(there, tmp_path / "a")

    assert pauses == [0.5, 1.0]


def test_fetch__does_not_retry_a_missing_file(there: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match=r"^no such file$") as caught:
        fetch(url_of(there), tmp_path / "a", name="none")

    assert caught.value.missing
    assert Faulty.opened["none"] == 1


def test_fetch__stops_at_the_maximum_size(there: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="more than 9 bytes"):
        bring(there, tmp_path / "a", max_bytes=9)
    assert (tmp_path / "a").stat().st_size <= 9


def test_fetch__distinguishes_a_full_disk_from_a_broken_remote(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(remote, "open_private", full)
    with pytest.raises(OSError, match="No space left on device"):
        bring(there, tmp_path / "a")


def test_fetch__names_the_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    loaded: Any = importlib.import_module("fsspec.registry")
    monkeypatch.delitem(loaded._registry, "s3", raising=False)  # From a previous test.

    with pytest.raises(
        MissingExtraError, match=r"s3://bucket/a: fsspec needs another package: .*s3fs"
    ):
        fetch("s3://me:secret@bucket/a", tmp_path / "a", name="b")


def test_read__names_an_unknown_protocol() -> None:
    with pytest.raises(remote.RemoteError) as raised:
        remote.read("nope://bucket/a", "b", max_bytes=10)

    assert raised.value.reason == "a protocol that fsspec does not know: 'nope'"


@pytest.mark.parametrize("size", [3, 5])
def test_read__rejects_a_size_other_than_announced(
    size: int, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sized(io.BytesIO):
        """A file that knows its size, like the files of object stores."""

        def __init__(self) -> None:
            super().__init__(b"four")
            self.size = size

    monkeypatch.setattr(Faulty, "open", lambda *_, **__: Sized())

    with pytest.raises(RemoteError, match=rf"^4 of {size} bytes \(3 tries\)$"):
        read(url_of(there), "a.bin", max_bytes=9)


class StatusError(Exception):
    """An error like those of HTTP clients."""

    status = 503


class ClientError(Exception):
    """An error like that of botocore."""

    response: ClassVar[dict[str, Any]] = {"ResponseMetadata": {"HTTPStatusCode": 503}}


@pytest.mark.parametrize("cause", [StatusError, ClientError])
def test_read__names_the_status_of_a_response(cause: type[Exception], there: Path) -> None:
    def busy(_: bytes) -> bytes:
        raise OSError(16, faulty.SECRET) from cause(faulty.SECRET)

    Faulty.faults["a.bin"] = [busy] * 3

    with pytest.raises(RemoteError, match=r"^HTTP status 503 \(3 tries\)$"):
        read(url_of(there), "a.bin", max_bytes=1 << 30)


def test_read__reads_within_another_file_system(there: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(there / "more" / "b.bin", "in/b.bin")
        archive.write(there / "more" / "b.bin", "c.bin")

    assert read(f"zip://in::{url_of(tmp_path / 'a.zip')}", "b.bin", max_bytes=1) == b"b"
    assert read(f"zip://::file://{tmp_path / 'a.zip'}", "c.bin", max_bytes=1) == b"b"


def test_read__keeps_a_query_after_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as site:
        site.add("/folder/a.bin?sig=xy", b"signed")

        assert read(f"{site.url}/folder/?sig=xy", "a.bin", max_bytes=9) == b"signed"


@pytest.mark.parametrize("protocol", ["http", "https"])
def test_filesystem__adds_limits_to_what_the_user_configured(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"headers": {"Authorization": "me"}, "client_kwargs": {"max_line_size": 9}}
    monkeypatch.setitem(fsspec.config.conf, "http", own)  # fsspec applies it to https too

    fs, _ = remote._filesystem(f"{protocol}://host/a", "")

    assert fs.kwargs["headers"] == {"Authorization": "me", "Accept-Encoding": "identity"}
    assert fs.client_kwargs["max_line_size"] == 9
    assert fs.client_kwargs["timeout"].sock_read == remote.STALL_S


# together ------------------------------------------------------------------------------------------------------------


def test_together__limits_the_number_of_concurrent_jobs() -> None:
    met = threading.Barrier(remote.TOGETHER, timeout=PATIENCE_S)
    running = threading.Semaphore(remote.TOGETHER)

    def job() -> None:
        assert running.acquire(blocking=False), "too many at a time"
        met.wait()
        running.release()

    together([job] * 3 * remote.TOGETHER)


@pytest.mark.parametrize("fault", [bytes, faulty.reset])
def test_together__raises_the_first_error_and_cancels_other_jobs(
    fault: Fault, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def stalled(data: bytes) -> bytes:
        begun.set()
        assert remote._CANCELLED.get().wait(PATIENCE_S)
        return fault(data)

    def failing() -> None:
        begun.wait()
        raise RemoteError("the first")

    def bringing() -> None:
        try:
            bring(there, tmp_path / "a")
        except RemoteError as error:
            ended.append(error.reason)
            raise

    ended: list[str] = []
    Faulty.faults["a.bin"] = [stalled] * 9
    monkeypatch.setattr(remote, "TOGETHER", 2)
    before = set(threading.enumerate())

    with pytest.raises(RemoteError, match="the first"):
        together([bringing, failing, *[bringing] * 8])

    assert ended == ["a cancelled download"]
    assert Faulty.opened["a.bin"] == 1
    assert set(threading.enumerate()) <= before


def test_together__waits_for_no_job_that_hangs(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def hanging(data: bytes) -> bytes:
        begun.set()
        return faulty.hanging(data)

    def failing() -> None:
        begun.wait()
        raise RemoteError("the first")

    Faulty.faults["a.bin"] = [hanging]
    monkeypatch.setattr(remote, "_END_S", 0.1)
    before = set(threading.enumerate())

    with pytest.raises(RemoteError, match="the first"):
        together([lambda: bring(there, tmp_path / "a"), failing])

    (left,) = set(threading.enumerate()) - before
    assert left.daemon


def test_together__accepts_no_jobs() -> None:
    together([])


# copy ----------------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_copy__copies_folders_and_files_below_a_url(there: Path, tmp_path: Path) -> None:
    whole = copy(url_of(there), tmp_path)
    one = copy(url_of(there), tmp_path, name="more/b.bin")
    part = copy(url_of(there), tmp_path, name="more")

    assert contents(whole) == contents(there)
    assert (one.name, one.read_bytes()) == ("b.bin", b"b")
    assert (part.name, contents(part)) == ("more", {"b.bin": b"b"})


def test_copy__copies_files_at_the_same_time(there: Path, tmp_path: Path) -> None:
    met = threading.Barrier(2, timeout=PATIENCE_S)

    def meeting(data: bytes) -> bytes:
        met.wait()
        return data

    Faulty.faults["a.bin"], Faulty.faults["b.bin"] = [meeting], [meeting]

    assert contents(copy(url_of(there), tmp_path)) == contents(there)
    assert not met.broken


def test_copy__ignores_access_times(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = Faulty.info
    now = iter(range(99))
    monkeypatch.setattr(
        Faulty, "info", lambda *args: {**info(*args), "time": next(now), "accessTime": next(now)}
    )

    assert copy(url_of(there), tmp_path) == copy(url_of(there), tmp_path)


@pytest.mark.parametrize("name", ["a.bin", "more/b.bin"])
def test_copy__keeps_no_partial_download(name: str, there: Path, tmp_path: Path) -> None:
    Faulty.faults[Path(name).name] = [faulty.cut] * 3

    with pytest.raises(RemoteError, match=r"\d+ bytes \(3 tries\)"):
        copy(url_of(there), tmp_path / "here")
    assert [
        path.name for path in (tmp_path / "here").iterdir() if not path.name.startswith(".lock-")
    ] == []


def test_copy__reports_a_full_disk(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(remote, "open_private", full)
    with pytest.raises(SourceError, match="No space left on device; is the disk full"):
        copy(url_of(there), tmp_path / "here")


_KILLED = """
import os, signal, sys
from pathlib import Path
from mslm_data.io import remote

remote.fetch = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
remote.copy(sys.argv[1], Path(sys.argv[2]))
"""


@pytest.mark.parametrize("headers", [{}, {"ETag": '"1"'}])
def test_copy__clears_the_files_of_a_killed_process(
    headers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as site:
        url = site.add("/a.bin", b"a")
        site.headers["/a.bin"] = headers
        subprocess.run([sys.executable, "-c", _KILLED, url, str(tmp_path)], check=False)
        assert [*tmp_path.glob(".*.mslm.tmp")]

        made = copy(url, tmp_path)

    left = [path for path in tmp_path.iterdir() if not path.name.startswith(".lock-")]
    assert left == [made.parent]


# URLs ----------------------------------------------------------------------------------------------------------------


def test_redact_url__hides_secrets() -> None:
    assert (
        redact_url("https://me:secret@host:81/a.tsv?sig=secret#secret") == "https://host:81/a.tsv"
    )
    assert redact_url("https://host/a?sig=sec::ret") == "https://host/a"
    assert redact_url("memory:///a?b") == "memory:///a"
    assert redact_url("http://[me:secret@host") == "http://host"
    assert (
        redact_url("zip://in/a::https://me:secret@host/a.zip?sig=secret")
        == "zip://in/a::https://host/a.zip"
    )


def test_local__expands_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert local("~/shards") == tmp_path / "shards"
    assert output("~/shards") == tmp_path / "shards"


def test_output__refuses_a_url() -> None:
    with pytest.raises(CallError, match="expected a folder of this machine, got a URL"):
        output("s3://bucket/shards")


def test_local__distinguishes_paths_from_urls() -> None:
    assert local("a/b") == Path("a/b")
    assert local("file:///a%20b") == Path("/a b")
    assert local(Path("/a b#1?c%20d é").as_uri()) == Path("/a b#1?c%20d é")
    assert local("s3://bucket/a") is None
    assert local("zip://a::file:///b.zip") is None
