"""The wheel and the source distribution: their contents, and a build of the sample from the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
DATED = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        out,
        ROOT,
    ]
    subprocess.run(words, check=True, env=DATED)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hatched(ROOT, "sdist", tmp_path_factory.mktemp("source"))


def hatched(root: Path, kind: str, out: Path) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", out]
    subprocess.run(words, check=True, cwd=root, env=DATED, stdout=subprocess.DEVNULL)
    (built,) = out.iterdir()
    return built


def listed(*words: str) -> list[str]:
    """Return the existing files that git lists."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout says which files belong to it")
    done = subprocess.run(
        ["git", "ls-files", "-z", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_wheel__contains_pipelines_and_vocab(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    for kind in ("pipelines", "vocab"):
        for path in (ROOT / kind).rglob("*"):
            if path.is_file():
                assert f"mslm_data/_shipped/{path.relative_to(ROOT).as_posix()}" in names
    assert "mslm_data/py.typed" in names
    assert {f"mslm_data/draw/templates/{name}.html" for name in ("rows", "mask_stats")} <= names
    assert {"mslm_data/look/static/page.css", "mslm_data/look/templates/page.html"} <= names
    assert {name.split("/")[0] for name in names} == {
        "mslm_data",
        wheel.name.rsplit("-", 3)[0] + ".dist-info",
    }


def test_wheel__contains_only_files_of_the_checkout(wheel: Path) -> None:
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    expected = {f"{info}/{name}" for name in metadata}
    for name in listed("--cached", "--others", "--exclude-standard"):
        if name.startswith("mslm_data/"):
            expected.add(name)
        elif name.startswith(("pipelines/", "vocab/")):
            expected.add(f"mslm_data/_shipped/{name}")

    assert set(zipfile.ZipFile(wheel).namelist()) == expected


def test_source__contains_every_tracked_file(source: Path) -> None:
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    tracked = {name for name in listed("--cached") if not name.startswith((".ci/", ".github/"))}
    assert {"PKG-INFO", *tracked} <= names


def test_wheel__is_equal_when_built_from_the_source_distribution(
    wheel: Path, source: Path, tmp_path: Path
) -> None:
    shutil.unpack_archive(source, tmp_path / "unpacked")
    (root,) = (tmp_path / "unpacked").iterdir()

    again = hatched(root, "wheel", tmp_path / "again")

    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_wheel__builds_the_sample_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")  # noqa: S202 - our own
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mslm_data; "
        "assert mslm_data.__file__.startswith(sys.argv[1]), mslm_data.__file__; from mslm_data.cli import main; "
        "sys.exit(main(['build', '--source', 'blurb/bc2gm', '--sample', '--out', sys.argv[2]]))"
    )

    subprocess.run(
        [sys.executable, "-P", "-c", script, tmp_path / "site", tmp_path / "out"],
        check=True,
        cwd=tmp_path,
    )

    assert (tmp_path / "out" / "manifest.json").is_file()
