"""`look` as a process: its port, and how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.look.server import HOST
from tests.cli.running import run
from tests.look.serving import ask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("look") / "chem"
    md.build("blurb/bc5cdr-chem", sample=True, out=out, workers=1)
    return out


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_look__ends_at_a_signal(folder: Path, sent: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "mslm_data", "look", str(folder), "--no-browser"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        status = ask(address).status  # the server handles signals once it answers
        process.send_signal(sent)
        out, err = process.communicate()

    assert (status, process.returncode) == (200, code)
    assert out.endswith("ended\n") == (code == 0)
    assert "resume" not in err or code


def test_look__refuses_a_port_in_use(folder: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]

        done = run("look", folder, "--no-browser", "--port", str(port))

    assert done.code == 2
    assert f"port {port}: is in use" in done.err


def test_look__has_no_port_beside_a_file(folder: Path, tmp_path: Path) -> None:
    done = run("look", folder, "--port", "8765", "--out", tmp_path / "page.html")

    assert done.code == 2
    assert "--port" in done.err
