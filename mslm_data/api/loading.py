"""Opens built folders: their splits, and the strategies that need their lexicons.

shards = md.load("shards/ncbi")
train = shards["train"]
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from mslm_data.draw import macros, notebook_html
from mslm_data.io.remote import local
from mslm_data.kernels._jit import load_compiled
from mslm_data.lexicon.artefacts import ArtefactKind, find_artefact
from mslm_data.mask import make
from mslm_data.mask.artefacts import with_artefacts
from mslm_data.mask.strategy import Strategy
from mslm_data.registry import check_names
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.shard.html import draw_rows
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.split import splits_table

if TYPE_CHECKING:
    from mslm_data.shard.export import Export


def load(folder: str | Path, *, cache_bytes: int | None = None) -> Shards:
    """Open a built folder.

    Only its manifest is read; each shard is opened when a row of it is first asked for, and its
    size and checksum are compared with the manifest. A split of at most 16 MiB is read into memory,
    a larger one is mapped; see `Split.check`.

    Args:
        folder: A path, or a URL that fsspec knows. Of a URL each shard is fetched when a row of it
            is first asked for, checked against the manifest, and kept in the cache folder (see
            `mslm_data.io.cache`).
        cache_bytes: Bytes that the shards of a URL may take there. Those that were used first are
            removed for others, but none that a process with this bound is reading. None removes
            nothing. A path has no such shards.

    Raises:
        TypeError: Neither a path nor a URL.
        ValueError: `cache_bytes` is not a number of bytes.
        ShardError: Not a built folder, an unfinished one, or one of a newer format.
        SourceError: Nothing at the URL, or out of reach.
    """
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(
            f"folder: expected the path or URL of a built folder, got {type(folder).__name__}"
        )
    return Shards(local(str(folder)) or RemoteFolder(str(folder), cache_bytes))


def _fetched_manifest(folder: RemoteFolder) -> Manifest:
    """Fetch a manifest, and load the kernels that batches need while waiting for it.

    Their machine code, and what numba sets up before the first of it, take 0.2 s of every process.
    The thread has ended when this returns: a process that is forked while numba compiles would wait
    for ever.
    """
    kernels = Thread(target=_load_batch_kernels, name="mslm-data-kernels")
    kernels.start()
    try:
        return folder.manifest()
    finally:
        kernels.join()


def _load_batch_kernels() -> None:
    importlib.import_module("mslm_data.batches.batches")
    load_compiled()


class Shards(BuiltFolder):
    """A built folder that `load` opened: a mapping of split names to `Split`.

    Attributes:
        folder: Where it is, as it was named.
        place: The same, not relative to a working directory that may change.
        manifest: What made it, and what is in it.
    """

    def _read_manifest(self) -> Manifest:
        if isinstance(self.folder, RemoteFolder):
            return _fetched_manifest(self.folder)
        return super()._read_manifest()

    def strategy(self, name: str | Path | Strategy, **options: Any) -> Strategy:
        """Make a strategy for these shards, as `mslm_data.strategy` makes one for any.

        Lexicons and score columns are looked for in the folder's `vocab/` first, where `mslm-data
        vocab` puts them, so that `shards.strategy("pmi")` needs no path.

        Args:
            name: A registered name, or a TOML file with a table `[mask]`; or a strategy that is
                made already, whose lexicons and score columns are looked for.
            **options: The strategy's options; a strategy that is made has none.

        Raises:
            TypeError: Neither a name, a path nor a strategy; or options for one that is made.
            PipelineError: An unknown name or option, or a value that the strategy refuses.
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
    ) -> Export:
        """Write rows for tools that do not read Arrow; what `mslm-data export` does.

        Args:
            to: `parquet`, `mds` or `jsonl` with all columns; or `gliner`, `docbin` or `conll` with
                words and mentions, for a folder built with `encode.keep_text`.
            out: A new folder, which appears when it is whole. If it holds this export already,
                nothing is done.
            splits: Names of the splits. None: all.
            progress: Called with the rows that are done, and all rows.

        Raises:
            CallError: An unknown `to`.
            ExportError: `out` holds something else.
            ShardError: No such split, or a shard is missing or damaged.
            TypeError: One name as `splits`.
        """
        from mslm_data.shard.export import export

        check_names("splits", splits)
        chosen = {name: self[name] for name in (self.splits if splits is None else splits)}
        return export(
            chosen, self.manifest, self.tokenizer, to=to, out=Path(out), progress=progress
        )

    def _file(self, name: str, kind: ArtefactKind) -> str:
        """Return where a lexicon or score column is, which must be of this tokenizer."""
        tokenizer = self.manifest.tokenizer["sha256"]
        return str(find_artefact(self.place, name, kind, tokenizer=tokenizer))

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {len(split):,}" for name, split in self.items())
        labels = ", ".join(map(repr, self.labels)) or "none"
        if self.doc_labels:
            labels += f"; labels of documents {', '.join(map(repr, self.doc_labels))}"

        return f"Shards({str(self.folder)!r}: rows {rows}; labels {labels})"

    def _repr_html_(self) -> str:
        """Return the splits and some rows of the first, as notebooks show them."""
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
