"""The program as a whole: its start, and completion in shells."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mslm_data.cli import COMMANDS
from tests.cli.running import run

HEAVY = {"numpy", "numba", "pyarrow", "tokenizers", "rich", "datasets", "torch", "spacy"} | {
    "requests",
    "fsspec",
}


def test_help__imports_nothing_heavy() -> None:
    calls = [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
    script = (
        "import json, sys, mslm_data\n"
        "from mslm_data.cli import main\n"
        "assert not any([main(words) for words in json.loads(sys.argv[1])])\n"
        "print(*sys.modules, file=sys.stderr)"
    )

    command = [sys.executable, "-c", script, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.count("Usage: mslm-data") == len(calls) - 1
    assert not HEAVY & set(done.stderr.split())


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("mslm-data ver", "plain,verify"),
        ("mslm-data mask-stats --swee", "plain,--sweep"),
        ("mslm-data vocab pm", "plain,pmi"),
    ],
)
def test_main__completes_shell_words(
    line: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = line.split()
    monkeypatch.setenv("_MSLM_DATA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))

    assert run() == (0, f"{answer}\n", "")
