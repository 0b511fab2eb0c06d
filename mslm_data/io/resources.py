"""Finds the data shipped with the package: `pipelines/` and `vocab/`.

A wheel has them in `mslm_data/_shipped/`, a checkout beside `mslm_data/`.
"""

from __future__ import annotations

from pathlib import Path

from mslm_data.errors import PipelineError
from mslm_data.registry import did_you_mean

_PACKAGE = Path(__file__).parents[1]


def folder(kind: str) -> Path:
    """Return the folder `pipelines` or `vocab`."""
    packed = _PACKAGE / "_shipped" / kind
    return packed if packed.is_dir() else _PACKAGE.parent / kind


def path(kind: str, name: str) -> Path:
    """Return the path of a shipped file or folder, such as `path("vocab", "sample/vocab.txt")`."""
    return folder(kind).joinpath(name)


def pipeline_names() -> list[str]:
    """Return the sorted names of the shipped pipelines, such as `blurb/ncbi-disease`."""
    root = folder("pipelines")
    return sorted(
        str(file.relative_to(root).with_suffix("").as_posix()) for file in root.rglob("*.toml")
    )


def pipeline_text(name: str) -> str:
    """Return the text of a shipped pipeline.

    Raises:
        PipelineError: No pipeline has this name.
    """
    if name not in pipeline_names():
        raise PipelineError(f"no shipped pipeline '{name}'{did_you_mean(name, pipeline_names())}")
    return path("pipelines", f"{name}.toml").read_text(encoding="utf-8")
