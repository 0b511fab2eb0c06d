"""Detects MedCAT model packs that contain data only, so that loading runs no code from them.

Packs of `mslm-data vocab concepts` are such packs. MedCAT's JSON form names for each folder the
class to make of it, and a class for some values too. Here only MedCAT's own classes that keep data
may be named, and only its default components.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Any

from mslm_data.io import json_once

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
"""Class that keeps data -> the arguments that it may be made with."""

_TABLES = ("cdb/raw_dict.dat", "vocab/raw_dict.dat")
"""Files of concepts and words, as large as the pack; all other files are small."""

_MAX_SMALL = 1 << 20
"""Bytes of a file that is not a table."""

_TYPES = ("set", "datetime", "ndarray")
"""Values that are more than JSON. MedCAT would also take `dataclass`, which names any class."""

_OTHER_TYPE = re.compile(rb'"__type__"(?!\s*:\s*"(?:%s)")' % "|".join(_TYPES).encode())
"""A value of a type that is not in `_TYPES`."""

_HIDDEN = re.compile(rb"\\u00[2-7]")
"""An ASCII character written as its number; nobody writes one so but to hide a word."""


def is_data_only(folder: Path) -> bool:
    """Return whether loading a pack runs no code from it."""
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
        return check(json_once.decode(path.read_bytes()))
    except (KeyError, ValueError, *json_once.DECODE_ERRORS):
        return False


def _is_safe_schema(value: Any) -> bool:
    """Return whether a folder is loaded as a class that only holds data."""
    if not isinstance(value, dict):
        return False

    made = value.get("serialised-class")
    arguments = value.get("init-parts")
    if not isinstance(made, str) or not isinstance(arguments, list):
        return False
    return made in _CLASSES and all(name in _CLASSES[made] for name in arguments)


def _is_safe_value(value: Any) -> bool:
    """Return whether a configuration names only MedCAT's own components.

    A class, another component and a spaCy pipeline are refused, at any depth.
    """
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
"""Key of a configuration -> the values that it may have."""


def _is_safe_card(value: Any) -> bool:
    """Return whether a model card names no plugins, which MedCAT would import."""
    return isinstance(value, dict) and not value.get("Required Plugins")


def _is_safe_table(path: Path) -> bool:
    """Return whether no value of a large JSON file is loaded as a named class.

    The file is searched as bytes, because parsing it would take as much memory as loading the pack.
    """
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data[:1] == b"{" and not _OTHER_TYPE.search(data) and not _HIDDEN.search(data)


_CHECKS = {
    ".schema.json": _is_safe_schema,
    "raw_dict.dat": _is_safe_value,
    "model_card.json": _is_safe_card,
}
"""Name of a small JSON file -> the check of its content; packs of data have no other ones."""
