"""Plants slips in a copy of the tree, and says which the tests catch.

A slip is a small wrong change of behaviour; `slips.toml` has the list. Examples::

    python -m tests.slips.plant                      every slip, with the tests that it names
    python -m tests.slips.plant S07 S21              two of them, one after the other
    python -m tests.slips.plant --room builds        those of a room
    python -m tests.slips.plant --all S07            with all fast tests instead
    python -m tests.slips.plant --together S07 S21   both at once

The exit code is 1 if a slip that should be caught is not, or has to be placed anew because the code
moved.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("slips.toml")
TREE = ROOT / "out" / "slips"
"""The copy. Always in the same place, so that compiled kernels of earlier runs are used again."""

_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+::[^\s\[]+)", re.MULTILINE)
"""A test, without its parameters. A file that cannot be imported is no test."""


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A small wrong change; the head of `slips.toml` explains the fields."""

    id: str
    room: str
    kind: str
    promise: str
    behaviour: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    caught: bool | None = None
    by: str = ""


class MovedError(Exception):
    """The code that a slip changes is not where it was, so the slip has to be placed anew."""


def read_slips() -> list[Slip]:
    """Read the list.

    Raises:
        TypeError: An entry lacks a field, or has an unknown one.
    """
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["slip"]
    return [Slip(**(entry | {"tests": tuple(entry["tests"])})) for entry in entries]


def copy_tree(tree: Path) -> None:
    """Copy all files that git tracks, or would, to a new folder.

    Times of files are kept, since compiled kernels belong to a time and a place.
    """
    shutil.rmtree(tree, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():  # a file that was removed is still in the index
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


@contextmanager
def planted(slip: Slip, tree: Path) -> Iterator[None]:
    """Change the file of a slip inside the block.

    Raises:
        MovedError: The file is missing, or does not have the text of `before` exactly once.
    """
    path = tree / slip.file
    if not path.is_file():
        raise MovedError(f"{slip.file} is missing")
    whole = path.read_text(encoding="utf-8")
    if whole.count(slip.before) != 1:
        raise MovedError(f"`before` is {whole.count(slip.before)} times in {slip.file}, not once")

    status = path.stat()
    original = path.with_name(f"{path.name}.original")
    shutil.copy2(path, original)
    path.write_text(whole.replace(slip.before, slip.after), encoding="utf-8")
    assert path.stat().st_mtime_ns != status.st_mtime_ns, "compiled kernels would hide the slip"
    try:
        yield
    finally:
        original.replace(path)


def run_tests(tree: Path, tests: Sequence[str], *, options: Sequence[str]) -> str:
    """Run tests in a tree. Return the first that fails; "" if all pass.

    Raises:
        RuntimeError: pytest could not run them, for example because one is missing.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests],
        cwd=tree,
        # Programs that tests start must import the copy too, whatever is installed.
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 0:
        return ""
    failed = _FIRST_FAILURE.search(ran.stdout)
    if ran.returncode != 1 or failed is None:
        raise RuntimeError(f"pytest ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr}")
    return failed[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant slips, and print a line for each. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.slips.plant", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="slips to plant; default: every one")
    parser.add_argument("--room", help="plant the slips of this room")
    parser.add_argument("--all", action="store_true", help="run all fast tests instead of a few")
    parser.add_argument("--together", action="store_true", help="plant all of them at once")
    parser.add_argument("--workers", default="0", help="processes of pytest; default: none")
    asked = parser.parse_args(arguments)

    slips = [
        slip
        for slip in read_slips()
        if (not asked.ids or slip.id in asked.ids) and asked.room in (None, slip.room)
    ]
    unknown = {*asked.ids}.difference(slip.id for slip in slips)
    if unknown:
        parser.error(f"no such slip: {', '.join(sorted(unknown))}")

    copy_tree(TREE)
    groups = [slips] if asked.together else [[slip] for slip in slips]
    verdicts = [_verdict(group, every=asked.all, workers=asked.workers) for group in groups]
    return 0 if all(verdicts) else 1


def _verdict(slips: Sequence[Slip], *, every: bool, workers: str) -> bool:
    """Plant slips at once, run their tests, print the result, and return whether it is good."""
    names = " ".join(slip.id for slip in slips)
    tests = () if every else dict.fromkeys(test for slip in slips for test in slip.tests)
    by = ""
    try:
        with ExitStack() as until_tested:
            for slip in slips:
                until_tested.enter_context(planted(slip, TREE))
            # The test that caught the slip before is likely to do so again, if it still exists.
            if len(slips) == 1 and slips[0].by and not every:
                with suppress(RuntimeError):
                    by = run_tests(TREE, [slips[0].by], options=["-n", "0"])
            by = by or run_tests(TREE, [*tests], options=["-x", "-n", workers])
        if by and run_tests(TREE, [by], options=["-n", "0"]):
            raise RuntimeError(f"{by} fails without the slip, too")
    except MovedError as error:
        _say(f"{names}: NOT PLACED: {error}; the code moved, so place the slip anew")
        return False
    except RuntimeError as error:
        _say(f"{names}: NOT TESTED: {error}")
        return False

    what = " + ".join(slip.behaviour for slip in slips)
    _say(f"{names}: caught by {by}" if by else f"{names}: NOT CAUGHT: {what}")
    return bool(by) or not any(slip.by for slip in slips)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
