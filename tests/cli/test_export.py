"""Exports to parquet, JSON lines and other formats, opened with independent readers."""

from __future__ import annotations

import json
import re
import shutil
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec
import pytest

import mslm_data as md
from mslm_data.errors import CallError
from tests import made
from tests.cli.running import run

OF_COLUMNS = ("parquet", "jsonl")
OF_WORDS = ("gliner", "docbin", "conll")
KINDS = (*OF_COLUMNS, *OF_WORDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three splits, one with several shards, with all optional text columns."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=2000, encode={"keep_text": True}))
    return out


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    return list(md.load(folder)[split])


def lines_of(out: Path, split: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON lines file, with integer keys."""
    rows = [
        json.loads(line)
        for path in sorted((out / split).glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [{**row, "key": int(row["key"])} for row in rows]


@pytest.mark.parametrize("to", KINDS)
def test_export__all_files_are_private_and_counted(to: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"

    done = run("export", folder, "--to", to, "--out", out, "--json")

    assert done.code == 0
    splits = {name: len(split) for name, split in md.load(folder).items()}
    assert {name: of["rows"] for name, of in done.json["splits"].items()} == splits
    assert (done.json["out"], done.json["to"], done.json["protected"]) == (str(out), to, False)

    for split, of in done.json["splits"].items():
        sizes = [path.stat().st_size for path in (out / split).iterdir()]
        assert (of["files"], of["bytes"]) == (len(sizes), sum(sizes))
    record = json.loads((out / "export.json").read_bytes())
    assert record["labels"] == list(md.load(folder).labels)
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()

    for path in [out, *out.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert [*tmp_path.rglob(".*")] == []


def test_export__datasets_and_pandas_read_parquet(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    run("export", folder, "--to", "parquet", "--out", tmp_path / "out")

    for split in md.load(folder):
        files = sorted(map(str, (tmp_path / "out" / split).glob("*.parquet")))
        assert len(files) == len(md.load(folder)[split].record.shards)
        read = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "hf"))
        frame = pandas.concat(map(pandas.read_parquet, files))

        assert read["train"].to_list() == rows_of(folder, split)
        assert read["train"].features == datasets.load_from_disk(str(folder / split)).features
        assert frame["key"].tolist() == [row["key"] for row in rows_of(folder, split)]
        assert str(frame["key"].dtype) == "uint64"


def test_export__jsonl_has_one_object_per_row_and_exact_keys(folder: Path, tmp_path: Path) -> None:
    run("export", folder, "--to", "jsonl", "--out", tmp_path / "out")

    for split in md.load(folder):
        assert lines_of(tmp_path / "out", split) == rows_of(folder, split)
    first = next((tmp_path / "out" / "train").glob("*.jsonl")).read_text().splitlines()[0]
    assert isinstance(json.loads(first)["key"], str)


def test_page__writes_mds(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "streaming.vision", ModuleType("vision"))  # needs torchvision
    pytest.importorskip("streaming")
    from streaming import StreamingDataset

    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "shards/ncbi")
    page = (Path(__file__).parents[2] / "docs" / "exporting.md").read_text()
    (code,) = re.findall("```python\n(.*?)```", page, flags=re.DOTALL)
    exec(code, {"md": md})  # noqa: S102 - our own page

    for name, split in md.load(folder).items():
        rows = StreamingDataset(local="mds/ncbi", split=name, batch_size=1)
        assert [row["input_ids"].tolist() for row in rows] == [row["input_ids"] for row in split]
        assert [row["bio"].tolist() for row in rows] == [row["bio"] for row in split]


def test_export__exports_selected_splits_only(folder: Path, tmp_path: Path) -> None:
    words = ("export", folder, "--to", "jsonl", "--split", "test", "--split", "train")

    done = run(*words, "--out", tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == [
        "test",
        "train",
    ]
    assert done.out.splitlines()[0].startswith(f"{tmp_path}/out/test: ")
    assert done.out.splitlines()[1].endswith("rows in 4 files")


def test_export__has_no_text_when_the_folder_has_none(tmp_path: Path) -> None:
    made.built(tmp_path / "plain")
    run("export", tmp_path / "plain", "--to", "jsonl", "--out", tmp_path / "out")

    (row, *_) = lines_of(tmp_path / "out", "train")
    assert not {"text", "token_starts", "token_ends"} & set(row)


def test_export__marks_patients_text(tmp_path: Path) -> None:
    run("build", "--source", "blurb/bc2gm", "--sample", "--set", "about.protected=true",
        "--out", tmp_path / "notes")  # fmt: skip

    done = run("export", tmp_path / "notes", "--to", "jsonl", "--out", tmp_path / "out")

    assert done.out.splitlines()[-1] == (
        f"{tmp_path}/out: patients' text, as token ids can be turned back into it"
    )
    assert json.loads((tmp_path / "out" / "export.json").read_bytes())["about"]["protected"] is True


def test_export__equal_rows_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    for to in KINDS:
        trees = []
        for name in ("one", "two"):
            run("export", folder, "--to", to, "--out", tmp_path / to / name)
            trees.append(made.tree(tmp_path / to / name))
        assert trees[0] == trees[1]


def test_export__reads_a_url_shard_by_shard(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/sets/exported", recursive=True)

    done = run("export", "memory://sets/exported", "--to", "parquet", "--out", tmp_path / "there")
    run("export", folder, "--to", "parquet", "--out", tmp_path / "here")

    memory.rm("/sets", recursive=True)
    assert done.code == 0
    assert made.tree(tmp_path / "there") == made.tree(tmp_path / "here")


# Words --------------------------------------------------------------------------------------------

TEXTS = {
    "one": "Naïve  β-blocker\u00a0use,\n\tanti-IL2 test 🧬x. ",
    "two (b)": "O I B-X -\n# 1\tGout.",
}
SPANS = {
    # A mention that begins within a word, a mention with white space inside, and a mention at the end.
    "one": [(7, 16, "Drug"), (29, 32, "Gene"), (38, 40, "Gene")],
    "two (b)": [(0, 5, "A-B"), (16, 20, "Disease")],
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents with unusual white space and mentions."""
    root = tmp_path_factory.mktemp("odd")
    rows = [{"id": name, "text": text, "entities": SPANS[name]} for name, text in TEXTS.items()]
    (root / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pipeline = made.pipeline_of(source={"use": "jsonl"}, encode={"keep_text": True})
    made.built(root / "out", root / "train.jsonl", pipeline)
    return root / "out"


def gold(folder: Path, split: str) -> list[list[tuple[str, str]]]:
    """Return words and label of each mention, from the characters of its row."""
    shards = md.load(folder)
    return [
        [
            (
                "".join(row["text"][row["token_starts"][a] : row["token_ends"][b - 1]].split()),
                shards.labels[label],
            )
            for a, b, label in zip(
                row["span_starts"], row["span_ends"], row["span_labels"], strict=True
            )
        ]
        for row in shards[split]
    ]


def exported(folder: Path, to: str, out: Path, split: str) -> list[Path]:
    assert run("export", folder, "--to", to, "--out", out).code == 0
    return sorted(path for path in (out / split).iterdir())


@pytest.mark.parametrize("name", ["folder", "odd"])
def test_export__spacy_reads_docbin(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    spacy = pytest.importorskip("spacy")
    built = request.getfixturevalue(name)
    vocab = spacy.blank("en").vocab

    docs = [
        doc
        for path in exported(built, "docbin", tmp_path / "out", "train")
        for doc in spacy.tokens.DocBin().from_disk(path).get_docs(vocab)
    ]

    assert [doc.text for doc in docs] == [row["text"] for row in rows_of(built, "train")]
    assert [[("".join(e.text.split()), e.label_) for e in doc.ents] for doc in docs] == gold(
        built, "train"
    )


@pytest.mark.parametrize("name", ["folder", "odd"])
def test_export__spacy_and_seqeval_read_conll(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    converters = pytest.importorskip("spacy.training.converters")
    labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    built = request.getfixturevalue(name)

    files = [path.read_text() for path in exported(built, "conll", tmp_path / "out", "train")]

    blocks = [block for text in files for block in text.strip("\n").split("\n\n")]
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    sentences = [row for row in rows if not row[0][0].startswith("-DOCSTART-")]
    found = [labeling.get_entities([tag for _, tag in row]) for row in sentences]
    in_words = [
        [("".join(word for word, _ in row[a : b + 1]), label) for label, a, b in of_row]
        for row, of_row in zip(sentences, found, strict=True)
    ]
    assert in_words == gold(built, "train")
    marks = sum(row[0][0].startswith("-DOCSTART-") for row in rows)
    assert marks >= len({row["doc_id"] for row in rows_of(built, "train")})

    docs = [doc for text in files for doc in converters.conll_ner_to_docs(text.replace("\t", " "))]
    ents = [("".join(e.text.split()), e.label_) for doc in docs for e in doc.ents]
    assert ents == [mention for row in gold(built, "train") for mention in row]


@pytest.mark.parametrize("name", ["folder", "odd"])
def test_export__gliner_has_inclusive_word_ranges(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    built = request.getfixturevalue(name)

    rows = [
        row
        for path in exported(built, "gliner", tmp_path / "out", "train")
        for row in json.loads(path.read_text())
    ]

    assert {tuple(row) for row in rows} == {("tokenized_text", "ner")}
    assert [
        [("".join(row["tokenized_text"][a : b + 1]), label) for a, b, label in row["ner"]]
        for row in rows
    ] == gold(built, "train")
    texts = ["".join(row["text"].split()) for row in rows_of(built, "train")]
    assert ["".join(row["tokenized_text"]) for row in rows] == texts


@pytest.mark.parametrize("to", OF_WORDS)
def test_export__build_reads_exported_words(to: str, odd: Path, tmp_path: Path) -> None:
    run("export", odd, "--to", to, "--out", tmp_path / "out")

    done = run("build", "--source", "auto", "--input", tmp_path / "out" / "train", "--tokenizer",
               made.SAMPLE / "vocab.txt", "--set", "encode.keep_text=true", "--out",
               tmp_path / "again")  # fmt: skip

    assert done.code == 0
    before = [mention for row in gold(odd, "train") for mention in row]
    assert [mention for row in gold(tmp_path / "again", "train") for mention in row] == before


@pytest.mark.parametrize("to", OF_WORDS)
def test_export__words_require_text(to: str, tmp_path: Path) -> None:
    made.built(tmp_path / "plain")

    done = run("export", tmp_path / "plain", "--to", to, "--out", tmp_path / "out")

    assert done.code == 1
    assert "build it with --set encode.keep_text=true" in done.err
    assert not (tmp_path / "out").exists()


# Invalid folders --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["other files", "a file", "an export", "the built folder"])
def test_export__rejects_foreign_files(kind: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if kind == "the built folder":
        out = Path(shutil.copytree(folder, out))
    elif kind == "a file":
        out.write_text("mine")
    elif kind == "an export":
        run("export", folder, "--to", "jsonl", "--out", out)
    else:
        out.mkdir()
        (out / "notes.txt").write_text("{}")
    before = made.tree(tmp_path)

    done = run("export", folder, "--to", "jsonl", "--out", out)

    assert done.code == 1
    assert f"{out}: expected a new or empty folder, got other files; choose another" in done.err
    assert made.tree(tmp_path) == before


def test_export__accepts_an_empty_folder_or_a_link_to_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert run("export", folder, "--to", "jsonl", "--out", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o700
    assert lines_of(tmp_path / "real", "test") == rows_of(folder, "test")


def test_export__leaves_a_folder_alone_that_fills_meanwhile(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fill(done: int, total: int) -> None:
        out.mkdir(exist_ok=True)
        (out / "mine").write_text("x")

    with pytest.raises(md.MslmDataError, match="expected a new or empty folder"):
        md.load(folder).export(to="jsonl", out=out, progress=fill)
    assert made.tree(tmp_path) == {"out/mine": b"x"}


def test_export__damaged_shard_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    path = sorted((damaged / "train").glob("*.arrow"))[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    done = run("export", damaged, "--to", "parquet", "--out", tmp_path / "out")

    assert done.code == 1
    assert str(path) in done.err
    assert sorted(tmp_path.iterdir()) == [damaged]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "csv"), 2, "'csv' is not one of 'parquet', 'jsonl'"),
        (("--to", "jsonl", "--split", "trai"), 1, "no split 'trai'; did you mean 'train'?"),
        ((), 2, "Missing option '--to'"),
    ],
)
def test_export__rejects_invalid_calls(
    words: tuple[str, ...], code: int, said: str, folder: Path, tmp_path: Path
) -> None:
    done = run("export", folder, *words, "--out", tmp_path / "out")

    assert done.code == code
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


def test_export__rejects_unknown_kinds_and_missing_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"expected one of parquet, .*, conll, got 'parket'; did"):
        md.load(folder).export(to="parket", out=tmp_path / "out")

    done = run("export", tmp_path / "nothing", "--to", "jsonl", "--out", tmp_path / "out")
    assert (done.code, "no such folder" in done.err) == (1, True)
