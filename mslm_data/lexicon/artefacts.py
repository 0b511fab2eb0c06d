"""Store, find and check artefacts: the Arrow files that strategies read beside the rows.

There are two kinds. A lexicon is one file: sequences of sub-words with a number each (`store.py`).
A score column is a folder with a file for each shard: a number for each token of each row
(`score_columns.py`). Every file holds one uncompressed batch of Arrow, and its schema says in JSON
what made it:

    mslm_data_lexicon = {"format": 1, "tokenizer": "9f86d0…", "size": 28996,
                         "made": {"command": "vocab pmi", "recipe": "paper", …}, …}

`tokenizer` is the SHA-256 of the tokenizer whose ids the file holds, and `size` its number of ids.
`mslm-data vocab` puts artefacts into the built folder's `vocab/`, where `find_artefact` looks for
them first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
"""Version of the files that this package writes, and the newest that it reads."""


class ArtefactKind(NamedTuple):
    """A kind of artefact.

    Attributes:
        name: In messages, with its article.
        key: Where `about` stands in the metadata of a file's schema.
        columns: Name -> type, in the file's order.
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
"""Usual name of an artefact -> the command that makes it."""


def how_to_make(path: Path) -> str:
    """Return the advice at the end of an error: the command that makes an artefact.

    Args:
        path: The lexicon, or the folder or a file of the score column. `mslm-data vocab` lists the
            commands that make those of other names.
    """
    column = path.parent.parent.name  # of COLUMN/SPLIT/SHARD.arrow
    return f"make it with `{MAKERS.get(path.name) or MAKERS.get(column, 'mslm-data vocab')}`"


def _columns(columns: Iterable[tuple[str, pa.DataType]]) -> str:
    """Return names of columns with their types."""
    return plain(", ".join(f"{name} ({kind})" for name, kind in columns))


def write_artefact(
    path: Path, kind: ArtefactKind, arrays: Sequence[pa.Array], about: Mapping[str, Any]
) -> None:
    """Write one file of an artefact atomically, readable by its owner alone.

    Equal arrays and equal `about` give equal bytes, whatever the order of the keys of `about`.

    Args:
        path: Replaced if it exists; missing folders above it are made.
        kind: What is written.
        arrays: The columns of `kind`, all of one length.
        about: What made it, as JSON has it, with `size`; `format` is added.
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
    """Read one file of an artefact with the checks that all kinds share.

    Args:
        path: The file: of a lexicon the lexicon itself, of a score column
            `COLUMN/SPLIT/SHARD.arrow`.
        kind: What is expected there.
        mapped: Leave the columns on disk, mapped into memory, instead of reading them.

    Returns:
        `about`, and the columns of `kind`, without nulls.

    Raises:
        VocabularyError: The file is missing, of another kind, of a newer format, or damaged.
    """
    if not path.is_file():
        raise missing(path, kind)

    try:
        source = pa.memory_map(str(path)) if mapped else pa.BufferReader(path.read_bytes())
        with source as file:
            about = _about(path, kind, plain_arrow.schema(file))
            batches = plain_arrow.batches(file)
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, kind, error) from None

    if len(batches) != 1:
        raise damaged(path, f"one batch of rows, got {len(batches)}")

    columns = batches[0].columns
    lists = [column.values for column in columns if pa.types.is_list(column.type)]
    if any(array.null_count for array in (*columns, *lists)):
        raise damaged(path, "no nulls")

    return about, columns


def read_about(path: Path, kind: ArtefactKind) -> dict[str, Any]:
    """Read the metadata of an artefact; of a score column, that of its first file.

    Args:
        path: The artefact.
        kind: What is expected there.

    Raises:
        VocabularyError: Not an artefact of the kind, one of a newer format, or a file that cannot
            be read.
    """
    is_column = kind is SCORE_COLUMN
    file = min(path.glob("*/*.arrow"), default=path) if is_column else path
    if not file.is_file() or path.is_dir() != is_column:
        raise missing(path, kind)

    try:
        with pa.memory_map(str(file)) as source:
            return _about(file, kind, plain_arrow.schema(source))
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise _unreadable(file, kind, error) from None


def find_artefact(
    folder: Path | RemoteFolder, name: str, kind: ArtefactKind, *, tokenizer: str
) -> Path:
    """Return the path of an artefact by name, and check its tokenizer.

    Args:
        folder: The built folder. Its `vocab/NAME` comes first; a remote folder's is copied to this
            machine.
        name: A name in `vocab/`, or any path, which is taken where `vocab/` has nothing of this
            name.
        kind: What is expected.
        tokenizer: SHA-256 of the folder's tokenizer, as its manifest says.

    Raises:
        VocabularyError: Nothing of this name, not an artefact of the kind, or one of another
            tokenizer.
        FetchError: The remote folder is out of reach.
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
    found = "found none"
    if kind is LEXICON and path.is_dir():
        found = "which is a file, got a folder"
    elif kind is SCORE_COLUMN and path.is_file():
        found = "which is a folder, got a file"
    message = f"{path}: expected {kind.name}, {found}; {how_to_make(path)}"
    if path.name == str(path):
        # A name is looked for in the working folder alone, until a strategy is one for some shards.
        message += (
            "; `shards.strategy(...)`, of a name, a file or a strategy, looks in the `vocab/` of "
            "its folder too"
        )
    return VocabularyError(message)


def damaged(path: Path, expected: str) -> VocabularyError:
    """Return the error for a file that breaks a rule of its kind, such as "finite scores"."""
    return VocabularyError(f"{path}: expected {expected}; the file is damaged: {how_to_make(path)}")


def made_by(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the command and options that made an artefact; empty if unknown."""
    made = about.get("made")
    return made if isinstance(made, dict) else {}


def _about(path: Path, kind: ArtefactKind, schema: pa.Schema) -> dict[str, Any]:
    """Return the metadata of a file, and check its kind and format."""
    about = json.loads((schema.metadata or {}).get(kind.key.encode(), b"null"))
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
            f"{path}: expected the columns {_columns(kind.columns.items())}, got "
            f"{_columns((field.name, field.type) for field in schema)}; {how_to_make(path)}"
        )

    return about


def _unreadable(path: Path, kind: ArtefactKind, error: Exception) -> VocabularyError:
    return VocabularyError(
        f"{path}: expected {kind.name}, got a file that cannot be read as one "
        f"({type(error).__name__}); {how_to_make(path)}"
    )


def _is_count(value: Any) -> bool:
    """Return whether a JSON value is an integer and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)
