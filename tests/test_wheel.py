from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


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
    subprocess.run(words, check=True)
    return next(out.glob("*.whl"))


def test_wheel__carries_pipelines_and_vocab(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    for kind in ("pipelines", "vocab"):
        for path in (ROOT / kind).rglob("*"):
            if path.is_file():
                assert f"mslm_data/_shipped/{path.relative_to(ROOT).as_posix()}" in names
    assert "mslm_data/py.typed" in names
    assert {f"mslm_data/stats/report/{name}" for name in ("template.html", "page.js")} <= names
    assert "mslm_data/torch/heatmap.html" in names
    assert {name.split("/")[0] for name in names} == {
        "mslm_data",
        wheel.name.rsplit("-", 3)[0] + ".dist-info",
    }


def test_wheel__builds_the_sample_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
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
