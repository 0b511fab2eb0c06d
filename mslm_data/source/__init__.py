"""Sources: one file per format, each giving `Document`s from pieces of files.

A source is a frozen dataclass whose fields are its options; its three methods are the `Source` protocol. The table
below is the whole registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.registry import Registry


class Source(Protocol):
    """What each format's reader does."""

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> files (or folders of one document), each list sorted; see `inputs.by_split`.

        Raises:
            SourceError: Nothing there that this format could be.
        """
        ...

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file at record boundaries into parts of about `target_bytes`, covering all of it in order.

        Where the cuts fall depends on the file's bytes and `target_bytes` only.
        """
        ...

    def files(self, path: Path) -> Sequence[Path]:
        """Return every file that reading `path` reads: itself, and stand-off annotations beside it."""
        ...

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Give each record of a part: as a document, set aside with its reason, or not chosen. None is skipped.

        Raises:
            SourceError: The part as a whole cannot be of this format (not UTF-8 throughout, no such file).
        """
        ...


SOURCES = Registry(
    "source",
    {
        "conll": "mslm_data.source.formats.conll:Conll",
        "pubtator": "mslm_data.source.formats.pubtator:PubTator",
        "bioc": "mslm_data.source.formats.bioc:BioC",
        "brat": "mslm_data.source.formats.brat:Brat",
        "bc2gm": "mslm_data.source.formats.bc2gm:Bc2gm",
        "ebm": "mslm_data.source.formats.ebm:EbmNlp",
        "jsonl": "mslm_data.source.formats.jsonl:JsonLines",
        "notes": "mslm_data.source.formats.notes:Notes",
        "hub": "mslm_data.source.formats.hub:Hub",
    },
)
