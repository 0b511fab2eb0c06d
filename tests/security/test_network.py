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


URL = "https://example.org/train.tsv"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tokenizer", VOCAB), "got no connection (3 tries); "),
        (("--input", URL, "--tokenizer", VOCAB), f"{URL}: cannot copy it: no connection"),
        (
            ("--sample", "--tokenizer", "nobody/nothing-here"),
            "nobody/nothing-here: no such file or folder, and the hub cannot be reached",
        ),
    ],
)
def test_build__reports_the_missing_network(
    words: tuple[object, ...], message: str, no_network: list[object], tmp_path: Path
) -> None:
    done = run("build", "--source", "blurb/bc2gm", *words, "--out", tmp_path / "out")

    assert done.code == 1
    assert message in done.err
    assert no_network
    assert not (tmp_path / "out").exists()


QUIET = {
    "medcat": ("MEDCAT_DISABLE_VERSION_CHECK=true", "MEDCAT_USAGE_LOGS=0", "HF_HUB_OFFLINE=1"),
    "ray": ("RAY_USAGE_STATS_ENABLED=0",),
    "datasets": ("HF_HUB_DISABLE_TELEMETRY=1",),
    "huggingface_hub": ("HF_HUB_DISABLE_TELEMETRY=1",),
    "transformers": ("HF_HUB_DISABLE_TELEMETRY=1",),
}


@pytest.mark.parametrize("package", QUIET)
def test_load__disables_telemetry_and_keeps_the_users_variables(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_optional.importlib, "import_module", lambda name: name)
    expected = dict(variable.split("=") for variable in QUIET[package])
    name = min(expected)
    for given, kept in (("", expected[name]), ("mine", "mine")):
        monkeypatch.setattr(os, "environ", {name: given})

        _optional.load(f"{package}.module", wanted_by="a test")

        assert os.environ.items() >= {**expected, name: kept}.items()
