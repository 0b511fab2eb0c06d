"""Detects MedCAT model packs that contain only data, so that loading them runs no foreign code.

`mslm-data vocab concepts` makes such packs. In the JSON format of MedCAT, each folder and some
values name the class to create. A pack is data only if it names only data classes and default
components of MedCAT.
"""

from __future__ import annotations

import json
import mmap
import re
from pathlib import Path
from typing import Any

_CONFIGS = (
    "Config", "AnnotationOutput", "CDBMaker", "ComponentConfig", "Components", "General", "Linking",
    "LinkingFilters", "ModelMeta", "NLPConfig", "Ner", "Preprocessing", "UsageMonitor",
)  # fmt: skip

_CLASSES: dict[str, tuple[str, ...]] = {
    "medcat.cat.CAT": ("cdb", "vocab"),
    "medcat.cdb.cdb.CDB": ("config",),
    "medcat.vocab.Vocab": (),
    "medcat.utils.envsnapshot.Environment": (
        "dependencies", "transitive_deps", "os", "cpu_arcitecture", "python_version",
    ),
    **{f"medcat.config.config.{name}": () for name in _CONFIGS},
}  # fmt: skip
"""Data class -> allowed arguments of its constructor."""

_TABLES = ("cdb/raw_dict.dat", "vocab/raw_dict.dat")
"""Large files of concepts and words. All other files are small."""

_MAX_SMALL = 1 << 20
"""Maximum size in bytes of all other files."""

_TYPES = ("set", "datetime", "ndarray")
"""Allowed types of values besides JSON. MedCAT's `dataclass` is excluded, as it names any class."""

_OTHER_TYPE = re.compile(rb'"__type__"(?!\s*:\s*"(?:%s)")' % "|".join(_TYPES).encode())
"""A value of a type missing from `_TYPES`."""

_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
"""An escaped ASCII character, which could conceal `__type__` from the search in bytes."""


def is_data_only(folder: Path) -> bool:
    """Return whether a pack can be loaded without running its code."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _is_safe_file(name, path):
            return False
    return True


def _is_safe_file(name: str, path: Path) -> bool:
    if name in _TABLES:
        return _is_safe_table(path)
    if path.stat().st_size > _MAX_SMALL:
        return False
    if path.name == ".serialised_by":
        return path.read_bytes() == b"json"
    try:
        check = _CHECKS[path.name]
        return check(json.loads(path.read_text("utf-8"), object_pairs_hook=_with_unique_keys))
    except (KeyError, ValueError, RecursionError):
        return False


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Readers may differ in which value of a repeated key they take."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError
    return value


def _is_safe_schema(value: Any) -> bool:
    """Return whether a folder is loaded as a data class with allowed arguments."""
    if not isinstance(value, dict):
        return False

    made = value.get("serialised-class")
    arguments = value.get("init-parts")
    if not isinstance(made, str) or not isinstance(arguments, list):
        return False
    return made in _CLASSES and all(name in _CLASSES[made] for name in arguments)


def _is_safe_value(value: Any) -> bool:
    """Return whether a configuration, at any depth, names only default components of MedCAT."""
    if isinstance(value, list):
        return all(map(_is_safe_value, value))
    if not isinstance(value, dict):
        return True

    for key, allowed in _ALLOWED_VALUES.items():
        if key in value and value[key] not in allowed:
            return False
    return all(map(_is_safe_value, value.values()))


_ALLOWED_VALUES: dict[str, tuple[Any, ...]] = {
    "__type__": _TYPES,
    "comp_name": ("default",),
    "provider": ("regex",),
    "addons": ([],),
}
"""Key of a configuration -> allowed values. Excludes other components and spaCy pipelines."""


def _is_safe_card(value: Any) -> bool:
    """Return whether a model card names no plugins, which MedCAT would import."""
    return isinstance(value, dict) and not value.get("Required Plugins")


def _is_safe_table(path: Path) -> bool:
    """Return whether a large JSON file has allowed types of values only."""
    if not path.stat().st_size:
        return False

    # Search the bytes: parsing the file would need as much memory as loading the pack.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        is_object = data[:1] == b"{"
        return is_object and not _OTHER_TYPE.search(data) and not _ESCAPED_ASCII.search(data)


_CHECKS = {
    ".schema.json": _is_safe_schema,
    "raw_dict.dat": _is_safe_value,
    "model_card.json": _is_safe_card,
}
"""Name of a small JSON file -> check of its content. Other files are not allowed."""
