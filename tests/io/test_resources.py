"""Shipped data in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.errors import PipelineError
from mslm_data.io import resources


def test_folder__is_in_the_package_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "mslm_data"
    (package / "_shipped" / "pipelines" / "a").mkdir(parents=True)
    (package / "_shipped" / "pipelines" / "a" / "b.toml").write_text(
        "# shipped\n", encoding="utf-8"
    )
    (tmp_path / "pipelines").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)

    assert resources.pipeline_names() == ["a/b"]
    assert resources.pipeline_text("a/b") == "# shipped\n"
    assert resources.folder("vocab") == tmp_path / "vocab"


def test_pipeline_names__are_sorted_names_without_suffix() -> None:
    names = resources.pipeline_names()

    assert names == sorted(names)
    assert "blurb/bc2gm" in names


@pytest.mark.parametrize("name", ["blurb/bc2gn", "../pyproject", "/etc/passwd", ""])
def test_pipeline_text__accepts_shipped_names_only(name: str) -> None:
    with pytest.raises(PipelineError, match="no shipped pipeline"):
        resources.pipeline_text(name)
