"""Hugging Face datasets: a folder of `save_to_disk`, parquet, JSON lines, or a set of the hub by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, TypeVar

import msgspec

from mslm_data import _optional
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.jsonl import SUFFIXES as JSON_SUFFIXES
from mslm_data.source.formats.jsonl import JsonLines
from mslm_data.source.reading import arrow
from mslm_data.source.reading.inputs import SingleFile, by_split, split_of
from mslm_data.source.reading.records import stem
from mslm_data.source.reading.shapes import COLUMNS, RowReader
from mslm_data.source.reading.standoff import Discontinuous

T = TypeVar("T")
SUFFIXES = (".parquet", ".arrow", *JSON_SUFFIXES)
_LONGEST_NAME = 200
_OWN_FILES = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")


@dataclass(frozen=True, kw_only=True)
class Hub(SingleFile):
    """Rows of Hugging Face datasets; see `shapes` for the columns that are known.

    Names of integer tags come from the file's own features (ClassLabel), or else from `tag_names`. A document
    without an id of its own is called `{file}:{number}`, from 0. Parts are ranges of rows: a part's `start` and
    `stop` count rows, not bytes, but for JSON lines. Nothing of a hub set is ever run, only data is read.

    Attributes:
        dataset: A set on the hub, `owner/name`, fetched where no input is given; empty for none.
        config: Which configuration of it, "" for its only one.
        revision: Which commit or tag of it, "" for the newest.
        tag_names: Names of integer tags (`O`, `B-X` …) or labels, in the order of the integers.
        id_column: Column of the id, "auto" for the first there is of `shapes.IDS`, "" to number documents.
        untyped: Label of tags without a type.
        discontinuous: What becomes of a mention in several pieces.
        splits: Split -> patterns of file names, see `inputs.by_split`.
    """

    dataset: str = ""
    config: str = ""
    revision: str = ""
    tag_names: tuple[str, ...] = ()
    id_column: str = "auto"
    untyped: str = "Entity"
    discontinuous: Discontinuous = "hull"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> files, of the hub's set where `inputs` is empty; see `Source.find`.

        Raises:
            SourceError: As there; or the hub's set cannot be fetched, or is a script.
            MissingExtraError: The hub is needed and `datasets` is not installed.
        """
        if not inputs:
            return self._fetch()
        saved = [_saved(path) for path in inputs] if not self.splits else []
        if saved and all(saved):
            return _merged(saved)
        found = by_split(inputs, suffixes=SUFFIXES, splits=self.splits)
        return {
            split: [path for path in paths if path.name not in _OWN_FILES]
            for split, paths in found.items()
        }

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file into ranges of rows of about `target_bytes` in the file; see `Source.cut`."""
        if _is_json(path):
            yield from self._json().cut(path, target_bytes=target_bytes)
            return
        num_rows = arrow.num_rows(path)
        step = max(1, num_rows * target_bytes // max(path.stat().st_size, 1))
        for start in range(0, num_rows, step):
            yield Part(str(path), start, min(start + step, num_rows), start, start + 1)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give each row; see `Source.read`. Places are `file:row`, from 1."""
        path = Path(part.path)
        if _is_json(path):
            yield from self._json().read(part)
            return
        names = {"": self.tag_names} if self.tag_names else {}
        reader = RowReader(
            names={**names, **arrow.class_names(arrow.schema(path))},
            id_column=self.id_column,
            untyped=self.untyped,
            discontinuous=self.discontinuous,
        )
        stop = arrow.num_rows(path) if part.stop < 0 else part.stop
        wanted = COLUMNS | {self.id_column}
        for number, row in enumerate(
            arrow.rows(path, part.start, stop, columns=wanted), start=part.start
        ):
            place, numbered = f"{path.name}:{number + 1}", f"{stem(path)}:{number}"
            if row is None:
                yield SetAside(numbered, place, "expected UTF-8, got other bytes")
            else:
                yield reader.document(row, numbered=numbered, place=place)

    def _json(self) -> JsonLines:
        return JsonLines(
            tag_names=self.tag_names,
            id_column=self.id_column,
            untyped=self.untyped,
            discontinuous=self.discontinuous,
        )

    def _fetch(self) -> dict[str, list[Path]]:
        """Fetch the hub's set; `datasets` leaves it as Arrow files in its cache."""
        if not self.dataset:
            raise SourceError(
                "source 'hub': expected --input, or [source] dataset = 'owner/name', got neither"
            )
        datasets = _optional.load("datasets", wanted_by="source 'hub' with a hub id")
        where = f"[source] dataset = '{self.dataset}'"
        try:
            found = datasets.load_dataset(
                self.dataset, self.config or None, revision=self.revision or None
            )
        except RuntimeError as error:
            if "script" not in str(error):
                raise
            raise SourceError(
                f"{where}: expected data files, got a loading script, which is never run; pass "
                f"revision = 'refs/convert/parquet' if the hub has converted it, or files with --input"
            ) from None
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{where}: cannot be fetched ({type(error).__name__}); check the name, config, revision and the "
                f"network, or pass its files with --input"
            ) from None
        return {
            _split(name): [Path(file["filename"]) for file in of.cache_files]
            for name, of in found.items()
        }


def _saved(folder: Path) -> dict[str, list[Path]]:
    """Return split -> Arrow files of a folder that `save_to_disk` wrote, nothing for any other input."""
    if (folder / "dataset_dict.json").is_file():
        names = _json_of(folder / "dataset_dict.json", _Splits).splits
        return {
            _split(name): _data_files(folder / _plain(name, folder / "dataset_dict.json"))
            for name in names
        }
    if (folder / "state.json").is_file():
        return {
            _split(_json_of(folder / "state.json", _State).split or folder.name): _data_files(
                folder
            )
        }
    return {}


class _Splits(msgspec.Struct):
    """`dataset_dict.json`."""

    splits: list[str] = []


class _File(msgspec.Struct):
    """A file that `state.json` names."""

    filename: str


class _State(
    msgspec.Struct,
    rename={"files": "_data_files", "selection": "_indices_data_files", "split": "_split"},
):
    """`state.json`, what is looked at of it."""

    files: list[_File] = []
    selection: Any = None
    split: str | None = None


def _data_files(folder: Path) -> list[Path]:
    state = _json_of(folder / "state.json", _State)
    if state.selection:
        message = (
            f"{folder.name}/state.json: expected a set as its rows are, got a selection of rows"
        )
        raise SourceError(f"{message}; save it again with a newer version of datasets")
    paths = [folder / _plain(file.filename, folder / "state.json") for file in state.files]
    missing = sum(not path.is_file() for path in paths)
    if missing:
        there = len(paths) - missing
        message = f"{folder.name}/state.json: expected {len(paths)} files beside it, found {there}"
        raise SourceError(f"{message}; is the folder whole?")
    return paths


def _plain(name: str, path: Path) -> str:
    """Return the name of a file or folder beside the one that names it, if it is just that."""
    is_one = (
        name not in ("", ".", "..") and PurePath(name).name == PureWindowsPath(name).name == name
    )
    if not is_one or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise SourceError(
            f"{path.parent.name}/{path.name}: expected names of what lies beside it, got another path"
        )
    return name


def _json_of(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, OSError, UnicodeDecodeError, RecursionError) as error:
        message = (
            f"{path.parent.name}/{path.name}: expected a JSON object, got {type(error).__name__}"
        )
        raise SourceError(f"{message}; is the folder whole?") from None


def _merged(found: Sequence[Mapping[str, list[Path]]]) -> dict[str, list[Path]]:
    splits = list(dict.fromkeys(split for of in found for split in of))
    return {split: [path for of in found for path in of.get(split, [])] for split in splits}


def _split(name: str) -> str:
    return split_of(name) or name


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(JSON_SUFFIXES)
