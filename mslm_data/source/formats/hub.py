"""Reads Hugging Face datasets: saved folders, files of rows, or datasets of the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from mslm_data import _optional
from mslm_data.data.document import Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.io.files import JSON_ERRORS
from mslm_data.io.hub import fetch_data_file
from mslm_data.log import LOGGER, TO_KEEP
from mslm_data.source import Guess, Sample
from mslm_data.source.form import ArrowRows, Container, Record, TableRows, by_suffix
from mslm_data.source.formats.row_sources import (
    JSON_ROWS,
    NAMES_FILE,
    RowSource,
    guess_columns,
    read_names,
)
from mslm_data.source.reading import arrow_rows, cells, json_rows
from mslm_data.source.reading.files import ends_with
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes import COLUMNS, SHAPES
from mslm_data.source.reading.shapes.base import RowOptions, find_shape
from mslm_data.source.reading.shapes.mention_forms import look_like_mentions
from mslm_data.source.reading.splits import parse_split
from mslm_data.source.reading.tables import TableReader, read_layout

T = TypeVar("T")

_LONGEST_NAME = 200
_OWN_FILES = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""Files of a saved dataset without rows."""
_CACHE_FILES = "cache-*.arrow"
"""Files that `datasets` leaves beside a saved dataset after transforming its rows."""
_TRIED_ROWS = 20
"""Number of rows whose texts are searched for mentions in JSON."""
_WANTED_BY = "source 'hub' with a hub id"
_CONVERTED = "refs/convert/parquet"
"""Branch of a dataset with the parquet files that the hub made of it."""


def _columns(options: RowOptions, path: Path) -> frozenset[str]:
    """Return the columns that a shape, an option or their type makes candidates.

    Others, such as embeddings, may be far larger.
    """
    named = (options.id_column, options.text_column, options.mentions_column, options.doc_label)
    return COLUMNS.union(
        (name.partition(".")[0] for name in named),
        named,
        arrow_rows.nested(arrow_rows.schema(path)),
        _with_json(path),
    )


class _Tables(TableRows["Hub"]):
    """A record for each row of a `.csv` or `.tsv` table, with lists and objects decoded."""

    def records(self, options: Hub, part: Part, /) -> Iterator[Record | SetAside]:
        for record in super().records(options, part):
            if isinstance(record, Record):
                try:
                    row = {name: cells.parse_cell(text) for name, text in record.content.items()}
                except RecordError as error:
                    yield SetAside(record.id, record.place, error.reason)
                    continue
                record = record._replace(content=row)  # noqa: PLW2901 - with decoded cells
            yield record


def _table(options: Hub, path: Path) -> TableReader:
    """Return the reader of all columns of a table, named in lower case unless an option does."""
    named = (options.id_column, options.text_column, options.mentions_column, options.doc_label)
    spelling = {name.casefold(): name for name in named}
    layout = read_layout(path, options, separator="", header=True)
    return TableReader(
        columns={spelling.get(name, name): name for name in layout.names},
        keys=(),
        separator=layout.separator,
        text=options,
    )


_TABLES = (".csv", ".tsv")
_BINARY = (".parquet", ".arrow")
_CONTAINERS: Mapping[tuple[str, ...], Container[Any]] = {
    _TABLES: _Tables(_table),
    _BINARY: ArrowRows(_columns),
}
"""Suffixes of files -> container of their rows. Others are JSON."""


class Hub(RowSource, frozen=True, kw_only=True):
    """Rows of Hugging Face datasets: parquet, Arrow, saved folders, or a dataset of the hub.

    So are rows of `.csv` and `.tsv` tables whose cells hold lists, in JSON or as Python writes
    them, or words and their tags divided by blanks. Columns of tables are named in any case.

    Rows have the shapes of `jsonl`. Names of integer tags come from the file's features
    (ClassLabel), or else from `tag_names`, or from the dataset's `label.json`. A document without
    an id is called `{file}:{number}`, from 0. `start` and `stop` of parts count rows, except in
    JSON lines, where they count bytes.
    Code of a dataset is never run: of one with a loading script, the parquet files are read that
    the hub made of it.
    """

    suffixes: ClassVar[tuple[str, ...]] = (*_BINARY, *json_rows.SUFFIXES, *_TABLES)
    by_content: ClassVar[bool] = False
    container = by_suffix(_CONTAINERS, lambda _: JSON_ROWS)
    name = "hub"

    dataset: Annotated[
        str,
        Meta(
            description="Dataset on the hub, `owner/name`, downloaded if no input is given. "
            "Default: none."
        ),
    ] = ""
    config: Annotated[
        str, Meta(description="Configuration of the dataset. Not needed if it has only one.")
    ] = ""
    revision: Annotated[
        str,
        Meta(
            description="Commit or tag of the dataset. Default: the newest, or of a dataset with a "
            "loading script `refs/convert/parquet`."
        ),
    ] = ""

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the files of each split, or download the dataset if `inputs` is empty.

        Raises:
            SourceError: No file matches, or the dataset cannot be downloaded, or is a script.
            MissingExtraError: The hub is needed and `datasets` is not installed.
        """
        if not inputs:
            return self._fetch()

        # A saved dataset names its splits and files itself.
        saved = [_saved(path) for path in inputs] if not self.splits else []
        if saved and all(saved):
            return _merged(saved)
        by_split = super().find(inputs)
        # Patterns may match such files too.
        return {
            split: [path for path in paths if not _is_own(path)]
            for split, paths in by_split.items()
        }

    def disowns(self, path: Path) -> str:
        """Return why a file of a saved dataset has no rows; see `Source.disowns`."""
        if _is_own(path):
            return "it belongs to a saved dataset and holds no rows of its own"
        if ends_with(path, _TABLES):
            has_evidence = self.sniff(Sample(path, b"")).why
            return "" if has_evidence else "its rows hold neither words with tags nor mentions"
        return super().disowns(path) if ends_with(path, json_rows.SUFFIXES) else ""

    def names_of(self, path: Path) -> Mapping[str, Sequence[str]]:
        """Return column -> names of its integers, from the features of the file."""
        if ends_with(path, _BINARY):
            return arrow_rows.class_names(arrow_rows.schema(path))
        return {}

    def list_columns(self, path: Path) -> list[str]:
        """Return the columns of a file; see `Source.list_columns`."""
        if ends_with(path, _BINARY):
            return [*arrow_rows.schema(path).names]
        return super().list_columns(path)

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a dataset; see `Source.sniff`. Other sources recognise JSON."""
        if ends_with(sample.path, json_rows.SUFFIXES):
            return Guess()
        try:
            rows = self.file(sample.path).first
        except SourceError:
            return Guess()
        shown = [shape for row in rows if (shape := find_shape(row, SHAPES)).shows(row)]
        return shown[0].guess if shown else guess_columns(rows)

    def _fetch(self) -> dict[str, list[Path]]:
        """Download the dataset. `datasets` stores it as Arrow files in its cache."""
        if not self.dataset:
            raise SourceError(
                "source 'hub': expected --input, or [source] dataset = 'owner/name', got neither"
            )
        where = f"[source] dataset = '{self.dataset}'"
        try:
            splits = self._load_revision(self.revision)
            if splits is None and not self.revision:
                splits = self._load_revision(_CONVERTED)
                LOGGER.info(
                    "source 'hub': took revision '%s' of '%s', the hub's own conversion, as its "
                    "loading script is never run",
                    _CONVERTED,
                    self.dataset,
                    extra=TO_KEEP,
                )
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{where}: cannot be fetched ({type(error).__name__}); check the name, config, "
                "revision and the network, or pass its files with --input"
            ) from None
        if splits is None:
            raise SourceError(
                f"{where}: expected data files, got a loading script, which is never run; leave "
                "out revision if the hub has converted the dataset, or pass files with --input"
            )
        names = _splits(splits)
        return {
            names[name]: [Path(file["filename"]) for file in rows.cache_files]
            for name, rows in splits.items()
        }

    def _load_revision(self, revision: str) -> Any:
        """Return split -> rows of a revision, None if it has a loading script."""
        datasets = _optional.load("datasets", wanted_by=_WANTED_BY)
        try:
            return datasets.load_dataset(
                self.dataset, self.config or None, revision=revision or None
            )
        except RuntimeError as error:
            # `datasets` has no class for this error.
            if "script" not in str(error):
                raise
            return None

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Find the names of integer tags in the dataset's repository; see `Source.settle`."""
        settled = super().settle(paths)
        if not self.dataset or self.tag_names or not any(map(self._lacks_names, paths)):
            return settled
        for name in (NAMES_FILE, f"dataset/{NAMES_FILE}"):
            file = fetch_data_file(self.dataset, name, wanted_by=_WANTED_BY)
            if file and (names := read_names(file)):
                return {**settled, "tag_names": names}
        return settled

    def _lacks_names(self, path: Path) -> bool:
        """Return whether a file has integer tags without names."""
        file = self.file(path)
        column = file.tag_column
        tags = [tag for row in file.first for tag in row.get(column) or ()]
        return any(type(tag) is int for tag in tags) and not (
            file.names.get(column) or file.names_beside
        )


class _SavedDict(msgspec.Struct):
    """`dataset_dict.json`, with the subfolders of a saved dataset."""

    splits: list[str] = []


class _SavedFile(msgspec.Struct):
    """An entry of `state.json`: an Arrow file in the same folder."""

    filename: str


class _SavedState(
    msgspec.Struct,
    rename={"files": "_data_files", "selection": "_indices_data_files", "split": "_split"},
):
    """`state.json`, with the fields that are read."""

    files: list[_SavedFile] = []
    selection: Any = None
    split: str | None = None


def _saved(folder: Path) -> dict[str, list[Path]]:
    """Return split -> Arrow files of a folder of `save_to_disk`, empty for other inputs."""
    whole = folder / "dataset_dict.json"
    if whole.is_file():
        splits = _splits(_read_json(whole, _SavedDict).splits)
        return {
            split: _data_files(folder / _plain_name(name, whole)) for name, split in splits.items()
        }
    state = folder / "state.json"
    if state.is_file():
        name = _read_json(state, _SavedState).split or folder.name
        return {_splits([name])[name]: _data_files(folder)}
    return {}


def _data_files(folder: Path) -> list[Path]:
    """Return the Arrow files of a saved split.

    Raises:
        SourceError: The folder is damaged, or selects rows by indices.
    """
    where = f"{folder.name}/state.json"
    state = _read_json(folder / "state.json", _SavedState)
    if state.selection:
        raise SourceError(
            f"{where}: this dataset is saved with an indices mapping, as after select or filter; "
            "call flatten_indices() before save_to_disk"
        )
    paths = [folder / _plain_name(file.filename, folder / "state.json") for file in state.files]
    present = sum(path.is_file() for path in paths)
    if present < len(paths):
        raise SourceError(
            f"{where}: expected {len(paths)} files beside it, found {present}; is the folder whole?"
        )
    return paths


def _plain_name(name: str, path: Path) -> str:
    """Return a name in `path` if it is a file or folder beside `path`.

    Raises:
        SourceError: The name is a path to another place.
    """
    is_plain = (
        name not in ("", ".", "..") and PurePath(name).name == PureWindowsPath(name).name == name
    )
    if not is_plain or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise SourceError(
            f"{path.parent.name}/{path.name}: expected names of files and folders beside it, got "
            "another path"
        )
    return name


def _read_json(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, *JSON_ERRORS) as error:
        raise SourceError(
            f"{path.parent.name}/{path.name}: expected a JSON object, got {type(error).__name__}; "
            "is the folder whole?"
        ) from None


def _merged(datasets: Sequence[Mapping[str, list[Path]]]) -> dict[str, list[Path]]:
    """Join the splits of several saved datasets."""
    splits = list(dict.fromkeys(split for dataset in datasets for split in dataset))
    return {
        split: [path for dataset in datasets for path in dataset.get(split, [])] for split in splits
    }


def _splits(names: Iterable[str]) -> dict[str, str]:
    """Return the split in each name. A name keeps its own spelling if several have its split."""
    split_by_name = {name: parse_split(name) or name for name in names}
    counts = Counter(split_by_name.values())
    return {name: split if counts[split] == 1 else name for name, split in split_by_name.items()}


def _is_own(path: Path) -> bool:
    """Return whether a file of a saved dataset has no rows of its own."""
    return path.name in _OWN_FILES or path.match(_CACHE_FILES)


def _with_json(path: Path) -> set[str]:
    """Return the text columns with mentions, in JSON or Python's notation, by the first rows."""
    names = set(arrow_rows.texts(path)) - COLUMNS
    if not names:
        return set()
    stop = min(_TRIED_ROWS, arrow_rows.num_rows(path))
    return {
        name
        for row in arrow_rows.read_range(path, 0, stop, columns=names)
        for name, value in row.items()
        if look_like_mentions(cells.parse_cell(value))
    }
