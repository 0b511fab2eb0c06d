"""Whether a MedCAT model pack is data only, as those of `mslm-data vocab concepts` are: loading one runs nothing.

MedCAT's JSON form says for each folder which class to make of it, and for some values too; only classes of its own
that keep data may be named, and only its default components.
"""

from __future__ import annotations

import json
import mmap
import re
from pathlib import Path
from typing import Any

_CONFIGS = (
    "Config", "AnnotationOutput", "CDBMaker", "ComponentConfig", "Components", "General", "Linking", "LinkingFilters",
    "ModelMeta", "NLPConfig", "Ner", "Preprocessing", "UsageMonitor",
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
"""Class that keeps data -> what may be given to it when it is made."""
_TABLES = ("cdb/raw_dict.dat", "vocab/raw_dict.dat")
"""Files of concepts and words, as large as the pack; all others are small."""
_SMALL = 1 << 20
_TYPES = ("set", "datetime", "ndarray")
"""Values that are more than JSON; MedCAT would also take `dataclass`, which names any class."""
_OF_TYPE = re.compile(rb'"__type__"(?!\s*:\s*"(?:%s)")' % "|".join(_TYPES).encode())
_HIDDEN = re.compile(rb"\\u00[2-7]")
"""A character of ASCII that is written as its number: nobody does, but to hide a word."""


def is_data(folder: Path) -> bool:
    """Return whether loading a pack runs nothing that is in it."""
    return all(
        _file_is_data(path.relative_to(folder).as_posix(), path)
        for path in folder.rglob("*")
        if path.is_file()
    )


def _file_is_data(name: str, path: Path) -> bool:
    if name in _TABLES:
        return _table_is_data(path)
    if path.stat().st_size > _SMALL:
        return False
    if path.name == ".serialised_by":
        return path.read_bytes() == b"json"
    try:
        return _CHECKS[path.name](json.loads(path.read_bytes().decode()))
    except (KeyError, ValueError, RecursionError):
        return False


def _schema_is_data(value: Any) -> bool:
    """Say whether the class that a folder becomes is one that keeps data."""
    made, given = (
        (value.get("serialised-class"), value.get("init-parts"))
        if isinstance(value, dict)
        else (None, None)
    )
    if not isinstance(made, str) or not isinstance(given, list):
        return False
    return made in _CLASSES and all(name in _CLASSES[made] for name in given)


def _value_is_data(value: Any) -> bool:
    """Say whether a configuration names no class, no component but MedCAT's own, and no spaCy pipeline."""
    if isinstance(value, list):
        return all(map(_value_is_data, value))
    if not isinstance(value, dict):
        return True
    wanted = {
        "__type__": _TYPES,
        "comp_name": ("default",),
        "provider": ("regex",),
        "addons": ([],),
    }
    right = all(value[key] in options for key, options in wanted.items() if key in value)
    return right and all(map(_value_is_data, value.values()))


def _card_is_data(value: Any) -> bool:
    """Say whether a model card names no plugins, which MedCAT looks for by importing what they are in."""
    return isinstance(value, dict) and not value.get("Required Plugins")


def _table_is_data(path: Path) -> bool:
    """Say whether a large file of JSON has no value that becomes an object of a class it names."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data[:1] == b"{" and not _OF_TYPE.search(data) and not _HIDDEN.search(data)


_CHECKS = {
    ".schema.json": _schema_is_data,
    "raw_dict.dat": _value_is_data,
    "model_card.json": _card_is_data,
}
"""Name of a small file of JSON -> what it has to hold; a pack that is data has no others."""
