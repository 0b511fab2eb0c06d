"""Who may write into an unfinished folder: one whole build, or several parts of one, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mslm_data.errors import BuildError
from mslm_data.io.files import make_folder

_PATIENCE_S = 10.0
"""How long a part waits for the whole build's lock, which other parts hold for a moment only."""


@contextmanager
def claimed(out: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Hold a folder for a build or for a part of it; the system lets go of it with this process, however that ends.

    A part holds its own lock, and sees that no whole build is at work; a whole build holds the one that parts look at,
    and all that parts have left.

    Raises:
        BuildError: Another process has it.
    """
    locks = out / ".build" / "locks"
    make_folder(locks)
    try:
        with ExitStack() as held:
            if part is None:
                held.enter_context(_lock(locks / "build"))
                for path in sorted(locks.glob("part-*")):
                    held.enter_context(_lock(path))
            else:
                held.enter_context(_lock(locks / f"part-{part[0]}-of-{part[1]}"))
                with _lock(locks / "build", patience=_PATIENCE_S):
                    pass
            yield
    except Timeout:
        raise BuildError(
            f"{out}: another build is at work in this folder; wait for it or choose another --out"
        ) from None


def _lock(path: Path, *, patience: float = 0) -> FileLock:
    return FileLock(path, timeout=patience, mode=0o600)
