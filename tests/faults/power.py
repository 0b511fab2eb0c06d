"""A model of a disk that loses power: synced data survives, and any part of other data may survive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.disk import wrapped


class Event(NamedTuple):
    """A successful call.

    Attributes:
        what: `make`, `folder`, `move`, `remove`, `sync` of a file, or `sync folder`.
        path: Path below the root.
        to: Target of a move; for `sync`, the bytes of the file.
    """

    what: str
    path: str
    to: Any = None


class Disk:
    """Records the calls below a root, and replays the part that a disk would keep.

    Attributes:
        events: Calls in order.
    """

    def __init__(self, root: Path, *, forget: str = "") -> None:
        """Record the calls below a folder.

        Args:
            root: The folder.
            forget: Syncs to ignore, "file" or "folder", to show that they matter.
        """
        self.events: list[Event] = []
        self._root, self._forget = root, forget

    @contextmanager
    def watching(self) -> Iterator[None]:
        opened: dict[int, str] = {}

        def watch(name: str, real: Any) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                result = real(*args, **options)
                if name == "fsync":
                    if args[0] in opened:
                        self._synced(opened[args[0]])
                    return result
                path = self._below(args[0]) if options.get("dir_fd") is None else None
                if path is None:
                    return result
                if name == "open":
                    opened[result] = path
                    if args[1] & os.O_CREAT:
                        self.events.append(Event("make", path))
                elif name == "replace":
                    self.events.append(Event("move", path, self._below(args[1])))
                else:
                    self.events.append(Event("folder" if name == "mkdir" else "remove", path))
                return result

            return call

        with wrapped(watch):
            yield

    def _below(self, path: Any) -> str | None:
        try:
            return str(Path(os.fspath(path)).relative_to(self._root.parent))
        except (TypeError, ValueError):
            return None

    def _synced(self, path: str) -> None:
        place = self._root.parent / path
        if place.is_dir():
            if self._forget != "folder":
                self.events.append(Event("sync folder", path))
        elif self._forget != "file":
            self.events.append(Event("sync", path, place.read_bytes()))

    def replay(self, moment: int, image: Path, *, keeps: Callable[[], bool]) -> None:
        """Write the content of the disk after a loss of power.

        Args:
            moment: Number of completed events.
            image: Folder for the result.
            keeps: Callback for each unsynced folder change or file content. True keeps it.
        """
        contents: dict[int, bytes] = {}
        live: dict[str, int] = {}
        folders: set[str] = {"."}
        pending: list[tuple[str, Event, int]] = []
        durable: dict[str, int] = {}
        durable_folders: set[str] = {"."}
        for number, event in enumerate(self.events[:moment]):
            parent = str(Path(event.path).parent)
            if event.what == "make":
                live[event.path] = number
                pending.append((parent, event, number))
            elif event.what == "move":
                live[event.to] = live.pop(event.path)
                pending.append((parent, event, live[event.to]))
            elif event.what == "remove":
                live.pop(event.path, None)
                folders.discard(event.path)
                pending.append((parent, event, number))
            elif event.what == "folder":
                folders.add(event.path)
                pending.append((parent, event, number))
            elif event.what == "sync":
                contents[live[event.path]] = event.to
            else:
                for _, synced, inode in [entry for entry in pending if entry[0] == event.path]:
                    _apply(synced, inode, durable, durable_folders)
                pending = [entry for entry in pending if entry[0] != event.path]
        for _, event, inode in pending:
            if keeps():
                _apply(event, inode, durable, durable_folders)
        self._write(image, durable, durable_folders, contents)

    def _write(
        self, image: Path, names: dict[str, int], folders: set[str], contents: dict[int, bytes]
    ) -> None:
        top = self._root.name
        for folder in sorted(folders):
            if folder == top or folder.startswith(f"{top}/"):
                parents = Path(folder).parents
                if all(str(parent) in folders for parent in parents if str(parent) != "."):
                    (image / Path(folder).relative_to(top)).mkdir(parents=True, exist_ok=True)
        for name, inode in names.items():
            place = image / Path(name).relative_to(top)
            if place.parent.is_dir():
                place.write_bytes(contents.get(inode, b""))


def _apply(event: Event, inode: int, names: dict[str, int], folders: set[str]) -> None:
    """Make one change of a folder durable."""
    if event.what == "make":
        names[event.path] = inode
    elif event.what == "folder":
        folders.add(event.path)
    elif event.what == "remove":
        names.pop(event.path, None)
        folders.discard(event.path)
    else:
        names.pop(event.path, None)
        names[event.to] = inode
