"""`look` as a process: its port, and how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mslm_data.look.server import HOST
from tests.cli.running import run
from tests.look.serving import ask
from tests.support.cases import long


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 0), *long((signal.SIGTERM, 143))])
def test_look__ends_at_a_signal(ncbi: Path, sent: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "mslm_data", "look", str(ncbi), "--no-browser"]
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
    assert ("resume" in err) == (code != 0)


def test_look__refuses_a_port_in_use(ncbi: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]

        done = run("look", ncbi, "--no-browser", "--port", str(port))

    assert done.code == 2
    assert f"port {port}: is in use" in done.err
