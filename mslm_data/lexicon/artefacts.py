"""Store, find and check artefacts: Arrow files that strategies read in addition to the rows.

There are two kinds. A lexicon is a file of sub-word sequences, each with a number (`store.py`). A
score column is a folder with a file for each shard, which has a number for each token
(`score_columns.py`). All files hold one uncompressed Arrow batch, with metadata in the schema, as
JSON:

    mslm_data_lexicon = {"format": 1, "tokenizer": "9f86d0…", "size": 28996,
                         "made": {"command": "vocab pmi", "recipe": "paper", …}, …}

`tokenizer` is the SHA-256 of the tokenizer, `size` its number of ids, `made` the command with its
options. `mslm-data vocab` writes artefacts to `vocab/` in the built folder, where `find_artefact`
looks first.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from mslm_data.errors import VocabularyError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.files import make_folder, write_whole

if TYPE_CHECKING:
    from mslm_data.shard.remote import RemoteFolder

FORMAT = 1
"""Version of the files written, and maximum version of files that can be read."""


class ArtefactKind(NamedTuple):
    """A kind of artefact, which reads and writes its files.

    Attributes:
        name: Name with article, for messages.
        key: Key of the metadata in the schema.
        columns: Column -> type, in order.
        is_folder: Whether an artefact is a folder with files, or a file.
    """

    name: str
    key: str
    columns: Mapping[str, pa.DataType]
    is_folder: bool

    def write(self, path: Path, arrays: Sequence[pa.Array], about: Mapping[str, Any]) -> None:
        """Write a file of an artefact atomically, readable by its owner only.

        Equal arguments give equal bytes, regardless of the order of keys in `about`.

        Args:
            path: The file. Replaced if it exists; missing parent folders are created.
            arrays: The columns, with equal lengths.
            about: Metadata as JSON values, with `size`; `format` is added.
        """
        text = json.dumps({**about, "format": FORMAT}, sort_keys=True, ensure_ascii=False)
        schema = pa.schema(self.columns.items(), metadata={self.key: text})
        batch = pa.record_batch(list(arrays), schema=schema)

        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch)

        make_folder(path.parent)
        write_whole(path, [memoryview(sink.getvalue())])

    def read(self, path: Path, *, mapped: bool = False) -> tuple[dict[str, Any], list[pa.Array]]:
        """Read a file of an artefact, with the checks common to all kinds.

        Args:
            path: A lexicon, or a file of a score column, `COLUMN/SPLIT/SHARD.arrow`.
            mapped: Whether to memory-map the columns instead of reading them.

        Returns:
            The metadata, and the columns, without nulls.

        Raises:
            VocabularyError: The file is missing, has another kind or a newer format, or is damaged.
        """
        if not path.is_file():
            raise self.missing(path)

        with self._named_errors(path):
            source = pa.memory_map(str(path)) if mapped else pa.BufferReader(path.read_bytes())
            with source as file:
                about = self._read_metadata(path, plain_arrow.schema(file))
                batches = plain_arrow.batches(file)

        if len(batches) != 1:
            raise damaged(path, f"one batch of rows, got {len(batches)}")

        # Nulls would be read as arbitrary numbers.
        columns = batches[0].columns
        lists = [column.values for column in columns if pa.types.is_list(column.type)]
        if any(array.null_count for array in (*columns, *lists)):
            raise damaged(path, "no nulls")

        return about, columns

    def read_about(self, path: Path) -> dict[str, Any]:
        """Read the metadata of an artefact; of a folder, those of its first file.

        Raises:
            VocabularyError: The artefact is missing, has another kind or a newer format, or is
                unreadable.
        """
        file = min(path.glob("*/*.arrow"), default=path) if self.is_folder else path
        if not file.is_file() or path.is_dir() != self.is_folder:
            raise self.missing(path)

        with self._named_errors(file), pa.memory_map(str(file)) as source:
            return self._read_metadata(file, plain_arrow.schema(source))

    def version(self, path: Path) -> tuple[int, int, int]:
        """Return inode, time and size of a file, to notice changes.

        Raises:
            VocabularyError: The file is missing or unreadable, such as a broken link.
        """
        try:
            status = path.stat()
        except OSError:
            raise self.missing(path) from None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def missing(self, path: Path) -> VocabularyError:
        """Return the error for a missing artefact."""
        problem = "found none"
        if path.is_dir() and not self.is_folder:
            problem = "which is a file, got a folder"
        elif path.is_file() and self.is_folder:
            problem = "which is a folder, got a file"
        message = f"{path}: expected {self.name}, {problem}; {how_to_make(path)}"
        if path.name == str(path):
            # A strategy that is not yet bound to shards searches only the working directory for
            # names.
            message += (
                "; `shards.strategy(...)`, of a name, a file or a strategy, looks in the `vocab/` "
                "of its folder too"
            )
        return VocabularyError(message)

    def _read_metadata(self, path: Path, schema: pa.Schema) -> dict[str, Any]:
        """Return the metadata of a file, and check its kind and format."""
        other = VocabularyError(
            f"{path}: expected {self.name} of mslm-data, got another Arrow file; "
            f"{how_to_make(path)}"
        )
        about: dict[str, Any] = json.loads((schema.metadata or {}).get(self.key.encode(), b"null"))
        try:
            header = msgspec.convert(about, _Header)
        except msgspec.ValidationError:
            raise other from None

        if header.format > FORMAT:
            raise VocabularyError(
                f"{path}: format {header.format} needs a newer mslm-data (this one reads up to "
                f"{FORMAT}); update mslm-data, or {how_to_make(path)}"
            )
        if [(field.name, field.type) for field in schema] != list(self.columns.items()):
            raise other
        return about

    @contextmanager
    def _named_errors(self, path: Path) -> Iterator[None]:
        """Convert what a damaged file raises in the block to an error that names the file."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
            raise VocabularyError(
                f"{path}: expected {self.name}, got a file that cannot be read as one "
                f"({type(error).__name__}); {how_to_make(path)}"
            ) from None


class _Header(msgspec.Struct):
    """The metadata that all files have."""

    format: int
    size: int


LEXICON = ArtefactKind(
    name="a lexicon",
    key="mslm_data_lexicon",
    columns={
        "tokens": pa.list_(pa.int32()),
        "word_starts": pa.list_(pa.int32()),
        "score": pa.float64(),
    },
    is_folder=False,
)
SCORE_COLUMN = ArtefactKind(
    name="a score column",
    key="mslm_data_scores",
    columns={"key": pa.uint64(), "scores": pa.list_(pa.float32())},
    is_folder=True,
)

MAKERS = {
    "pmi.arrow": "mslm-data vocab pmi DIR",
    "anchors.arrow": "mslm-data vocab anchors DIR --general TEXT",
    "difference.arrow": "mslm-data vocab scores anchors DIR --encoder MODEL",
    "frequency.arrow": "mslm-data vocab scores frequency DIR",
    "table.arrow": "mslm-data vocab scores table DIR --from TABLE.tsv",
    "concepts.arrow": "mslm-data vocab scores table DIR --from TERMS.tsv "
    "--out DIR/vocab/concepts.arrow",
    "keywords.arrow": "mslm-data vocab scores table DIR --from WORDS.tsv "
    "--out DIR/vocab/keywords.arrow",
    "informask.arrow": "mslm-data vocab scores table DIR --from RATES.tsv --by ids "
    "--out DIR/vocab/informask.arrow",
    "attention": "mslm-data vocab scores attention DIR --encoder MODEL",
    "logits": "mslm-data vocab scores logits DIR --encoder MODEL --class LABEL",
    "confidence": "mslm-data vocab scores confidence DIR --callable MODULE:FUNCTION",
}
"""Default name of an artefact -> the command that makes it."""


def how_to_make(path: Path) -> str:
    """Return advice for error messages: the command that makes an artefact.

    Args:
        path: A lexicon, or the folder or a file of a score column. The command names the built
            folder if the path is in its `vocab/`. For other names the advice is `mslm-data vocab`,
            which lists all commands.
    """
    column = path.parent.parent.name  # COLUMN/SPLIT/SHARD.arrow
    command = MAKERS.get(path.name) or MAKERS.get(column, "mslm-data vocab")
    folders = [parent.parent for parent in path.parents if parent.name == "vocab"]
    if folders:
        command = command.replace("DIR", shlex.quote(str(folders[0])))
    return f"make it with `{command}`"


def find_artefact(
    folder: Path | RemoteFolder, name: str, kind: ArtefactKind, *, tokenizer: str
) -> Path:
    """Return the path of an artefact by name, and check its tokenizer.

    Args:
        folder: The built folder, whose `vocab/NAME` comes first. From a remote folder, the artefact
            is downloaded.
        name: A name in `vocab/`, or any path, used if `vocab/` has no such name.
        kind: Expected kind.
        tokenizer: SHA-256 of the folder's tokenizer, from its manifest.

    Raises:
        VocabularyError: The artefact is missing, has another kind, or was made with another
            tokenizer.
        FetchError: The remote folder cannot be reached.
    """
    if isinstance(folder, Path):
        inside = folder / "vocab" / name
        path = Path(name) if Path(name).exists() and not inside.exists() else inside
    else:
        path = folder.artifact(name) or Path(name)

    about = kind.read_about(path)
    if about.get("tokenizer") != tokenizer:
        raise VocabularyError(
            f"{path}: made with another tokenizer than that of {folder}; {how_to_make(path)}"
        )

    return path


def damaged(path: Path, expected: str) -> VocabularyError:
    """Return the error for a damaged file.

    Args:
        path: The file.
        expected: The violated rule, such as "finite scores".
    """
    return VocabularyError(f"{path}: expected {expected}; the file is damaged: {how_to_make(path)}")


def made_by(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the command and options that made an artefact; empty if unknown."""
    made = about.get("made")
    return made if isinstance(made, dict) else {}


def find_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the sorted keys of metadata with different values."""
    return [key for key in sorted({*first, *second}) if first.get(key) != second.get(key)]
