"""Uploads to a fake hub."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.builds import push as pushing
from tests.cli.running import run

hub = pytest.importorskip("huggingface_hub")
errors = pytest.importorskip("huggingface_hub.errors")


class Info(NamedTuple):
    private: bool


class Url(str):
    """The hub client's description of a repository."""

    repo_id = "me/genes"


class Hub:
    """Accepts uploads, or rejects them on request."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.exists_public = False
        self.error: Exception | None = None
        self.uploaded: list[str] = []

    def create_repo(self, repo: str, **options: Any) -> Url:
        self.calls.append(("create_repo", {"repo": repo, **options}))
        if self.error:
            raise self.error
        self.private = options["private"] and not self.exists_public
        return Url("https://hub.example/datasets/me/genes")

    def repo_info(self, repo: str, **options: Any) -> Info:
        self.calls.append(("repo_info", {"repo": repo, **options}))
        return Info(self.private)

    def upload_folder(self, **options: Any) -> None:
        self.calls.append(("upload_folder", options))
        self.uploaded = [
            name
            for name in names_in(Path(options["folder_path"]))
            if any(fnmatch.fnmatch(name, pattern) for pattern in options["allow_patterns"])
        ]


def names_in(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(hub, "HfApi", lambda **_: made)
    return made


@pytest.fixture
def changed(ncbi: Path, tmp_path: Path) -> Path:
    """A copy of a built folder, which a test may change."""
    return shutil.copytree(ncbi, tmp_path / "changed")


def test_push__uploads_the_built_files_to_a_private_dataset(
    api: Hub, ncbi: Path, changed: Path
) -> None:
    (changed / "vocab").mkdir()
    (changed / "vocab" / "pmi.arrow").write_bytes(b"x")
    (changed / "notes.csv").write_text("not ours")

    done = run("push", changed, "me/genes")

    built = names_in(ncbi)
    assert done.code == 0, done.err
    assert done.out == (
        f"https://hub.example/datasets/me/genes: {len(built)} files, private\n"
        "me/genes: did not upload 2 files that no build writes, such as notes.csv\n"
    )
    assert api.uploaded == built
    assert [name for name, _ in api.calls] == ["create_repo", "repo_info", "upload_folder"]
    assert {options["repo_type"] for _, options in api.calls} == {"dataset"}
    assert api.calls[0][1]["private"] is True
    assert str(changed.parent) not in api.calls[2][1]["commit_message"]


def test_push__uploads_publicly_only_on_request(api: Hub, ncbi: Path) -> None:
    api.exists_public = True

    refused = run("push", ncbi, "me/genes")
    uploaded = list(api.uploaded)
    done = run("push", ncbi, "me/genes", "--public")

    assert refused.code == 1
    assert "me/genes: the repository is public; pass --public to upload to it" in refused.err
    assert uploaded == []
    assert done.out == f"https://hub.example/datasets/me/genes: {len(api.uploaded)} files, public\n"
    assert api.calls[-3][1]["private"] is False


@pytest.mark.parametrize("visibility", [(), ("--public",)])
def test_push__rejects_patients_text_at_any_visibility(
    api: Hub, notes: Path, visibility: tuple[str, ...]
) -> None:
    done = run("push", notes, "me/notes", *visibility)

    assert done.code == 1
    assert "contains patients' text" in done.err
    assert "forbid sharing it, even in a private repository; see --share-protected" in done.err
    assert not api.calls


def test_push__rejects_patients_text_that_appears_during_verification(
    api: Hub, changed: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = pushing.verify

    def late(folder: Path) -> Any:
        shutil.rmtree(changed)
        shutil.copytree(notes, changed)
        return verify(folder)

    monkeypatch.setattr(pushing, "verify", late)

    done = run("push", changed, "me/genes")

    assert "contains patients' text" in done.err
    assert not api.calls


def test_push__uploads_patients_text_with_the_documented_flag(api: Hub, notes: Path) -> None:
    assert run("push", notes, "me/notes", "--share-protected").code == 0
    assert api.calls[0][1]["private"] is True


def test_push__rejects_a_damaged_folder(api: Hub, changed: Path) -> None:
    (changed / "tokenizer.json").write_text("{}")

    done = run("push", changed, "me/genes")

    assert done.code == 1
    assert f"{changed}: the folder is damaged: 1 problem; the first: tokenizer.json:" in done.err
    assert not api.calls


NETWORK = errors.HfHubHTTPError.__bases__[0]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("x"),
        ValueError("bad name"),
        errors.HFValidationError("x"),
        errors.OfflineModeIsEnabled("x"),
        errors.LocalTokenNotFoundError("x"),
        type("ConnectError", (NETWORK,), {})("x"),
    ],
)
def test_push__error_of_the_hub_is_one_message(api: Hub, ncbi: Path, error: Exception) -> None:
    api.error = error

    done = run("push", ncbi, "me/genes")

    expected = f"expected to upload to the hub, got {type(error).__name__}; check that you are"
    assert done.code == 1
    assert f"me/genes: {expected}" in done.err
    assert "hf auth login" in done.err


def test_push__explains_how_to_install_the_hub_client(
    ncbi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)

    assert "pip install 'mslm-data[hub]'" in run("push", ncbi, "me/genes").err
