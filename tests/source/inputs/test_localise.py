"""Inputs for `--input`: paths, URLs and archives."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import _registry as file_systems

from mslm_data.errors import MissingExtraError, SourceError
from mslm_data.io import archive, remote
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
    with serving() as made:
        yield made


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


def test_localise__expands_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.tsv").write_bytes(b"a\tO\n")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert localise(["~/train.tsv"]) == [tmp_path / "train.tsv"]


def test_localise__explains_a_pipe(tmp_path: Path) -> None:
    """Such as `--input <(zcat train.gz)`."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceError, match=r"pipe: expected a file or a folder, got a pipe"):
        localise([tmp_path / "pipe"])


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
    with pytest.raises(
        SourceError,
        match=r"memory://corpus: cannot copy it: Input/output error \(3 tries\) for train\.tsv",
    ):
        localise(["memory://corpus"], cache=tmp_path)
    assert contents(tmp_path) == {}


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Path]:
    """A corpus at `faulty://`."""
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

    made = [*(tmp_path / "cache").rglob("*")]
    assert sum(path.is_file() for path in made) >= 3
    for path in made:
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
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def readonly(*_: object, **__: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("mslm_data.io.cache.locked", readonly)
    with pytest.raises(
        SourceError,
        match=r"inputs/.*: expected to write it, got Read-only file system; is the disk full",
    ):
        localise(["memory://corpus/train.tsv"], cache=tmp_path)


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

    def late(packed: Path, folder: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("c/train.tsv", "b\tO\n")
        unpack(packed, folder)

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
        SourceError, match=r"/none\.tsv: expected a file or a folder, found none"
    ) as caught:
        localise([url], cache=tmp_path)
    assert "secret" not in str(caught.value)


def test_localise__reports_an_unreachable_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as gone:
        url = f"{gone.url}/train.tsv"

    with pytest.raises(SourceError, match=r"train\.tsv: cannot copy it: no connection \(3 tries\)"):
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
        match=r"/train\.tsv: cannot copy it: 400 bytes \(3 tries\)",
    ):
        localise([url], cache=tmp_path)
    assert contents(tmp_path) == {}
    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE  # the server is well again


def test_localise__retries_if_a_body_is_short(site: Site, tmp_path: Path) -> None:
    url = site.add("/train.tsv", WHOLE)
    site.short["/train.tsv"] = 2

    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE
    assert site.requests == {"/train.tsv": 3}


def test_localise__accepts_a_server_with_size_0(site: Site, tmp_path: Path) -> None:
    url = site.add("/train.tsv", WHOLE)
    site.asked["/train.tsv"] = b"", {}

    assert localise([url], cache=tmp_path)[0].read_bytes() == WHOLE
