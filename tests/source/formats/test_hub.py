from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mslm_data import _optional
from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.errors import BuildError, MissingExtraError, SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.hub import Hub
from mslm_data.source.reading import arrow_rows, cells
from tests import made
from tests.source.tables import table

ROWS = [{"id": str(i), "tokens": ["Had", "gout"], "ner_tags": [0, 1]} for i in range(10)]
ROWS_READ = [(str(i), "Had gout", (Span(4, 8, "Disease"),)) for i in range(10)]


def read(
    source: Hub, inputs: list[Path], *, target_bytes: int = 1
) -> dict[str, list[Document | SetAside]]:
    return {
        split: [
            document
            for path in paths
            for part in source.cut(Part(str(path)), target_bytes=target_bytes)
            for document in source.read(part)
        ]
        for split, paths in source.find(inputs).items()
    }


def simple(found: list[Document | SetAside]) -> list[tuple[object, ...]]:
    return [(d.id, d.text, d.spans) if isinstance(d, Document) else tuple(d) for d in found]


@pytest.fixture(scope="module")
def dataset() -> Any:
    """Ten rows in the format of `datasets`."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    tags = datasets.List(datasets.ClassLabel(names=["O", "B-Disease"]))
    features = {
        "id": datasets.Value("string"),
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": tags,
    }
    columns = {name: [row[name] for row in ROWS] for name in features}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def test_read__takes_a_saved_dataset_dict(dataset: Any, tmp_path: Path) -> None:
    from datasets import DatasetDict

    DatasetDict({"train": dataset, "dev": dataset.select(range(3))}).save_to_disk(
        tmp_path / "saved"
    )

    found = read(Hub(), [tmp_path / "saved"])

    assert list(found) == ["train", "validation"]
    assert simple(found["train"]) == ROWS_READ
    assert simple(found["validation"]) == ROWS_READ[:3]


def test_read__takes_a_saved_dataset_of_several_files(dataset: Any, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "test", num_shards=3)

    found = read(Hub(), [tmp_path / "test"], target_bytes=1000)

    assert {split: simple(documents) for split, documents in found.items()} == {"test": ROWS_READ}


def test_read__takes_mentions_as_json_in_the_column_named(tmp_path: Path) -> None:
    entities = '[{"start": 4, "end": 8, "label": "Disease"}]'
    pq.write_table(pa.table({"text": ["Had gout"], "gold": [entities]}), tmp_path / "train.parquet")

    found = read(Hub(mentions_column="gold"), [tmp_path])

    assert simple(found["train"]) == [("train:0", "Had gout", (Span(4, 8, "Disease"),))]


def test_read__reads_parquet_of_datasets(dataset: Any, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "train.parquet")

    assert simple(read(Hub(), [tmp_path])["train"]) == ROWS_READ


def test_read__takes_a_sequence_of_objects_as_datasets_stores_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    entity = {
        "start": datasets.Value("int32"),
        "end": datasets.Value("int32"),
        "label": datasets.ClassLabel(names=["D"]),
    }
    features = datasets.Features(
        {"text": datasets.Value("string"), "entities": datasets.Sequence(entity)}
    )
    rows = {"text": ["Had gout"], "entities": [{"start": [4], "end": [8], "label": [0]}]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "x.parquet")

    assert simple(read(Hub(), [tmp_path])["train"]) == [("x:0", "Had gout", (Span(4, 8, "D"),))]


def test_read__prefers_class_labels_of_the_labels(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    entity = {
        "assertion": datasets.ClassLabel(names=["present", "absent"]),
        "start": datasets.Value("int32"),
        "end": datasets.Value("int32"),
        "label": datasets.ClassLabel(names=["Drug", "Disease"]),
    }
    features = datasets.Features({"text": datasets.Value("string"), "entities": [entity]})
    gout = {"assertion": 0, "start": 4, "end": 8, "label": 1}
    rows = {"text": ["Had gout"], "entities": [[gout]]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "x.parquet")

    assert simple(read(Hub(), [tmp_path])["train"]) == [
        ("x:0", "Had gout", (Span(4, 8, "Disease"),))
    ]


def test_read__takes_arrow_files_of_both_kinds(tmp_path: Path) -> None:
    rows = table(ROWS)
    with pa.ipc.new_stream(str(tmp_path / "train-0.arrow"), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=3)
    with pa.ipc.new_file(str(tmp_path / "train-1.arrow"), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=4)

    for target_bytes in (1, 500, 10**9):
        assert (
            simple(read(Hub(), [tmp_path], target_bytes=target_bytes)["train"])
            == ROWS_READ + ROWS_READ
        )


@pytest.mark.parametrize("rows_in_a_group", [1, 3, 100])
@pytest.mark.parametrize("target_bytes", [1, 300, 10**9])
def test_cut__ranges_of_rows_cover_a_file(
    tmp_path: Path, rows_in_a_group: int, target_bytes: int
) -> None:
    pq.write_table(table(ROWS), tmp_path / "train.parquet", row_group_size=rows_in_a_group)

    assert simple(read(Hub(), [tmp_path], target_bytes=target_bytes)["train"]) == ROWS_READ


def write(rows: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    else:
        with pa.ipc.new_stream(str(path), rows.schema) as writer:
            writer.write_table(rows)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_build__takes_a_file_without_rows(suffix: str, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    pipeline = made.pipeline_of(source={"use": "hub"})
    write(table(ROWS)[:0], inputs / f"train-0{suffix}")

    with pytest.raises(BuildError, match="found no usable documents, of 0 read"):
        made.built(tmp_path / "alone", inputs, pipeline)
    write(table(ROWS), inputs / f"train-1{suffix}")

    assert made.built(tmp_path / "out", inputs, pipeline).splits["train"].read == len(ROWS)


def test_read__takes_names_from_the_options_if_the_file_has_none(tmp_path: Path) -> None:
    pq.write_table(table(ROWS).replace_schema_metadata(None), tmp_path / "train.parquet")

    assert simple(read(Hub(tag_names=("O", "B-Disease")), [tmp_path])["train"]) == ROWS_READ
    with pytest.raises(
        SourceError,
        match=r"train\.parquet:1: .* set their names in order with \[source\] tag_names",
    ):
        read(Hub(), [tmp_path])


@pytest.mark.parametrize(
    "features",
    ["{", "[]", '{"info": {"features": [1]}}', '{"info": {"features": {"x": 1, "y": [{}]}}}'],
)
def test_class_names__are_empty_without_features(features: str) -> None:
    assert arrow_rows.class_names(pa.schema([], metadata={"huggingface": features})) == {}


def test_read__leaves_other_columns_unread_but_for_the_id(tmp_path: Path) -> None:
    rows = table(ROWS).append_column("note", pa.array([f"n{i}" for i in range(10)]))
    pq.write_table(
        rows.append_column("image", pa.array([b"\xff"] * 10)), tmp_path / "train.parquet"
    )

    (row, *_) = arrow_rows.read_range(tmp_path / "train.parquet", 0, 1, columns={"tokens"})
    found = read(Hub(id_column="note"), [tmp_path])["train"]

    assert row == {"tokens": ["Had", "gout"]}
    assert [document.id for document in found] == [f"n{i}" for i in range(10)]


def test_read__refuses_text_that_is_not_utf8(tmp_path: Path) -> None:
    texts = pa.array([b"Fine.", b"Gou\xff.", b"Fine."], pa.binary()).view(pa.string())
    with pa.ipc.new_stream(
        str(tmp_path / "train.arrow"), pa.schema([("text", pa.string())])
    ) as writer:
        writer.write_table(pa.table({"text": texts}))

    with pytest.raises(SourceError, match=r"train\.arrow: cannot be read as Arrow .* UTF-8"):
        read(Hub(), [tmp_path])


@pytest.mark.long
def test_read__delegates_json_lines(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    (tmp_path / "dataset_infos.json").write_text("{}", encoding="utf-8")

    assert simple(read(Hub(tag_names=("O", "B-Disease")), [tmp_path])["train"]) == ROWS_READ


def test_find__needs_no_split_in_the_names_of_files_without_rows(tmp_path: Path) -> None:
    pq.write_table(table(ROWS), tmp_path / "test.parquet")
    (tmp_path / "dataset_infos.json").write_text("{}", encoding="utf-8")

    assert Hub().find([tmp_path]) == {"test": [tmp_path / "test.parquet"]}


@pytest.mark.parametrize("name", ["train.parquet", "train.arrow"])
@pytest.mark.parametrize("kept", [0, 0.3, 0.9])
def test_read__refuses_damaged_files(tmp_path: Path, name: str, kept: float) -> None:
    path = tmp_path / name
    if path.suffix == ".parquet":
        pq.write_table(table(ROWS), path)
    else:
        with pa.ipc.new_file(str(path), table(ROWS).schema) as writer:
            writer.write_table(table(ROWS))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])

    with pytest.raises(SourceError, match=rf"{name}: cannot be read as (parquet|Arrow) "):
        read(Hub(), [tmp_path])


def test_cut__rejects_a_truncated_stream(tmp_path: Path) -> None:
    path = tmp_path / "train.arrow"
    with pa.ipc.new_stream(str(path), table(ROWS).schema) as writer:
        writer.write_table(table(ROWS), max_chunksize=3)
    data = path.read_bytes()

    for size in range(0, len(data), 8):
        path.write_bytes(data[:size])
        with pytest.raises(SourceError, match=r"train\.arrow: cannot be read as Arrow"):
            list(Hub().cut(Part(str(path)), target_bytes=1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"_indices_data_files": [{"filename": "indices.arrow"}]}',
    ],
)
def test_find__refuses_a_damaged_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text, encoding="utf-8")

    with pytest.raises(SourceError, match=r"/state\.json: (expected|this dataset)"):
        Hub().find([tmp_path])


def hub_of(monkeypatch: pytest.MonkeyPatch, found: object) -> list[tuple[Any, ...]]:
    """Patch `datasets.load_dataset` to return or raise a value; return its calls."""
    calls = []

    def load_dataset(*args: Any, **options: Any) -> object:
        calls.append((*args, options))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(
        _optional, "load", lambda name, *, wanted_by: SimpleNamespace(load_dataset=load_dataset)
    )
    return calls


def test_find__fetches_a_set_by_name_without_trusting_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "set-train.arrow"
    with pa.ipc.new_stream(str(path), table(ROWS).schema) as writer:
        writer.write_table(table(ROWS))
    calls = hub_of(monkeypatch, {"train": SimpleNamespace(cache_files=[{"filename": str(path)}])})

    found = read(Hub(dataset="own/set", config="small", revision="v1"), [])

    assert simple(found["train"]) == ROWS_READ
    assert calls == [("own/set", "small", {"revision": "v1"})]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("Dataset scripts are no longer supported, but found set.py"),
            "got a loading script",
        ),
        (ConnectionError("no route"), r"cannot be fetched \(ConnectionError\)"),
        (FileNotFoundError("no set"), r"cannot be fetched \(FileNotFoundError\)"),
        (ValueError("no config"), r"cannot be fetched \(ValueError\)"),
    ],
)
def test_find__says_why_a_set_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    hub_of(monkeypatch, error)

    with pytest.raises(SourceError, match=rf"dataset = 'own/set': .*{message}.* --input"):
        Hub(dataset="own/set").find([])


class FakeHub:
    """A dataset with a loading script, of which the hub has made parquet files, and its names."""

    HfHubHTTPError = OSError

    def __init__(self, path: Path, *, names: str = "dataset/label.json") -> None:
        self.path = path
        self.names = names
        self.revisions: list[Any] = []

    def load_dataset(self, *_: Any, revision: str | None) -> Any:
        self.revisions.append(revision)
        if revision != "refs/convert/parquet":
            raise RuntimeError("Dataset scripts are no longer supported, but found set.py")
        return {"train": SimpleNamespace(cache_files=[{"filename": str(self.path)}])}

    def hf_hub_download(self, _: str, name: str, *, repo_type: str) -> str:
        if name != self.names or repo_type != "dataset":
            raise FileNotFoundError(name)
        file = self.path.with_name("names.json")
        file.write_text('{"B-Disease": 1, "O": 0}')
        return str(file)


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    rows = [{"tokens": ["Had", "gout"], "tags": [0, 1]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "set.parquet")
    hub = FakeHub(tmp_path / "set.parquet")
    monkeypatch.setattr(_optional, "load", lambda _, *, wanted_by: hub)
    return hub


def test_find__takes_the_conversion_of_a_set_with_a_script_and_says_so(
    converted: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        found = Hub(dataset="own/set").find([])

    assert found == {"train": [converted.path]}
    assert converted.revisions == [None, "refs/convert/parquet"]
    assert "took revision 'refs/convert/parquet' of 'own/set'" in caplog.text


def test_find__takes_no_conversion_in_place_of_the_revision_named(converted: FakeHub) -> None:
    with pytest.raises(SourceError, match="got a loading script, which is never run"):
        Hub(dataset="own/set", revision="v1").find([])
    assert converted.revisions == ["v1"]


@pytest.mark.parametrize("name", ["label.json", "dataset/label.json"])
def test_settle__finds_the_names_of_integers_on_the_hub(converted: FakeHub, name: str) -> None:
    converted.names = name
    source = Hub(dataset="own/set")

    settled = source.settle([converted.path])

    assert settled == {"tag_names": ("O", "B-Disease")}
    [document] = read(Hub(dataset="own/set", **settled), [converted.path])["train"]
    assert isinstance(document, Document)
    assert document.spans == (Span(4, 8, "Disease"),)
    # Names of the user, and a source without a dataset, need no network.
    converted.names = ""
    for other in (source, Hub(dataset="own/set", tag_names=("O", "B-X")), Hub()):
        assert other.settle([converted.path]) == {}


def test_find__needs_an_input_or_a_name() -> None:
    with pytest.raises(SourceError, match="got neither"):
        Hub().find([])


def test_find__names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(MissingExtraError, match=r"mslm-data\[hub\]"):
        Hub(dataset="own/set").find([])


def test_read__knows_files_whose_mentions_begin_with_i(tmp_path: Path) -> None:
    rows = [{"id": str(i), "tokens": ["Gout", "hurts"], "ner_tags": [2, 0]} for i in range(3)]
    pq.write_table(table(rows), tmp_path / "train.parquet")

    (found,) = read(Hub(), [tmp_path]).values()

    assert [dict(one.adjusted) for one in found if isinstance(one, Document)] == [{}, {}, {}]


def test_read__rejects_mentions_in_an_unread_column(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    rows = [{"text": "Gout hurts.", "marks": [{"begin": 0, "end": 4, "name": "Disease"}]}]
    pq.write_table(pa.Table.from_pylist(rows), path)

    with pytest.raises(SourceError, match=r"train\.parquet:1: .* got column 'marks', which looks"):
        list(Hub().read(Part(str(path))))

    (found,) = Hub(ignored_columns=("marks",)).read(Part(str(path)))
    assert isinstance(found, Document)


def test_recognises__rows_of_a_known_shape(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    for row, expected in (
        ({"tokens": ["Gout"], "ner_tags": [1]}, "its rows have words with tags"),
        ({"text": "Gout", "label": 1}, ""),
    ):
        pq.write_table(pa.Table.from_pylist([row]), path)
        assert Hub().sniff(Sample(path, b"PAR1")).why == expected


@pytest.mark.parametrize(
    "names",
    [
        ["train", "validation_matched", "validation_mismatched", "test_clean", "test_other"],
        ["train", "test"],
    ],
)
def test_read__keeps_names_of_saved_splits_with_the_same_meaning(
    dataset: Any, tmp_path: Path, names: list[str]
) -> None:
    from datasets import DatasetDict

    rows = {name: dataset.select([number]) for number, name in enumerate(names)}
    DatasetDict(rows).save_to_disk(tmp_path / "saved")

    found = read(Hub(), [tmp_path / "saved"])

    assert [*found] == names
    assert [simple(found[name]) for name in names] == [
        [ROWS_READ[number]] for number in range(len(names))
    ]


def test_read__ignores_cache_files_of_datasets(dataset: Any, tmp_path: Path) -> None:
    from datasets import DatasetDict, load_from_disk

    DatasetDict({"train": dataset}).save_to_disk(tmp_path / "saved")
    load_from_disk(tmp_path / "saved")["train"].map(lambda row: {"id": row["id"] + "x"})
    assert [*(tmp_path / "saved" / "train").glob("cache-*.arrow")]

    found = read(Hub(splits={"train": ("train/*",)}), [tmp_path / "saved"])

    assert simple(found["train"]) == ROWS_READ


@pytest.mark.parametrize("as_list", [None, pa.list_view, pa.large_list, "fixed"])
def test_read__rejects_unread_mentions_in_any_storage(tmp_path: Path, as_list: Any) -> None:
    mentions = [{"start": 4, "end": 8, "label": "Disease"}]
    of_one = pa.struct({"start": pa.int64(), "end": pa.int64(), "label": pa.string()})
    column: Any = pa.array([json.dumps(mentions)])
    if as_list == "fixed":
        column = pa.array([mentions], pa.list_(of_one, 1))
    elif as_list is not None:
        column = pa.array([mentions], as_list(of_one))
    none = pa.array([[]], pa.list_(of_one))
    rows = pa.table({"text": ["Had gout"], "mine": column, "entities": none})
    with pa.ipc.new_file(str(tmp_path / "train.arrow"), rows.schema) as writer:
        writer.write(rows)

    with pytest.raises(SourceError, match="got column 'mine', which looks like mentions"):
        read(Hub(), [tmp_path])


def test_read__takes_fields_that_are_null_in_every_row(tmp_path: Path) -> None:
    mention = {"start": 0, "end": 4, "label": "Disease", "concept": None}
    pq.write_table(
        pa.Table.from_pylist([{"text": "Gout hurts.", "entities": [mention]}]),
        tmp_path / "train.parquet",
    )

    assert simple(read(Hub(), [tmp_path])["train"]) == [
        ("train:0", "Gout hurts.", (Span(0, 4, "Disease"),))
    ]


def test_read__reads_a_nested_text(tmp_path: Path) -> None:
    row = {"doc": {"body": "Gout hurts."}, "entities": [{"start": 0, "end": 4, "label": "D"}]}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train.parquet")

    assert simple(read(Hub(text_column="doc.body"), [tmp_path])["train"]) == [
        ("train:0", "Gout hurts.", (Span(0, 4, "D"),))
    ]


# Tables -------------------------------------------------------------------------------------------

TAGGED = [("Had gout", (Span(4, 8, "X"),)), ("No pain, today .", (Span(3, 8, "X"),))]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('sentence,labels\nHad gout,O B-X\n"No pain, today .",O B-X O O\n', {}),
        ("Sentence\tLabels\nHad gout\tO B-X\nNo pain, today .\tO B-X O O\n", {}),
        (
            "tokens,ner_tags\n\"['Had', 'gout']\",\"['O', 'B-X']\"\n"
            "\"['No', \"\"pain,\"\", 'today', '.']\",\"('O', 'B-X', 'O', 'O')\"\n",
            {},
        ),
        (
            'tokens;labels\n"[""Had"", ""gout""]";[0, 1]\n"[\'No\', \'pain,\', \'today\', \'\\x2e\']";'
            "[0, 1, 0, 0]\n",
            {"tag_names": ("O", "B-X")},
        ),
        (
            'text,entities\nHad gout,"[(4, 8, \'X\')]"\n"No pain, today .",'
            '"[{""start"": 3, ""end"": 8, ""label"": ""X""}]"\n',
            {},
        ),
        (
            "ID,Text,Marks\nc,Had gout,\"[{'start': 4, 'end': 8, 'label': 'X'}]\"\n"
            'd,"No pain, today .","[[3, 8, ""X""]]"\n',
            {"text_column": "Text", "mentions_column": "marks"},
        ),
    ],
    ids=["blanks", "tsv", "python", "json", "mentions", "named"],
)
def test_read__reads_lists_in_tables(tmp_path: Path, text: str, options: dict[str, Any]) -> None:
    path = tmp_path / f"own{'.tsv' if chr(9) in text else '.csv'}"
    path.write_text(text, "utf-8")
    source = Hub(**options)

    found = read(source, [tmp_path], target_bytes=1)["train"]

    assert [(d.text, d.spans) for d in found if isinstance(d, Document)] == TAGGED
    if "mentions_column" not in options:
        assert source.sniff(Sample(path, b"")).why


@pytest.mark.parametrize(
    "text",
    [
        "sentence,words,labels\n1,Had,O\n1,gout,B-X\n",
        "Sentence #,Word,Tag\n1,Had,O\n1,gout,geo\n",
        "sentence,tokens,tags\n1,Had,geo\n1,gout,geo\n",
        "filename,start,end,label,text\na,4,8,X,had gout\n",
        "subject_id,chartdate,text\n1,2020-01-01,Had gout again\n",
        "text,label\nHad gout,B\nI do,I\n",
        "text,labels\nHad gout,O\nOften,B-X\n",
        "text,labels\nHad gout,\"[0, 1]\"\nFine,\"['a', 'b']\"\n",
        "text\n[Had gout]\n",
        "patient,age,sex\n1,30,F\n2,40,M\n",
        "1,2\n3,4\n",
        "tokens,tags\n['Had' 'gout'],['O' 'B-X']\n",
    ],
)
def test_sniff__leaves_other_tables_to_others(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, "utf-8")

    assert Hub().sniff(Sample(path, text.encode())) == ("", {}, "", "")
    assert Hub().disowns(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['a', \"b\\'\", '\\u00e9']", ["a", "b'", "é"]),
        ("[(1, -2, None)]", [[1, -2, None]]),
        ("{'a': [True, 0.5]}", {"a": [True, 0.5]}),
        ("['a' 'b']", None),
        ("[1+1]", None),
        ("[f('a')]", None),
        ("['a', open]", None),
        ("[1 2]", None),
        ("['\\d']", None),
        ("{[]: 1}", None),
        ("(" * 1000 + ")" * 1000, None),
        ("['" + "a" * (1 << 20) + "']", None),
        (" plain", None),
        ("", None),
    ],
)
def test_parse_cell__reads_lists_of_python_and_nothing_else(text: str, value: object) -> None:
    assert cells.parse_cell(text) == (text if value is None else value)


# Names in a file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [".", ".."])
@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_read__takes_names_from_a_file_beside_the_rows(
    tmp_path: Path, where: str, suffix: str
) -> None:
    folder = tmp_path / "dataset"
    folder.mkdir()
    rows = [{"tokens": ["Had", "gout"], "tags": [0, 1]}]
    path = folder / f"train{suffix}"
    if suffix == ".json":
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    names = folder / where / "label.json"
    names.write_text('{"B-X": 1, "O": 0}', "utf-8")

    [found] = read(Hub(), [folder])["train"]
    [other] = read(Hub(tag_names=("O", "B-Y")), [folder])["train"]

    assert isinstance(found, Document)
    assert isinstance(other, Document)
    assert found.spans == (Span(4, 8, "X"),)
    assert other.spans == (Span(4, 8, "Y"),)
    assert [file.resolve() for file in Hub().files(path)] == [path, names.resolve()]
