"""Write a MedCAT model pack as JSON; equal concepts give equal bytes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mslm_data.annotate.medcat.library import import_module
from mslm_data.errors import AnnotateError
from mslm_data.io.files import making_folder


class _Sorted(set[str]):
    """A set with sorted iteration.

    MedCAT writes sets as lists, whose order would differ between processes.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(set(super().__iter__())))


def write_pack(cat: Any, out: Path, *, name: str, sources: Sequence[str]) -> None:
    """Write a model as a pack for MedCAT 2, atomically.

    MedCAT's `save_model_pack` adds the time, the machine and a zip file, so its steps are called
    separately.

    Args:
        cat: MedCAT's model. It cannot annotate afterwards.
        out: The folder.
        name: Name in the model card.
        sources: Names of the source files.
    """
    _stamp(cat.config, name=name, sources=sources)

    cdb = cat.cdb
    for info in cdb.cui2info.values():
        for key in ("names", "subnames", "type_ids"):
            info[key] = _Sorted(info[key])

    # A second copy of all names, which MedCAT rebuilds when it is incomplete.
    cdb._subnames.clear()

    taken = AnnotateError(f"{out}: another process made this folder meanwhile")
    with making_folder(out, taken=taken) as folder:
        import_module("medcat.storage.serialisers").serialise("json", cat, str(folder))
        cat.save_model_card(str(folder / "model_card.json"))


def _stamp(config: Any, *, name: str, sources: Sequence[str]) -> None:
    """Record the origin of a pack in its configuration, without details of this machine."""
    snapshot = import_module("medcat.utils.envsnapshot").Environment
    meta = config.meta
    meta.description = f"{name}: made by mslm-data vocab concepts from {', '.join(sources)}"
    meta.medcat_version = import_module("medcat.version").__version__
    meta.last_saved = datetime.datetime(1970, 1, 1)  # MedCAT's times have no zone
    meta.saved_environ = snapshot(
        dependencies={}, transitive_deps={}, os="", cpu_arcitecture="", python_version=""
    )

    # A provider that every MedCAT installation has; replaced when this package loads the pack.
    config.general.nlp.provider = "regex"
    config.general.workers = 1

    rules = config.preprocessing
    for key in ("words_to_skip", "keep_punct", "do_not_normalize"):
        setattr(rules, key, _Sorted(getattr(rules, key)))
