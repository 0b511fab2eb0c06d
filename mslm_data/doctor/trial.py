"""Tries imports, and a masked batch of the smallest sample, each in a process of its own.

Each function returns what JSON can hold. Nothing but the standard library is imported before one
of them runs.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from pathlib import Path
from typing import Any

_SOURCE = "blurb/ebm-nlp"
"""The shipped pipeline whose sample is the smallest."""


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
    """Return where compiled kernels are kept, None for nowhere, and how many there are."""
    from mslm_data.doctor.machine import anonymous
    from mslm_data.kernels._jit import cache_folder

    folder = cache_folder()
    return {
        "folder": None if folder is None else anonymous(str(folder)),
        "stored": _stored(folder),
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


def _stored(folder: Path | None) -> int:
    """Return the number of kernels that are kept compiled, by numba's index of each."""
    return 0 if folder is None else sum(1 for _ in folder.rglob("*.nbi"))
