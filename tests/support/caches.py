"""Cache folders of tests that hold the kernels which the test run has compiled."""

from __future__ import annotations

from pathlib import Path

from mslm_data.kernels._jit import cache_folder


def share_kernels(cache: Path) -> Path:
    """Link the compiled kernels into a cache folder, so that programs with that cache compile none.

    Returns:
        The cache folder, made if missing.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # in an open one no kernel is kept
    kernels = cache_folder()
    if kernels is not None and not (cache / "kernels").exists():
        (cache / "kernels").symlink_to(kernels.parent)
    return cache
