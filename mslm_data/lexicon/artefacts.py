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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from mslm_data.errors import VocabularyError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.files import make_folder, write_whole
from mslm_data.log import plain

if TYPE_CHECKING:
    from mslm_data.shard.remote import RemoteFolder

FORMAT = 1
"""Version of the files written, and maximum version of files that can be read."""


class ArtefactKind(NamedTuple):
    """A kind of artefact.

    Attributes:
        name: Name with article, for messages.
        key: Key of the metadata in the schema.
        columns: Column -> type, in order.
    """

    name: str
    key: str
    columns: Mapping[str, pa.DataType]


LEXICON = ArtefactKind(
    name="a lexicon",
    key="mslm_data_lexicon",
    columns={
        "tokens": pa.list_(pa.int32()),
        "word_starts": pa.list_(pa.int32()),
        "score": pa.float64(),
    },
)
SCORE_COLUMN = ArtefactKind(
    name="a score column",
    key="mslm_data_scores",
    columns={"key": pa.uint64(), "scores": pa.list_(pa.float32())},
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


def _format_columns(columns: Iterable[tuple[str, pa.DataType]]) -> str:
    return plain(", ".join(f"{name} ({kind})" for name, kind in columns))


def write_artefact(
    path: Path, kind: ArtefactKind, arrays: Sequence[pa.Array], about: Mapping[str, Any]
) -> None:
    """Write a file of an artefact atomically, readable by its owner only.

    Equal arguments give equal bytes, regardless of the order of keys in `about`.

    Args:
        path: The file. Replaced if it exists; missing parent folders are created.
        kind: Kind of the artefact.
        arrays: The columns of `kind`, with equal lengths.
        about: Metadata as JSON values, with `size`; `format` is added.
    """
    text = json.dumps({**about, "format": FORMAT}, sort_keys=True, ensure_ascii=False)
    schema = pa.schema(kind.columns.items(), metadata={kind.key: text})
    batch = pa.record_batch(list(arrays), schema=schema)

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)

    make_folder(path.parent)
    write_whole(path, [memoryview(sink.getvalue())])


def read_artefact(
    path: Path, kind: ArtefactKind, *, mapped: bool = False
) -> tuple[dict[str, Any], list[pa.Array]]:
    """Read a file of an artefact, with the checks common to all kinds.

    Args:
        path: A lexicon, or a file of a score column, `COLUMN/SPLIT/SHARD.arrow`.
        kind: Expected kind.
        mapped: Whether to memory-map the columns instead of reading them.

    Returns:
        The metadata, and the columns of `kind`, without nulls.

    Raises:
        VocabularyError: The file is missing, has another kind or a newer format, or is damaged.
    """
    if not path.is_file():
        raise missing(path, kind)

    with _named_errors(path, kind):
        source = pa.memory_map(str(path)) if mapped else pa.BufferReader(path.read_bytes())
        with source as file:
            about = _read_metadata(path, kind, plain_arrow.schema(file))
            batches = plain_arrow.batches(file)

    if len(batches) != 1:
        raise damaged(path, f"one batch of rows, got {len(batches)}")

    # Nulls would be read as arbitrary numbers.
    columns = batches[0].columns
    lists = [column.values for column in columns if pa.types.is_list(column.type)]
    if any(array.null_count for array in (*columns, *lists)):
        raise damaged(path, "no nulls")

    return about, columns


def read_about(path: Path, kind: ArtefactKind) -> dict[str, Any]:
    """Read the metadata of an artefact; of a score column, those of its first file.

    Args:
        path: The artefact.
        kind: Expected kind.

    Raises:
        VocabularyError: The artefact is missing, has another kind or a newer format, or is
            unreadable.
    """
    is_column = kind is SCORE_COLUMN
    file = min(path.glob("*/*.arrow"), default=path) if is_column else path
    if not file.is_file() or path.is_dir() != is_column:
        raise missing(path, kind)

    with _named_errors(file, kind), pa.memory_map(str(file)) as source:
        return _read_metadata(file, kind, plain_arrow.schema(source))


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

    about = read_about(path, kind)
    if about.get("tokenizer") != tokenizer:
        raise VocabularyError(
            f"{path}: made with another tokenizer than that of {folder}; {how_to_make(path)}"
        )

    return path


def missing(path: Path, kind: ArtefactKind) -> VocabularyError:
    """Return the error for a missing artefact."""
    problem = "found none"
    if kind is LEXICON and path.is_dir():
        problem = "which is a file, got a folder"
    elif kind is SCORE_COLUMN and path.is_file():
        problem = "which is a folder, got a file"
    message = f"{path}: expected {kind.name}, {problem}; {how_to_make(path)}"
    if path.name == str(path):
        # A strategy that is not yet bound to shards searches only the working directory for names.
        message += (
            "; `shards.strategy(...)`, of a name, a file or a strategy, looks in the `vocab/` of "
            "its folder too"
        )
    return VocabularyError(message)


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


@contextmanager
def _named_errors(path: Path, kind: ArtefactKind) -> Iterator[None]:
    """Convert what a damaged file raises in the block to an error that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise VocabularyError(
            f"{path}: expected {kind.name}, got a file that cannot be read as one "
            f"({type(error).__name__}); {how_to_make(path)}"
        ) from None


def _read_metadata(path: Path, kind: ArtefactKind, schema: pa.Schema) -> dict[str, Any]:
    """Return the metadata of a file, and check its kind and format."""
    about = json.loads((schema.metadata or {}).get(kind.key.encode(), b"null"))

    # `null` for files without the key, which are other Arrow files.
    if not (isinstance(about, dict) and all(_is_count(about.get(n)) for n in ("format", "size"))):
        raise VocabularyError(
            f"{path}: expected {kind.name} of mslm-data, got another Arrow file; "
            f"{how_to_make(path)}"
        )

    if about["format"] > FORMAT:
        raise VocabularyError(
            f"{path}: format {about['format']} needs a newer mslm-data (this one reads up to "
            f"{FORMAT}); update mslm-data, or {how_to_make(path)}"
        )

    if [(field.name, field.type) for field in schema] != list(kind.columns.items()):
        raise VocabularyError(
            f"{path}: expected the columns {_format_columns(kind.columns.items())}, got "
            f"{_format_columns((field.name, field.type) for field in schema)}; {how_to_make(path)}"
        )

    return about


def _is_count(value: Any) -> bool:
    """Return whether a JSON value is an integer; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool)
