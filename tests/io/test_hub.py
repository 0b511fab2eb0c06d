from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mslm_data.errors import AnnotateError, TokenizerError, VocabularyError
from mslm_data.io import hub

errors = pytest.importorskip("huggingface_hub.errors")

LOST = next(kind for kind in errors.HfHubHTTPError.__bases__ if not issubclass(kind, OSError))
"""The HTTP library's error, which `huggingface_hub` does not convert when a download breaks off."""


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a broken connection to the hub."""

    def broken(*_: Any, **__: Any) -> str:
        raise LOST("connection lost")

    monkeypatch.setattr("huggingface_hub.snapshot_download", broken)


@pytest.mark.parametrize(
    "name",
    [
        "gpt2", "me/model", "me/a_b-1.5", "_me/x", "../model", "me/..", "m.", "-m", "a--b", "m.git", "a/b/c", "",
        "me/", "/m", " ", "gènes", "m" * 96, "m" * 97,
    ],
)  # fmt: skip
def test_is_repository_name__agrees_with_the_hub(name: str) -> None:
    validators = pytest.importorskip("huggingface_hub.utils")
    try:
        validators.validate_repo_id(name)
        expected = True
    except errors.HFValidationError:
        expected = False

    assert hub.is_repository_name(name) == expected


def test_check_repository_name__needs_no_other_module_of_the_hub() -> None:
    code = "from mslm_data.io.hub import check_repository_name as check; check('me/x', wanted_by='a test')"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_fetch_files__downloads_files_at_the_root_of_the_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}

    def download(repo: str, **options: Any) -> str:
        asked.update(options, repo=repo)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)

    found = hub.fetch_files("me/model", ("*.json",), wanted_by="a test", only_here=True)

    assert found == tmp_path
    assert asked == {
        "repo": "me/model",
        "allow_patterns": ["*.json"],
        "ignore_patterns": ["*/*"],
        "local_files_only": True,
    }


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RepositoryNotFoundError", "has no such repository, or none that you may read"),
        ("GatedRepoError", "denies access; request it"),
        ("LocalEntryNotFoundError", r"cannot be reached \(LocalEntryNotFoundError\)"),
    ],
)
def test_fetch_files__distinguishes_errors_of_the_hub_from_no_answer(
    kind: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = getattr(errors, kind)

    def refuse(*_: Any, **__: Any) -> str:
        raise error.__new__(error)

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)

    with pytest.raises(hub.NotFetchedError, match=message):
        hub.fetch_files("me/model", ("*.json",), wanted_by="a test")


@pytest.mark.usefixtures("lost")
def test_fetch_files__converts_a_broken_connection_for_each_caller(tmp_path: Path) -> None:
    from mslm_data.encode.tokenizer import load_tokenizer
    from mslm_data.lexicon.scores.encoders import load_encoder
    from mslm_data.torch.predict.model_files import find_model

    with pytest.raises(hub.NotFetchedError, match=LOST.__name__):
        hub.fetch_files("me/model", ("*.json",), wanted_by="a test")
    with pytest.raises(
        TokenizerError,
        match=rf"me/model: no such file or folder, and the hub .*\({LOST.__name__}\)",
    ):
        load_tokenizer("me/model")
    with pytest.raises(
        AnnotateError, match=rf"me/model: no such folder, and the hub .*\({LOST.__name__}\)"
    ):
        find_model("me/model")
    with pytest.raises(
        VocabularyError, match=rf"me/model: no such folder, and the hub .*\({LOST.__name__}\)"
    ):
        load_encoder("me/model")
