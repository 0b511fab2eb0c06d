"""No network access unless the user asks for it, and clear errors without network."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mslm_data import _optional
from mslm_data.io import remote, resources
from tests.cli.running import run
from tests.security.network import ROOT, without_network
from tests.support.cases import long

VOCAB = resources.path("vocab", "sample/vocab.txt")


@pytest.mark.parametrize("part", ["one-build", *long("imports", "commands")])
def test_forbid__offline_features_ask_for_no_network_and_lower_no_log_level(
    part: str, tmp_path: Path
) -> None:
    for package in ("torch", "transformers", "medcat", "spacy", "datasets"):
        pytest.importorskip(package)
    log = tmp_path / "asked"

    done = subprocess.run(
        [sys.executable, "-m", "tests.security.offline", part, tmp_path], cwd=ROOT, capture_output=True, text=True,
        env=without_network(log, tmp_path, NUMBA_DISABLE_JIT="1"), check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert not log.exists() or not log.read_text()


def test_forbid__sees_requests_of_workers(tmp_path: Path) -> None:
    log = tmp_path / "asked"
    script = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\nexcept OSError as e:\n    print(e)"

    done = subprocess.run([sys.executable, "-c", script], env=without_network(log, tmp_path), capture_output=True,
                          text=True, check=True)  # fmt: skip

    assert "unreachable" in done.stdout
    assert "127.0.0.1" in log.read_text()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """A machine without network: name look-ups and connections fail."""
    asked: list[object] = []

    def refuse(*args: object, **_: object) -> Any:
        asked.append(args)
        raise socket.gaierror(socket.EAI_AGAIN, "no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    return asked


def test_build__download_reports_the_missing_network(
    no_network: list[object], tmp_path: Path
) -> None:
    done = run("build", "--source", "blurb/bc2gm", "--tokenizer", VOCAB, "--out", tmp_path / "out")

    assert done.code == 1
    assert "got no connection (3 tries)" in done.err
    assert "--input" in done.err
    assert no_network
    assert not (tmp_path / "out").exists()


def test_build__url_reports_the_missing_network(no_network: list[object], tmp_path: Path) -> None:
    done = run("build", "--source", "blurb/bc2gm", "--input", "https://example.org/train.tsv", "--tokenizer", VOCAB,
               "--out", tmp_path / "out")  # fmt: skip

    assert done.code == 1
    assert "https://example.org/train.tsv: cannot copy it: no connection" in done.err
    assert no_network


def test_build__hub_id_reports_the_missing_network(
    no_network: list[object], tmp_path: Path
) -> None:
    done = run("build", "--source", "blurb/bc2gm", "--sample", "--tokenizer", "nobody/nothing-here",
               "--out", tmp_path / "out")  # fmt: skip

    assert done.code == 1
    assert "nobody/nothing-here: no such file or folder, and the hub cannot be reached" in done.err


def test_load__sets_quiet_defaults_and_keeps_the_users_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_optional.importlib, "import_module", lambda name: name)
    monkeypatch.delenv("MEDCAT_USAGE_LOGS", raising=False)
    monkeypatch.setenv("MEDCAT_DISABLE_VERSION_CHECK", "")
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")

    _optional.load("medcat.cat", wanted_by="a test")

    assert os.environ["MEDCAT_USAGE_LOGS"] == "0"
    assert os.environ["MEDCAT_DISABLE_VERSION_CHECK"] == "true"
    assert (os.environ["DO_NOT_TRACK"], os.environ["HF_HUB_OFFLINE"]) == ("0", "0")


@pytest.mark.parametrize(
    ("package", "variable", "value"),
    [
        ("medcat", "MEDCAT_DISABLE_VERSION_CHECK", "true"),
        ("medcat", "MEDCAT_USAGE_LOGS", "0"),
        ("medcat", "HF_HUB_OFFLINE", "1"),
        ("ray", "RAY_USAGE_STATS_ENABLED", "0"),
        ("datasets", "HF_HUB_DISABLE_TELEMETRY", "1"),
        ("huggingface_hub", "HF_HUB_DISABLE_TELEMETRY", "1"),
        ("transformers", "HF_HUB_DISABLE_TELEMETRY", "1"),
    ],
)
def test_load__disables_telemetry(
    package: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_optional.importlib, "import_module", lambda name: name)
    monkeypatch.setattr(os, "environ", {})

    _optional.load(package, wanted_by="a test")

    assert os.environ[variable] == value
