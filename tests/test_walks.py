"""Pages to follow from top to bottom: each runs alone in a new folder, and prints its shown output."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engine import nodes
from tests.support.caches import share_kernels

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WALKS = (
    "start",
    "notes",
    "pretraining",
    "objectives",
    "term_shares",
    "questions/modernbert_csv",
    "questions/run_mlm",
    "questions/sft_weights",
    "questions/grain",
    "diffusion",
    "forms",
    "cluster",
    "coming_from",
    "questions/gliner_langextract",
)
"""Pages whose blocks all run: `console`, `python`, and files with their name in a comment."""

NOT_RUN = ("pip ", "git ", "make ", "cd ", "ray ", "export RAY_")
"""Prefixes of commands that download packages or the project, or that a fixture replaces."""

ON_A_CLUSTER = "cluster"
NAMED = re.compile(r"(?:#!.*\n)?# ([\w./-]+\.(?:toml|sh|py))\b.*\n")
"""The first lines of a file block: its name in a comment, possibly after `#!`."""

SBATCH = """#!/usr/bin/env python3
# Does what the page asks of Slurm: the tasks of an array, one after the other.
import os, re, subprocess, sys


tasks = [0]
environment = {**os.environ, "SLURM_CPUS_PER_TASK": "2"}
for word in sys.argv[1:]:
    if word.startswith("--array="):
        first, last = map(int, re.match(r"--array=(\\d+)-(\\d+)", word).groups())
        tasks = range(first, last + 1)
words = [word for word in sys.argv[1:] if not word.startswith("--")]
if "--wrap" in sys.argv:
    words = ["-c", *words]
for task in tasks:
    environment["SLURM_ARRAY_TASK_ID"] = str(task)
    subprocess.run(["bash", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
print("1" if "--parsable" in sys.argv else "Submitted batch job 1")
"""


class Step(NamedTuple):
    """A command, Python code or a file of a page, and the shown output."""

    kind: str
    text: str
    shown: str


def steps_of(page: str) -> list[Step]:
    """Return the steps of a page, in order."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    steps = []
    for number, (language, block) in enumerate(blocks):
        name = NAMED.match(block)
        if language == "console":
            steps += commands_of(block)
        elif language == "python":
            follows = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            steps.append(Step("python", block, follows[1] if follows[0] == "text" else ""))
        elif name is not None:
            steps.append(Step(name[1], block, ""))
    return steps


def commands_of(block: str) -> Iterator[Step]:
    """Yield the commands of a console block, each with the output below it."""
    lines = iter(block.splitlines())
    command, shown = "", ""
    for line in lines:
        if not line.startswith("$ "):
            shown += line + "\n"
            continue

        if command:
            yield Step("console", command, shown)
        command, shown = line.removeprefix("$ "), ""
        while command.endswith("\\"):
            command += "\n" + next(lines)
        if here := re.search(r"<< '(\w+)'", command):
            while not command.endswith(f"\n{here[1]}"):
                command += "\n" + next(lines)
    yield Step("console", command, shown)


def prints(got: str, shown: str) -> bool:
    """Whether an output is as shown. `…` matches anything, and on a line of its own any lines."""
    pattern = ""
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r" *\n"
    return re.fullmatch(pattern, got.rstrip("\n") + "\n") is not None


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the commands of the pages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    ours = f'#!/bin/sh\nexec "{sys.executable}" -m mslm_data "$@"\n'
    python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    for name, text in {"mslm-data": ours, "python": python, "sbatch": SBATCH}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def fresh(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the examples, offline, and a cache with only the compiled kernels."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    cache = share_kernels(tmp_path / "cache")
    monkeypatch.chdir(folder)
    for name, value in {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MSLM_DATA_CACHE": str(cache),
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def on_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local S3 server with the bucket `corpora`, configured for all commands."""
    import boto3
    import s3fs
    from botocore.config import Config
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", config=Config(proxies={})).create_bucket(Bucket="corpora")
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()
    moto.stop()


@pytest.fixture
def on_ray() -> Iterator[None]:
    """A local Ray cluster named by RAY_ADDRESS, as `ray stop` would also end others' clusters."""
    with nodes.started(cpus=2):
        yield


@pytest.mark.parametrize("page", WALKS)
@pytest.mark.timeout(1_200)
def test_walk__prints_the_output_of_the_page(
    page: str, fresh: Path, request: pytest.FixtureRequest
) -> None:
    if page == ON_A_CLUSTER:
        request.getfixturevalue("on_s3")
        request.getfixturevalue("on_ray")
    names: dict[str, object] = {"__name__": "__main__"}
    steps = steps_of((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert any(step.shown for step in steps)

    for step in steps:
        got = done(step, fresh, names)

        if step.shown:
            assert prints(got, step.shown), f"{step.text}\nprinted\n{got}\nnot\n{step.shown}"


def done(step: Step, folder: Path, names: dict[str, object]) -> str:
    """Run a step and return its output. A command may fail only if the page shows an error."""
    if step.kind == "python":
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(step.text, "page", "exec"), names)  # noqa: S102 - the page's own code
        return printed.getvalue()

    if step.kind != "console":
        (folder / step.kind).parent.mkdir(parents=True, exist_ok=True)
        (folder / step.kind).write_text(step.text, encoding="utf-8")
        return ""

    if step.text.startswith(NOT_RUN):
        return step.shown
    fails = bool(re.search(r"^error: ", step.shown, re.MULTILINE))
    ran = subprocess.run(
        ["bash", "-c", step.text], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (ran.returncode != 0) == fails, f"{step.text}\n{ran.stdout}{ran.stderr}"

    # Progress lines, which come first, depend on the load of the machine.
    said = re.search(r"^(?:error|warning): .*", ran.stderr, re.DOTALL | re.MULTILINE)
    is_shown = re.search(r"^(?:error|warning): ", step.shown, re.MULTILINE)
    return ran.stdout + (said[0] if said is not None and is_shown is not None else "")


def test_start__starts_with_the_commands_of_make_demo() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    commands = [line.strip().replace("$(DEMO)/", "") for line in recipe[1].splitlines()]

    steps = steps_of((DOCS / "start.md").read_text(encoding="utf-8"))

    assert [step.text for step in steps[1 : 1 + len(commands)]] == commands


# The runner itself ----------------------------------------------------------------------------------


PAGE = """
```console
$ cat > a.txt << 'EOF'
$ not a command
EOF
$ cat a.txt \\
    a.txt
$ not a command
…
```

```toml
# mine.toml: a file
[source]
```

```python
print(1)
```

```text
1
```
"""


def test_steps_of__reads_commands_files_and_python_in_order() -> None:
    steps = steps_of(PAGE)

    assert [step.kind for step in steps] == ["console", "console", "console", "mine.toml", "python"]
    assert steps[0].text == "cat > a.txt << 'EOF'\n$ not a command\nEOF"
    assert steps[1].text == "cat a.txt \\\n    a.txt"
    assert [step.shown for step in steps] == ["", "", "…\n", "", "1\n"]


@pytest.mark.parametrize(
    ("got", "shown", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\n", False),
        ("a\nb\nc\n", "a\n…\n", True),
        ("a\nb\nc\n", "…\nb\n", False),
        ("a 0.1234\n", "a 0.…\n", True),
        ("a 0.1234\nb\n", "a 0.…\n", False),
        ("", "a\n", False),
    ],
)
def test_prints__treats_only_the_ellipsis_as_a_wildcard(got: str, shown: str, same: bool) -> None:
    assert prints(got, shown) == same
