"""Exports to parquet, JSON lines and other formats, opened with independent readers."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import fsspec
import pytest

import mslm_data as md
from mslm_data.errors import CallError, ExportError, ShardError
from mslm_data.shard.export import FORMATS
from tests import made
from tests.shard import damage

OF_WORDS = [name for name, written in FORMATS.items() if written.has_words]
TEXTS = {
    "one": "Naïve  β-blocker\u00a0use,\n\tanti-IL2 test 🧬x. ",
    "two (b)": "O I B-X -\n# 1\tGout.",
    "three": "Gout. No gout.",
}
SPANS = {
    # A mention that begins within a word, a mention with white space inside, and a mention at the end.
    "one": [(7, 16, "Drug"), (29, 32, "Gene"), (38, 40, "Gene")],
    "two (b)": [(0, 5, "A-B"), (16, 20, "Disease")],
    "three": [(0, 4, "Disease")],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with unusual white space and mentions: two in a shard, and one in another."""
    root = tmp_path_factory.mktemp("odd")
    rows = [{"id": name, "text": text, "entities": SPANS[name]} for name, text in TEXTS.items()]
    (root / "in").mkdir()
    (root / "in" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "in" / "test.jsonl").write_text('{"id": "four", "text": "No mention."}')
    pipeline = made.pipeline_of(source={"use": "jsonl"}, encode={"keep_text": True}, unit_bytes=200)
    made.built(root / "out", root / "in", pipeline)
    return root / "out"


@pytest.fixture(scope="module")
def gold(folder: Path) -> list[list[tuple[str, str]]]:
    """Words and label of each mention of each row, from its characters."""
    shards = md.load(folder)
    return [
        [
            (
                without_spaces(row["text"][row["token_starts"][a] : row["token_ends"][b - 1]]),
                shards.labels[label],
            )
            for a, b, label in zip(
                row["span_starts"], row["span_ends"], row["span_labels"], strict=True
            )
        ]
        for row in shards["train"]
    ]


def without_spaces(text: str) -> str:
    return "".join(text.split())


def exported(folder: Path | str, to: str, out: Path, split: str = "train") -> list[Path]:
    """Export a folder, and return the files of a split."""
    md.load(folder).export(to=to, out=out)
    return sorted((out / split).iterdir())


# All columns --------------------------------------------------------------------------------------


def test_export__writes_a_file_per_shard_and_what_explains_its_numbers(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder"

    sizes = md.load(folder).export(to="jsonl", out=out)

    shards = md.load(folder)
    assert {name: size.rows for name, size in sizes.items()} == {
        name: len(split) for name, split in shards.items()
    }
    assert sizes["train"].files == len(shards["train"].record.shards) > 1
    for split, size in sizes.items():
        written = [path.stat().st_size for path in (out / split).iterdir()]
        assert (size.files, size.bytes) == (len(written), sum(written))
    assert json.loads((out / "export.json").read_bytes())["labels"] == list(shards.labels)
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert [*tmp_path.rglob(".*")] == []


def test_export__datasets_reads_parquet(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")

    files = [*map(str, exported(folder, "parquet", tmp_path / "out"))]
    read = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "hf"))

    assert read["train"].to_list() == list(md.load(folder)["train"])
    assert read["train"].features == datasets.load_from_disk(str(folder / "train")).features


def test_export__jsonl_has_one_object_per_row_and_keys_as_text(
    folder: Path, tmp_path: Path
) -> None:
    files = exported(folder, "jsonl", tmp_path / "out")

    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert all(isinstance(row["key"], str) for row in rows)
    assert [{**row, "key": int(row["key"])} for row in rows] == list(md.load(folder)["train"])


@pytest.mark.parametrize("to", FORMATS)
def test_export__a_folder_and_its_url_give_equal_bytes(
    to: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/sets/exported", recursive=True)

    exported(folder, to, tmp_path / "here")
    exported("memory://sets/exported", to, tmp_path / "there")

    memory.rm("/sets", recursive=True)
    assert made.tree(tmp_path / "there") == made.tree(tmp_path / "here")


# Words --------------------------------------------------------------------------------------------


def test_export__spacy_reads_docbin(
    folder: Path, gold: list[list[tuple[str, str]]], tmp_path: Path
) -> None:
    spacy = pytest.importorskip("spacy")
    vocab = spacy.blank("en").vocab

    files = exported(folder, "docbin", tmp_path / "out")

    docs: list[Any] = []
    for path in files:
        docs += spacy.tokens.DocBin().from_disk(path).get_docs(vocab)
    assert [doc.text for doc in docs] == [row["text"] for row in md.load(folder)["train"]]
    assert [[(without_spaces(e.text), e.label_) for e in doc.ents] for doc in docs] == gold


def test_export__spacy_and_seqeval_read_conll(
    folder: Path, gold: list[list[tuple[str, str]]], tmp_path: Path
) -> None:
    converters = pytest.importorskip("spacy.training.converters")
    labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")

    files = [path.read_text() for path in exported(folder, "conll", tmp_path / "out")]

    blocks = [block for text in files for block in text.strip("\n").split("\n\n")]
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    sentences = [row for row in rows if not row[0][0].startswith("-DOCSTART-")]
    entities = [labeling.get_entities([tag for _, tag in row]) for row in sentences]
    assert [
        [("".join(word for word, _ in row[a : b + 1]), label) for label, a, b in of_row]
        for row, of_row in zip(sentences, entities, strict=True)
    ] == gold
    assert len(rows) - len(sentences) == len(TEXTS)

    docs = [doc for text in files for doc in converters.conll_ner_to_docs(text.replace("\t", " "))]
    ents = [(without_spaces(e.text), e.label_) for doc in docs for e in doc.ents]
    assert ents == [mention for row in gold for mention in row]


def test_export__gliner_has_inclusive_word_ranges(
    folder: Path, gold: list[list[tuple[str, str]]], tmp_path: Path
) -> None:
    files = exported(folder, "gliner", tmp_path / "out")

    rows = [row for path in files for row in json.loads(path.read_text())]
    assert {tuple(row) for row in rows} == {("tokenized_text", "ner")}
    assert [
        [("".join(row["tokenized_text"][a : b + 1]), label) for a, b, label in row["ner"]]
        for row in rows
    ] == gold
    texts = [without_spaces(row["text"]) for row in md.load(folder)["train"]]
    assert ["".join(row["tokenized_text"]) for row in rows] == texts


@pytest.mark.parametrize("to", OF_WORDS)
def test_export__build_reads_exported_words(
    to: str, folder: Path, gold: list[list[tuple[str, str]]], tmp_path: Path
) -> None:
    exported(folder, to, tmp_path / "out")
    vocab = made.SAMPLE / "vocab.txt"
    options = {"encode.keep_text": True}

    again = md.build(
        "auto", input=tmp_path / "out" / "train", tokenizer=vocab, out=tmp_path / "again",
        options=options, workers=1,
    )  # fmt: skip

    mentions = [
        (without_spaces(row["text"][row["token_starts"][a] : row["token_ends"][b - 1]]), label)
        for row in again["train"]
        for a, b, label in zip(
            row["span_starts"],
            row["span_ends"],
            (again.labels[number] for number in row["span_labels"]),
            strict=True,
        )
    ]
    assert mentions == [mention for row in gold for mention in row]


# Refusals -----------------------------------------------------------------------------------------


def test_export__without_text_has_no_words(tmp_path: Path) -> None:
    made.built(tmp_path / "plain")

    (path, *_) = exported(tmp_path / "plain", "jsonl", tmp_path / "out")
    row = json.loads(path.read_text().splitlines()[0])
    with pytest.raises(ExportError, match=r"build it with --set encode\.keep_text=true"):
        exported(tmp_path / "plain", "conll", tmp_path / "words")

    assert not {"text", "token_starts", "token_ends"} & set(row)
    assert not (tmp_path / "words").exists()


def test_export__accepts_an_empty_folder_or_a_link_to_it_alone(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    exported(folder, "jsonl", tmp_path / "link")
    before = made.tree(tmp_path)
    with pytest.raises(ExportError, match="expected a new or empty folder, got other files"):
        exported(folder, "parquet", tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o700
    assert made.tree(tmp_path) == before


def test_export__leaves_a_folder_alone_that_fills_meanwhile(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fill(done: int, total: int) -> None:
        out.mkdir(exist_ok=True)
        (out / "mine").write_text("x")

    with pytest.raises(ExportError, match="expected a new or empty folder"):
        md.load(folder).export(to="jsonl", out=out, progress=fill)
    assert made.tree(tmp_path) == {"out/mine": b"x"}


def test_export__damaged_shard_leaves_nothing(tmp_path: Path) -> None:
    made.built(tmp_path / "damaged")
    path = sorted((tmp_path / "damaged" / "train").glob("*.arrow"))[-1]
    damage.flip(path, path.stat().st_size // 2)

    with pytest.raises(ShardError, match=path.name):
        exported(tmp_path / "damaged", "parquet", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "damaged"]


def test_export__names_the_formats(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"expected one of parquet, .*, conll, got 'parket'; did"):
        exported(folder, "parket", tmp_path / "out")
