"""A strategy in a TOML file: a table `[mask]` of `use`, the strategy's name, and its options."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mslm_data.errors import PipelineError

ARTIFACTS = ("vocabulary", "vocabularies", "scores", "unigrams", "lexicon", "column")
"""Options that name files which `mslm-data vocab` makes."""


def read_strategy(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the strategy that a file says.

    Raises:
        PipelineError: No such file, no TOML, or no table `[mask]` with a name.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path}: expected a file with a table [mask], found none") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PipelineError(f"{path}: expected TOML: {error}") from None
    mask = tables.get("mask")
    if not isinstance(mask, dict) or not isinstance(mask.get("use"), str):
        raise PipelineError(f'{path}: expected a table [mask] with use = "NAME"')
    return mask["use"], {name: value for name, value in mask.items() if name != "use"}


def with_files(value: Any, found: Callable[[str], str], *, name: str = "") -> Any:
    """Return options, or a strategy, with every name of a file replaced by what `found` says it is."""
    if isinstance(value, str):
        return found(value) if name in ARTIFACTS and value else value
    if isinstance(value, Mapping):
        return {key: with_files(inner, found, name=key) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return tuple(with_files(inner, found, name=name) for inner in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        changed = {key: with_files(getattr(value, key), found, name=key) for key in names}
        return dataclasses.replace(value, **changed)
    return value
