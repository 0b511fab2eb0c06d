"""Opens built folders, and makes strategies with their lexicons.

shards = md.load("shards/ncbi")
train = shards["train"]

The module is not named `load`: importing it would replace the function `md.load`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from mslm_data.draw import macros, notebook_html
from mslm_data.io.remote import local, output
from mslm_data.lexicon.artefacts import ArtefactKind, find_artefact
from mslm_data.mask.artefacts import with_artefacts
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import make
from mslm_data.registry import check_names
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.shard.html import draw_rows
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.split import splits_table

if TYPE_CHECKING:
    from mslm_data.shard.export import ExportedSplit


def load(folder: str | Path) -> Shards:
    """Open a built folder.

    Only the manifest is read. A shard is opened at its first row, and its size and checksum are
    compared with the manifest. Splits of at most 16 MiB are read into memory, larger ones are
    memory-mapped.

    Args:
        folder: A path or an fsspec URL. Shards of a URL are downloaded at their first row, checked
            against the manifest, and kept in the cache folder; see `mslm_data.io.cache`.

    Raises:
        TypeError: `folder` is neither a path nor a URL.
        ShardError: It is not a built folder, unfinished, or of a newer format.
        SourceError: The URL does not exist or cannot be reached, or the cache has not enough room
            for its shards.
    """
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(
            f"folder: expected the path or URL of a built folder, got {type(folder).__name__}"
        )
    return Shards(local(str(folder)) or RemoteFolder(str(folder)))


def _fetched_manifest(folder: RemoteFolder) -> Manifest:
    """Fetch a manifest, and import numba and the kernels of batches meanwhile.

    The thread ends before this returns, because a process forked during an import could deadlock.
    """
    kernels = Thread(target=_load_batch_kernels, name="mslm-data-kernels")
    kernels.start()
    try:
        return folder.manifest()
    finally:
        kernels.join()


def _load_batch_kernels() -> None:
    importlib.import_module("mslm_data.batches.batches")


class Shards(BuiltFolder):
    """An opened folder: a mapping from split names to `Split`.

    Attributes:
        folder: The path or URL, as given.
        place: The absolute path or URL.
        manifest: How it was built, and its contents.
    """

    def _read_manifest(self) -> Manifest:
        if isinstance(self.folder, RemoteFolder):
            return _fetched_manifest(self.folder)
        return super()._read_manifest()

    def strategy(self, name: str | Path | Strategy, **options: Any) -> Strategy:
        """Make a strategy for these shards; see `mslm_data.strategy`.

        Lexicons and score columns are searched in the folder's `vocab/` first, the default output
        of `mslm-data vocab`, so `shards.strategy("pmi")` needs no path.

        Args:
            name: A registered name, or a TOML file with a table `[mask]`; or a strategy whose
                lexicons and score columns are to be found.
            **options: Options of the strategy; none if `name` is a strategy.

        Raises:
            TypeError: `name` is neither a name, a path nor a strategy; or options are given for a
                strategy.
            PipelineError: The name or an option is unknown, or a value is wrong.
            VocabularyError: A lexicon or score column is missing, damaged, or of another tokenizer.
        """
        if not isinstance(name, Strategy):
            return with_artefacts(make(name, options), self._file)
        if options:
            got = ", ".join(options)
            raise TypeError(
                f"strategy: expected no options for one that is made already, got {got}"
            )
        return with_artefacts(name, self._file)

    def export(
        self,
        *,
        to: str,
        out: str | Path,
        splits: Sequence[str] | None = None,
        progress: Callable[[int, int], None] = lambda *_: None,
    ) -> dict[str, ExportedSplit]:
        """Write rows for tools that do not read Arrow, as `mslm-data export` does.

        Args:
            to: `parquet` or `jsonl` with all columns; or `gliner`, `docbin` or `conll` with
                words and mentions, for folders built with `encode.keep_text`.
            out: A new folder, created complete or not at all.
            splits: Names of splits. Default: all.
            progress: Called with the number of written rows and of all rows.

        Returns:
            Name of each split -> number of its rows, files and bytes.

        Raises:
            CallError: `to` is unknown, or `splits` is empty.
            ExportError: `out` has other content.
            ShardError: A split does not exist, or a shard is missing or damaged.
            TypeError: `splits` is a single name.
        """
        from mslm_data.shard.export import export

        check_names("splits", splits)  # a single string would be a list of letters
        chosen = {name: self[name] for name in (self.splits if splits is None else splits)}
        return export(
            chosen, self.manifest, self.tokenizer, to=to, out=output(out), progress=progress
        )

    def _file(self, name: str, kind: ArtefactKind) -> str:
        """Return the path of a lexicon or score column for this tokenizer."""
        tokenizer = self.manifest.tokenizer.sha256
        return str(find_artefact(self.place, name, kind, tokenizer=tokenizer))

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {len(split):,}" for name, split in self.items())
        labels = ", ".join(map(repr, self.labels)) or "none"
        if self.doc_labels:
            labels += f"; labels of documents {', '.join(map(repr, self.doc_labels))}"

        return f"Shards({str(self.folder)!r}: rows {rows}; labels {labels})"

    def _repr_html_(self) -> str:
        """Return the table of splits, and rows of the first split, for notebooks."""
        title = self.manifest.about["title"] or self.manifest.name
        about = f"{self.folder}; labels: {', '.join(self.labels) or 'none'}"
        if self.doc_labels:
            about += f"; labels of documents: {', '.join(self.doc_labels)}"
        first = next(iter(self.values()), None)
        rows = draw_rows(first) if first is not None else ""

        return notebook_html(
            macros("parts.html").title(title, about),
            splits_table(self.values()),
            rows,
        )
