"""Share compiled kernels between the cache folders of tests."""

from __future__ import annotations

from pathlib import Path

from mslm_data.kernels._jit import cache_folder


def share_kernels(cache: Path) -> Path:
    """Link this run's compiled kernels into a cache folder, so its users need not compile them.

    Returns:
        The cache folder, made if missing.
    """
    # Kernels are cached only in folders that other users cannot access.
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    kernels = cache_folder()
    if kernels is not None and not (cache / "kernels").exists():
        (cache / "kernels").symlink_to(kernels.parent)
    return cache
