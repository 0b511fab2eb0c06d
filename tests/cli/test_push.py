"""Uploads to a fake hub."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.builds import push as pushing
from mslm_data.errors import PushError
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
        folder = Path(options["folder_path"])
        names = [
            path.relative_to(folder).as_posix()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
        self.uploaded = [
            name
            for name in names
            if any(fnmatch.fnmatch(name, p) for p in options["allow_patterns"])
        ]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(hub, "HfApi", lambda **_: made)
    return made


@pytest.fixture(scope="module")
def genes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("genes")
    run("build", "--source", "blurb/bc2gm", "--sample", "--out", out)
    return out


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("notes")
    run(
        "build",
        "--source",
        "blurb/bc2gm",
        "--sample",
        "--out",
        out,
        "--set",
        "about.protected=true",
    )
    return out


def test_push__uploads_the_built_files_to_a_private_dataset(
    api: Hub, genes: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "genes"
    shutil.copytree(genes, folder)
    (folder / "vocab").mkdir()
    (folder / "vocab" / "pmi.arrow").write_bytes(b"x")
    (folder / "notes.csv").write_text("not ours")

    done = run("push", folder, "me/genes", "--json")

    built = sorted(
        path.relative_to(genes).as_posix() for path in genes.rglob("*") if path.is_file()
    )
    assert done.code == 0
    assert done.json == {
        "repo": "me/genes", "url": "https://hub.example/datasets/me/genes", "private": True, "files": len(built),
        "left_behind": ["notes.csv", "vocab/pmi.arrow"],
    }  # fmt: skip
    assert api.uploaded == built
    assert [name for name, _ in api.calls] == ["create_repo", "repo_info", "upload_folder"]
    assert {options["repo_type"] for _, options in api.calls} == {"dataset"}
    assert api.calls[0][1]["private"] is True
    assert str(tmp_path) not in str(api.calls[2][1]["commit_message"])
    assert run("push", folder, "me/genes").out.endswith(
        f"\n{folder}: did not upload 2 files that no build writes, such as notes.csv\n"
    )


def test_push__uploads_publicly_on_request(api: Hub, genes: Path) -> None:
    done = run("push", genes, "genes", "--public")

    assert done.out == "https://hub.example/datasets/me/genes: 15 files, public\n"
    assert api.calls[0][1]["private"] is False


def test_push__rejects_an_existing_public_repository(api: Hub, genes: Path) -> None:
    api.exists_public = True

    done = run("push", genes, "me/genes")

    assert done.code == 1
    assert "me/genes: the repository is public; pass --public to upload to it" in done.err
    assert not api.uploaded
    assert run("push", genes, "me/genes", "--public").code == 0


@pytest.mark.parametrize("visibility", [(), ("--public",)])
def test_push__rejects_patients_text_at_any_visibility(
    api: Hub, notes: Path, visibility: tuple[str, ...]
) -> None:
    done = run("push", notes, "me/notes", *visibility)

    assert done.code == 1
    assert "contains patients' text" in done.err
    assert (
        "data use agreements forbid sharing it, even in a private repository; see --share-protected"
        in done.err
    )
    assert not api.calls


def test_push__rejects_patients_text_that_appears_during_verification(
    api: Hub, genes: Path, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(genes, tmp_path / "out")
    verify = pushing.verify

    def late(folder: Path) -> Any:
        shutil.rmtree(out)
        shutil.copytree(notes, out)
        return verify(folder)

    monkeypatch.setattr(pushing, "verify", late)

    done = run("push", out, "me/genes")

    assert "contains patients' text" in done.err
    assert not api.calls


def test_push__uploads_patients_text_with_the_documented_flag(api: Hub, notes: Path) -> None:
    done = run("push", notes, "me/notes", "--share-protected")

    said = " ".join(run("push", "--help").out.split())
    assert done.code == 0
    assert api.calls[0][1]["private"] is True
    assert (
        "--share-protected Upload patients' text. Data use agreements such as MIMIC's forbid this"
        in said
    )
    assert "take responsibility" in said


def test_push__rejects_a_damaged_folder(api: Hub, genes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(genes, folder)
    (folder / "tokenizer.json").write_text("{}")

    done = run("push", folder, "me/genes")

    assert done.code == 1
    assert (
        f"{folder}: the folder is damaged: 1 problem; the first: tokenizer.json: expected the"
        in done.err
    )
    assert not api.calls


@pytest.mark.parametrize("error", [ConnectionError("x"), ValueError("bad name"), errors.HFValidationError("x"),
                                   errors.OfflineModeIsEnabled("x"), errors.LocalTokenNotFoundError("x")])  # fmt: skip
def test_push__hub_error_is_one_message(api: Hub, genes: Path, error: Exception) -> None:
    api.error = error

    done = run("push", genes, "me/genes")

    assert done.code == 1
    assert (
        f"me/genes: expected to upload to the hub, got {type(error).__name__}; check that you are"
        in done.err
    )
    assert "hf auth login" in done.err


@pytest.mark.parametrize("repo", ["", "me/genes/more", "../genes", "me/", "me/gènes"])
def test_push__invalid_repository_name_is_a_usage_error(api: Hub, genes: Path, repo: str) -> None:
    done = run("push", genes, repo)

    assert done.code == 2
    assert (
        f"repo: expected OWNER/NAME, each of letters, digits, '-', '_' and '.', got '{repo}'"
        in (done.err)
    )
    assert not api.calls


def test_push__missing_connection_is_one_message(api: Hub, genes: Path) -> None:
    network = errors.HfHubHTTPError.__bases__[0]
    api.error = type("ConnectError", (network,), {})("no way")

    assert "got ConnectError; check that" in run("push", genes, "me/genes").err


def test_push__rejects_a_folder_that_is_not_built(api: Hub, tmp_path: Path) -> None:
    assert f"{tmp_path}: no manifest.json found" in run("push", tmp_path, "me/genes").err


def test_push__explains_how_to_install_the_hub_client(
    genes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)

    assert "pip install 'mslm-data[hub]'" in run("push", genes, "me/genes").err


def test_check_not_protected__rejects_protected_folders_only(genes: Path, notes: Path) -> None:
    from mslm_data.shard.manifest import read_manifest

    pushing.check_not_protected(genes, read_manifest(genes), share_protected=False)
    pushing.check_not_protected(notes, read_manifest(notes), share_protected=True)
    with pytest.raises(PushError, match="patients' text"):
        pushing.check_not_protected(notes, read_manifest(notes), share_protected=False)
