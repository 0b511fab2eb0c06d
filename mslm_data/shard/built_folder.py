"""Opens built folders. `md.load` returns a `BuiltFolder`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mslm_data.errors import ShardError
from mslm_data.io.remote import local
from mslm_data.log import LOGGER
from mslm_data.registry import did_you_mean
from mslm_data.shard.manifest import NAME as MANIFEST
from mslm_data.shard.manifest import Manifest, read_manifest
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.split import Split, tokenizer_file


class NoSplitError(ShardError, KeyError):
    """A built folder has no split of this name. `in` and `get` of mappings expect a `KeyError`."""

    __str__ = Exception.__str__  # that of `KeyError` adds quotes


class BuiltFolder(Mapping[str, Split]):
    """A built folder, as a mapping of split names to `Split`.

    Attributes:
        folder: Path or remote folder, as passed by the caller.
        place: Absolute path, or remote folder.
        manifest: Manifest of the folder.
    """

    def __init__(self, folder: Path | RemoteFolder) -> None:
        """Read the manifest of `folder`.

        Raises:
            ShardError: The folder is not a built folder, is unfinished, or has another format.
            SourceError: A remote folder is unreachable.
        """
        self.folder = folder
        self.place = folder if isinstance(folder, RemoteFolder) else folder.absolute()
        self.manifest = self._read_manifest()

        self._splits = {name: Split(folder, name, self.manifest) for name in self.manifest.splits}
        LOGGER.debug("opened %s: %s", folder, ", ".join(self._splits))

    def _read_manifest(self) -> Manifest:
        if isinstance(self.folder, RemoteFolder):
            return self.folder.manifest()
        return read_manifest(self.folder)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._splits)

    @property
    def labels(self) -> tuple[str, ...]:
        """Label names, indexed by `span_labels`."""
        return self.manifest.labels

    @property
    def doc_labels(self) -> tuple[str, ...]:
        """Document label names, indexed by `doc_label`; empty without document labels."""
        return self.manifest.doc_labels or ()

    @property
    def tags(self) -> tuple[str, ...]:
        """Tag names, indexed by `bio`."""
        return self.manifest.tags

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer. A remote file is downloaded and checked.

        Raises:
            ShardError: The file is missing.
            SourceError: The remote file is unreachable, or differs from the manifest.
        """
        return tokenizer_file(self.place, self.manifest)

    def __getitem__(self, split: str) -> Split:
        if split not in self._splits:
            raise NoSplitError(
                f"{self.folder}: no split '{split}'{did_you_mean(str(split), self.splits)}"
            )

        return self._splits[split]

    def __hash__(self) -> int:
        """Hash the folder, so that it can be a key: `md.mix({shards: 0.7, other: 0.3})`."""
        return id(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)


def load_splits(folder: str | Path) -> tuple[BuiltFolder, tuple[str, ...]]:
    """Open a built folder, or a single split of it.

    Args:
        folder: Path or URL of a built folder, such as `shards/ncbi`, or path of a split, such as
            `shards/ncbi/test`.

    Returns:
        The built folder, and the names of the selected splits.

    Raises:
        ShardError: See `BuiltFolder`, or the folder has no such split.
        SourceError: See `BuiltFolder`.
    """
    path = local(str(folder))
    if path is not None and not (path / MANIFEST).is_file():
        parent = path.absolute().parent
        if (parent / MANIFEST).is_file():
            opened = BuiltFolder(parent)
            return opened, (opened[path.absolute().name].name,)

    opened = BuiltFolder(path or RemoteFolder(str(folder)))
    return opened, opened.splits
