"""Inputs for `--input`: paths, URLs and archives."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import _registry as file_systems

from mslm_data.errors import MissingExtraError, SourceError
from mslm_data.io import archive, cache, http, remote
from mslm_data.io.limits import Limits
from mslm_data.source.inputs.localise import localise
from tests import faulty
from tests.faulty import Faulty
from tests.source.server import Site, serving


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    fs = fsspec.filesystem("memory")
    fs.pipe("/corpus/train.tsv", b"a\tO\n")
    fs.pipe("/corpus/more/test.tsv", b"b\tO\n")
    yield fs
    fs.rm("/corpus", recursive=True)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    with serving() as made:
        yield made


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Clear the cache of hashed files, as in a new process."""
    return lambda: monkeypatch.setattr(cache, "_HASHED", {})


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, except locks."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".lock-")]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def make_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("c/train.tsv", b"a\tO\n")
    return path


def test_localise__does_not_change_local_paths(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_bytes(b"a\tO\n")

    assert localise([str(file), tmp_path], cache=tmp_path / "cache") == [file, tmp_path]
    assert not (tmp_path / "cache").exists()


def test_localise__takes_file_urls_in_place(tmp_path: Path) -> None:
    file = tmp_path / "my train.tsv"
    file.write_bytes(b"a\tO\n")

    assert localise([file.as_uri()], cache=tmp_path / "cache") == [file]


@pytest.mark.parametrize("text", ["{}/none.tsv", "file://{}/none.tsv", "memory://none"])
def test_localise__reports_a_missing_input(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"expected a file or a folder, found none; check --input"
    ):
        localise([text.format(tmp_path)], cache=tmp_path / "cache")


def test_localise__copies_a_file(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    (path,) = localise(["memory://corpus/train.tsv"], cache=tmp_path)

    assert path.name == "train.tsv"
    assert path.read_bytes() == b"a\tO\n"
    assert stat.S_IMODE((tmp_path / "inputs").stat().st_mode) == 0o700


def test_localise__copies_a_folder(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    (path,) = localise(["memory://corpus"], cache=tmp_path)

    assert path.name == "corpus"
    assert contents(path) == {"train.tsv": b"a\tO\n", "more/test.tsv": b"b\tO\n"}


def test_localise__copies_only_changed_files_again(
    memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    first = localise(["memory://corpus"], cache=tmp_path)
    again = localise(["memory://corpus"], cache=tmp_path)
    memory.pipe("/corpus/train.tsv", b"changed\tO\n")
    (changed,) = localise(["memory://corpus"], cache=tmp_path)

    assert again == first
    assert contents(changed)["train.tsv"] == b"changed\tO\n"


def test_localise__keeps_no_partial_copy(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(memory).open

    def breaking(
        self: fsspec.AbstractFileSystem, path: str, *args: object, **options: object
    ) -> object:
        if path.endswith("train.tsv"):
            raise OSError(5, "Input/output error")
        return real(self, path, *args, **options)

    monkeypatch.setattr(type(memory), "open", breaking)
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    with pytest.raises(
        SourceError,
        match=r"memory://corpus: cannot copy it: Input/output error \(3 tries\) for train\.tsv",
    ):
        localise(["memory://corpus"], cache=tmp_path)
    assert contents(tmp_path) == {}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A corpus at `faulty://`."""
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "train.tsv").write_bytes(b"a\tO\n")
    with faulty.registered():
        yield tmp_path / "there"


@pytest.mark.parametrize(
    ("fault", "got"),
    [
        (faulty.refused, "NoCredentialsError"),
        (faulty.told, "OSError"),
        (faulty.cut, "2 bytes"),
        (faulty.longer, "more than 4 bytes"),
    ],
)
def test_localise__converts_errors_of_file_systems(
    fault: faulty.Fault, got: str, there: Path, tmp_path: Path
) -> None:
    Faulty.faults["train.tsv"] = [fault] * 3

    with pytest.raises(
        SourceError,
        match=rf"there: cannot copy it: {got} \(3 tries\) for train\.tsv; check",
    ) as caught:
        localise([f"faulty://{there}"], cache=tmp_path / "cache")
    assert faulty.SECRET not in str(caught.value)
    assert contents(tmp_path / "cache") == {}


def test_localise__tries_again(there: Path, tmp_path: Path) -> None:
    Faulty.faults["train.tsv"] = [faulty.refused, faulty.cut]

    (path,) = localise([f"faulty://{there}"], cache=tmp_path / "cache")

    assert contents(path) == {"train.tsv": b"a\tO\n"}


def test_localise__copies_once_for_many(there: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = set(
            pool.map(
                lambda _: localise([f"faulty://{there}"], cache=tmp_path / "cache")[0], range(8)
            )
        )

    assert len(paths) == 1
    assert Faulty.opened == {"train.tsv": 1}


def test_localise__makes_private_copies_for_any_umask(
    there: Path, site: Site, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        inputs = [f"faulty://{there}", make_zip(tmp_path / "corpus.zip"), site.add("/a.tsv", b"a")]
        localise(inputs, cache=tmp_path / "cache")
    finally:
        os.umask(before)

    for path in (tmp_path / "cache").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_localise__reports_a_full_disk(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(remote, "open_private", full)
    monkeypatch.setattr("mslm_data.io.archive.open_private", full)
    for text in (f"faulty://{there}", str(make_zip(tmp_path / "corpus.zip"))):
        with pytest.raises(SourceError, match="No space left on device; is the disk full"):
            localise([text], cache=tmp_path / "cache")
    assert contents(tmp_path / "cache") == {}


def test_localise__reports_an_unwritable_cache(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def readonly(place: Path) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("mslm_data.io.cache.hold_place", readonly)
    with pytest.raises(
        SourceError,
        match=r"a\.tsv: expected to write it, got Read-only file system; is the disk full",
    ):
        localise([site.add("/a.tsv", b"a")], cache=tmp_path)


def test_localise__unpacks_archives_once(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "corpus.zip")
    (first,) = localise([archive], cache=tmp_path / "cache")
    (second,) = localise([archive], cache=tmp_path / "cache")

    assert first == second
    assert contents(first) == {"c/train.tsv": b"a\tO\n"}


def test_localise__discards_an_archive_that_changes_during_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_zip(tmp_path / "corpus.zip")
    first = path.read_bytes()
    unpack = archive.unpack

    def late(packed: Path, folder: Path) -> Path:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("c/train.tsv", "b\tO\n")
        return unpack(packed, folder)

    with monkeypatch.context() as patch:
        patch.setattr(archive, "unpack", late)
        with pytest.raises(
            SourceError, match=r"corpus\.zip: the archive changed while it was unpacked; wait until"
        ):
            localise([path], cache=tmp_path / "cache")
    path.write_bytes(first)

    (folder,) = localise([path], cache=tmp_path / "cache")

    assert contents(folder) == {"c/train.tsv": b"a\tO\n"}


def test_localise__copies_and_unpacks(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    memory.pipe("/corpus/c.zip", make_zip(tmp_path / "c.zip").read_bytes())

    (path,) = localise(["memory://corpus/c.zip"], cache=tmp_path / "cache")

    assert contents(path) == {"c/train.tsv": b"a\tO\n"}


def test_localise__downloads_and_trusts_validators_only(site: Site, tmp_path: Path) -> None:
    plain, tagged = site.add("/plain.tsv", b"a\tO\n"), site.add("/tagged.tsv", b"a\tO\n")
    site.headers["/tagged.tsv"] = {"ETag": '"1"'}
    for _ in range(2):
        paths = localise([plain, tagged], cache=tmp_path)

    assert [path.name for path in paths] == ["plain.tsv", "tagged.tsv"]
    assert site.requests == {"/plain.tsv": 2, "/tagged.tsv": 1}
    site.files["/tagged.tsv"], site.headers["/tagged.tsv"] = b"b\tO\n", {"ETag": '"2"'}
    assert localise([tagged], cache=tmp_path)[0].read_bytes() == b"b\tO\n"


def test_localise__shows_no_secrets(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/none.tsv?token=secret".replace("http://", "http://me:secret@")

    with pytest.raises(
        SourceError, match=r"/none\.tsv: expected a file, got HTTP status 404"
    ) as caught:
        localise([url], cache=tmp_path)
    assert "secret" not in str(caught.value)


def test_localise__reports_an_unreachable_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    with serving() as gone:
        url = f"{gone.url}/train.tsv"

    with pytest.raises(SourceError, match=r"train\.tsv: expected a file, got no connection"):
        localise([url], cache=tmp_path)


def test_localise__rejects_paths_outside(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(memory), "find", lambda *args, **options: {"/corpus/../../evil.tsv": {"size": 1}}
    )

    with pytest.raises(SourceError, match="memory://corpus: cannot copy it"):
        localise(["memory://corpus"], cache=tmp_path)
    assert contents(tmp_path) == {}


def test_localise__names_the_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(file_systems, "s3", raising=False)  # if another test has used it

    with pytest.raises(
        MissingExtraError, match=r"s3://bucket/train\.tsv: fsspec needs another package.*s3fs"
    ):
        localise(["s3://bucket/train.tsv"], cache=tmp_path)


def test_localise__reports_an_unknown_scheme(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a protocol that fsspec does not know: 'nonsense'"):
        localise(["nonsense://a"], cache=tmp_path)


# Damage ------------------------------------------------------------------------------------------------


WHOLE = b"token\tO\n" * 100


@pytest.mark.parametrize("headers", [{}, {"ETag": '"1"'}])
def test_localise__keeps_no_body_shorter_than_announced(
    headers: dict[str, str], site: Site, tmp_path: Path
) -> None:
    url = site.add("/train.tsv", WHOLE)
    site.headers["/train.tsv"] = headers
    site.short["/train.tsv"] = 3

    with pytest.raises(
        SourceError,
        match=r"/train\.tsv: expected a file, got 400 of 800 bytes that the server announced "
        r"\(3 tries\); try again later",
    ):
        localise([url], cache=tmp_path)
    assert contents(tmp_path) == {}
    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE  # the server is well again


def test_localise__unpacks_no_bomb_on_its_way(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers may compress a response although the request forbids it: 3.8 MB became 1.5 GB."""
    for name, size in (("text", 1 << 20), ("bomb", 5 << 20)):
        site.add(f"/{name}.txt", gzip.compress(bytes(size)))
        site.headers[f"/{name}.txt"] = {"Content-Encoding": "gzip"}

    monkeypatch.setattr(http, "LIMITS", Limits(free_bytes=2 << 20))

    (path,) = localise([f"{site.url}/text.txt"], cache=tmp_path / "cache")
    with pytest.raises(SourceError, match="expected a file, got more than 2097152 unpacked bytes"):
        localise([f"{site.url}/bomb.txt"], cache=tmp_path / "cache")

    assert path.stat().st_size == 1 << 20
    assert not [name for name in contents(tmp_path / "cache") if name.endswith("bomb.txt")]


def test_localise__retries_if_a_body_is_short(site: Site, tmp_path: Path) -> None:
    url = site.add("/train.tsv", WHOLE)
    site.short["/train.tsv"] = 2

    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE
    assert site.requests == {"/train.tsv": 3}


def test_localise__names_a_copy_by_the_received_version(site: Site, tmp_path: Path) -> None:
    url = site.add("/train.tsv", b"new\tO\n")
    site.headers["/train.tsv"] = {"ETag": '"new"'}
    site.asked["/train.tsv"] = b"old and longer\tO\n", {"ETag": '"old"'}
    assert localise([url], cache=tmp_path)[0].read_bytes() == b"new\tO\n"

    # If the old file is restored, the copy of the new file is not used.
    site.files["/train.tsv"], site.headers["/train.tsv"] = site.asked.pop("/train.tsv")
    assert localise([url], cache=tmp_path)[0].read_bytes() == b"old and longer\tO\n"

    site.files["/train.tsv"] = b"new\tO\n"
    site.headers["/train.tsv"] = {"ETag": '"new"'}
    assert localise([url], cache=tmp_path)[0].read_bytes() == b"new\tO\n"
    assert site.requests == {"/train.tsv": 2}


def test_localise__accepts_a_server_with_size_0(site: Site, tmp_path: Path) -> None:
    url = site.add("/train.tsv", WHOLE)
    site.asked["/train.tsv"] = b"", {}

    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE


def flipped(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def joined(path: Path) -> None:
    (path.parent / "another.tsv").write_bytes(b"b\tO\n")


@pytest.mark.parametrize("harm", [flipped, cut, joined, Path.unlink])
@pytest.mark.parametrize("kind", ["http", "folder", "archive"])
def test_localise__makes_a_harmed_copy_again(
    kind: str,
    harm: Callable[[Path], None],
    site: Site,
    memory: fsspec.AbstractFileSystem,
    tmp_path: Path,
    new_process: Callable[[], None],
) -> None:
    site.headers["/train.tsv"] = {"ETag": '"1"'}
    text = {
        "http": site.add("/train.tsv", b"a\tO\n"),
        "folder": "memory://corpus",
        "archive": str(make_zip(tmp_path / "corpus.zip")),
    }[kind]
    (path,) = localise([text], cache=tmp_path / "cache")
    copied = path if path.is_file() else next(path.rglob("train.tsv"))
    before = contents(copied.parent)
    harm(copied)
    new_process()

    assert localise([text], cache=tmp_path / "cache") == [path]
    assert contents(copied.parent) == before
    assert not list((tmp_path / "cache").rglob(".part-*"))


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"train.tsv": 1}', b"\xff"])
def test_localise__copies_again_if_the_record_is_damaged(
    record: bytes, memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    (path,) = localise(["memory://corpus/train.tsv"], cache=tmp_path)
    cache.digests_file(path.parents[1]).write_bytes(record)
    path.write_bytes(b"harmed")

    assert localise(["memory://corpus/train.tsv"], cache=tmp_path) == [path]
    assert path.read_bytes() == b"a\tO\n"


def test_localise__hashes_a_copy_once_a_process(
    memory: fsspec.AbstractFileSystem,
    tmp_path: Path,
    new_process: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    localise(["memory://corpus"], cache=tmp_path)
    hashed: list[Path] = []
    digest = cache.hash_file
    monkeypatch.setattr(cache, "hash_file", lambda path: hashed.append(path) or digest(path))
    new_process()

    for _ in range(3):
        localise(["memory://corpus"], cache=tmp_path)
    assert sorted(path.name for path in hashed) == ["test.tsv", "train.tsv"]


def test_localise__restarts_if_a_file_changes_during_copying(there: Path, tmp_path: Path) -> None:
    def changing(data: bytes) -> bytes:
        (there / "train.tsv").write_bytes(b"b\tO\n")
        return data

    Faulty.faults["train.tsv"] = [changing]

    (path,) = localise([f"faulty://{there}"], cache=tmp_path / "cache")

    assert contents(path) == {"train.tsv": b"b\tO\n"}
    assert len(contents(tmp_path / "cache")) == 2  # the copy and its record


def test_localise__restarts_if_a_folder_changes_during_copying(there: Path, tmp_path: Path) -> None:
    def replaced(data: bytes) -> bytes:
        (there / "train.tsv").rename(there / "test.tsv")
        raise FileNotFoundError

    Faulty.faults["train.tsv"] = [replaced]

    (path,) = localise([f"faulty://{there}"], cache=tmp_path / "cache")

    assert contents(path) == {"test.tsv": b"a\tO\n"}


def test_localise__fails_for_a_file_that_keeps_changing(there: Path, tmp_path: Path) -> None:
    def changing(data: bytes) -> bytes:
        (there / "train.tsv").write_bytes(data + b"b\tO\n")
        return data

    Faulty.faults["train.tsv"] = [changing] * 9

    with pytest.raises(
        SourceError,
        match=r"there: cannot copy it: other files or other bytes after each of 3 tries; check",
    ):
        localise([f"faulty://{there}"], cache=tmp_path / "cache")
    assert contents(tmp_path / "cache") == {}
