"""Tries imports, and a masked batch of the smallest sample, each in a process of its own.

Each function returns what JSON can hold. Nothing but the standard library is imported before one
of them runs.
"""

from __future__ import annotations

import importlib
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UNUSED_DAYS = 30
"""Days after which a folder of compiled kernels that no process has used is called unused."""
_SOURCE = "blurb/ebm-nlp"
"""The shipped pipeline whose sample is the smallest."""
_OF_A_VERSION = re.compile(r"[0-9a-f]{16}")
"""Names of folders of compiled kernels."""


def imported(name: str) -> dict[str, Any] | None:
    """Import a package; of torch, return what it can compute on."""
    from mslm_data import _optional

    _optional.keep_quiet(name)
    module: Any = importlib.import_module(name)
    return _devices(module) if name == "torch" else None


def _devices(torch: Any) -> dict[str, Any]:
    """Return the GPUs that torch can use, and its threads."""
    found = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            of = torch.cuda.get_device_properties(number)
            found.append({"name": of.name, "bytes": of.total_memory})

    metal = getattr(torch.backends, "mps", None)
    return {
        "cuda": torch.version.cuda,
        "devices": found,
        "metal": bool(metal is not None and metal.is_available()),
        "threads": torch.get_num_threads(),
    }


def kernels() -> dict[str, Any]:
    """Return where compiled kernels are kept, None for nowhere, and how many there are.

    Beside that folder lie those of other versions: `others` counts them and their bytes, and
    `unused` those that no process has used for 30 days.
    """
    from mslm_data.doctor.machine import anonymous
    from mslm_data.kernels._jit import cache_folder

    folder = cache_folder()
    others = _others(folder)
    unused_since = time.time() - UNUSED_DAYS * 24 * 60 * 60
    return {
        "folder": None if folder is None else anonymous(str(folder)),
        "stored": _stored(folder),
        "others": _counted(others),
        "unused": _counted([path for path in others if path.stat().st_mtime < unused_since]),
    }


def masked_batch() -> dict[str, Any]:
    """Build the smallest sample into a temporary folder, and make a masked batch of its rows."""
    import mslm_data as md
    from mslm_data.kernels._jit import cache_folder

    with tempfile.TemporaryDirectory(prefix="mslm-data-doctor-") as folder:
        began = time.perf_counter()
        shards = md.build(_SOURCE, sample=True, out=Path(folder) / "sample", workers=1)
        built = time.perf_counter()
        train = shards["train"]
        batch = next(iter(md.Batches(train, "joint", batch_size=8)))
        batched = time.perf_counter()

        return {
            "source": _SOURCE,
            "rows": len(train),
            "batch_rows": len(batch["input_ids"]),
            "batch_tokens": int(batch["attention_mask"].sum()),
            "masked_tokens": int((batch["labels"] != -100).sum()),
            "build_s": round(built - began, 2),
            "batch_s": round(batched - built, 2),
            "stored": _stored(cache_folder()),
        }


def _others(folder: Path | None) -> list[Path]:
    """Return the folders of kernels of other versions: of our making by their names."""
    if folder is None:
        return []
    return [
        path
        for path in sorted(folder.parent.iterdir())
        if path != folder and _OF_A_VERSION.fullmatch(path.name) and path.is_dir()
    ]


def _counted(folders: Sequence[Path]) -> dict[str, int]:
    """Return how many folders there are, and what they take."""
    from mslm_data.doctor.machine import size_of

    return {"folders": len(folders), "bytes": sum(size_of(folder)[1] for folder in folders)}


def _stored(folder: Path | None) -> int:
    """Return the number of kernels that are kept compiled, by numba's index of each."""
    return 0 if folder is None else sum(1 for _ in folder.rglob("*.nbi"))
