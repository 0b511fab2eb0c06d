"""Counts of documents and mentions: written, set aside and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.gold import Gold
from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.documents import Documents
from mslm_data.errors import BuildError, ShardError
from mslm_data.segment.given import GivenSentences
from tests import made


def conll(folder: Path, name: str, *sentences: str) -> Path:
    """Write tagged words, with blank lines between sentences. Return the folder."""
    folder.mkdir(exist_ok=True)
    text = "\n".join(
        "".join(f"{pair.replace('/', chr(9))}\n" for pair in line.split()) for line in sentences
    )
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def jsonl(folder: Path, name: str, *rows: dict[str, Any] | str) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def json_pipeline(**options: Any) -> Any:
    return made.pipeline_of(source={"use": "jsonl"}, **options)


def bare_pipeline(**options: Any) -> Any:
    """Make a pipeline for texts without mentions."""
    return json_pipeline(annotate={"use": "none"}, **options)


def lines_of(out: Path, name: str = "set_aside.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / name).read_text(encoding="utf-8").splitlines()]


def test_build__sets_aside_and_counts_a_repeated_id(tmp_path: Path) -> None:
    inputs = jsonl(
        tmp_path / "in",
        "train.jsonl",
        {"id": "1", "text": "kinase"},
        {"id": "2", "text": "a"},
        {"id": "1", "text": "b"},
    )

    manifest = made.built(tmp_path / "out", inputs, bare_pipeline())

    train = manifest.splits["train"]
    assert (train.read, train.written, train.aside) == (3, 2, 1)
    (line,) = lines_of(tmp_path / "out")
    assert (line["split"], line["id"], line["place"]) == ("train", "1", "train.jsonl:3")
    assert "expected an id that no document before it has" in line["reason"]


def test_build__rejects_an_id_in_two_files(tmp_path: Path) -> None:
    jsonl(tmp_path / "in", "train-a.jsonl", {"id": "1", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "train-b.jsonl", {"id": "1", "text": "kinase"})

    paths = f"{inputs / 'train-b.jsonl'}: 1 of its document ids are also in {inputs / 'train-a.jsonl'}; "
    for unit_bytes in (1, 1 << 20):
        with pytest.raises(BuildError, match=f"^{paths}remove one"):
            made.built(tmp_path / str(unit_bytes), inputs, json_pipeline(unit_bytes=unit_bytes))
        with pytest.raises(ShardError):
            load(tmp_path / str(unit_bytes))


def test_build__sets_aside_a_repeated_id_for_any_unit_size(tmp_path: Path) -> None:
    rows = [{"id": str(n % 7), "text": f"kinase inhibitors {n}"} for n in range(10)]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    trees = {}
    for unit_bytes in (1, 90, 1 << 20):
        out = tmp_path / str(unit_bytes)
        manifest = made.built(out, inputs, bare_pipeline(unit_bytes=unit_bytes))
        train = manifest.splits["train"]
        trees[unit_bytes] = [load(out)["train"][i] for i in range(len(load(out)["train"]))]

        assert (train.read, train.written, train.aside) == (10, 7, 3)
        assert [line["place"] for line in lines_of(out)] == [f"train.jsonl:{n}" for n in (8, 9, 10)]
    assert trees[1] == trees[90] == trees[1 << 20]


def test_build__accepts_an_id_in_several_splits(tmp_path: Path) -> None:
    jsonl(tmp_path / "in", "train.jsonl", {"id": "1", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "test.jsonl", {"id": "1", "text": "kinase"})

    manifest = made.built(tmp_path / "out", inputs, bare_pipeline())

    assert [split.aside for split in manifest.splits.values()] == [0, 0]


def test_build__sets_aside_documents_without_tokens(tmp_path: Path) -> None:
    inputs = jsonl(
        tmp_path / "in",
        "train.jsonl",
        {"id": "a", "text": "kinase"},
        {"id": "b", "text": " \u200b "},
        "{broken",
    )

    manifest = made.built(tmp_path / "out", inputs, bare_pipeline())

    train = manifest.splits["train"]
    assert (train.read, train.written, train.aside, train.sequences) == (3, 1, 2, 1)
    assert {(line["id"], line["place"]) for line in lines_of(tmp_path / "out")} == {
        ("b", "train.jsonl:2"),
        ("train:2", "train.jsonl:3"),
    }


def test_build__counts_mentions_without_tokens(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-X \u200b/B-X", "\u200b/B-X")

    manifest = made.built(tmp_path / "out", inputs)

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (3, 1)
    assert train.left_out == {"no token": 2}
    assert train.aside == 1


@pytest.mark.parametrize(
    ("model", "method", "who"),
    [(GivenSentences, "sentences", "segmenter"), (Gold, "annotate", "annotator")],
)
def test_build__counts_mentions_of_documents_that_the_model_rejects(
    model: type, method: str, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "one/B-X two/B-X", "bad/B-X and/O bad/B-X", "x/O")
    call = getattr(model, method)

    def failing(self: Any, documents: Documents) -> Any:
        if "bad" in documents.line:
            raise IndexError("bad")
        return call(self, documents)

    monkeypatch.setattr(model, method, failing)

    manifest = made.built(tmp_path / "out", inputs)

    train = manifest.splits["train"]
    (aside,) = lines_of(tmp_path / "out")
    reason = (
        f"expected text that the models of the pipeline can take, got IndexError from the {who}"
    )
    assert (aside["id"], aside["reason"]) == ("train:1", reason)
    assert (train.given_mentions, train.mentions) == (4, 2)
    assert train.left_out == {f"in documents set aside: {reason}": 2}
    assert load(tmp_path / "out")["train"].record == train
    assert verify(tmp_path / "out")[1] == []


def test_build__explains_why_nothing_can_be_used(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", {"id": "b", "text": "\u200b"}, "{broken")

    with pytest.raises(
        BuildError,
        match=r"found no usable documents, of 2 read; [\s\S]*1: expected .* first at train\.jsonl:1",
    ):
        made.built(tmp_path / "out", inputs, json_pipeline())

    with pytest.raises(ShardError):
        load(tmp_path / "out")


def test_build__reports_unselected_records_when_nothing_is_left(tmp_path: Path) -> None:
    rows = [{"text": "kinase", "answer": "reject"}, {"text": "genes", "answer": "ignore"}]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    with pytest.raises(
        BuildError,
        match=r"of 0 read; .*\n  1 not chosen: rejected by the annotator\n  1 not chosen: skipped ",
    ):
        made.built(tmp_path / "out", inputs, json_pipeline())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["X"], ""),
        (
            ["X", "Nope"],
            "no mention that is kept has the label 'Nope'; mentions that are left out have 'Y'; c",
        ),
        (
            ["X", "Y", "Nope"],
            "no mention that is kept has the label 'Nope'; check annotate.labels and",
        ),
        ([], ""),
    ],
)
def test_build__warns_about_labels_without_mentions(
    labels: list[str], message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"id": "a", "text": "kinase genes", "entities": [[0, 6, "X"], [7, 12, "Y"]]}
    inputs = jsonl(tmp_path / "in", "train.jsonl", row)

    made.built(tmp_path / "out", inputs, json_pipeline(labels=labels))

    said = [record.getMessage() for record in caplog.records if "no mention" in record.msg]
    assert len(said) == bool(message)
    assert message in "".join(said)


@pytest.mark.parametrize("encode", [{}, {"keep_text": True}])
def test_build__writes_an_empty_split(tmp_path: Path, encode: dict[str, object]) -> None:
    datasets = pytest.importorskip("datasets")
    jsonl(tmp_path / "in", "train.jsonl", {"id": "a", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "test.jsonl", {"id": "b", "text": "\u200b"})
    jsonl(tmp_path / "in", "dev.jsonl")

    made.built(tmp_path / "out", inputs, bare_pipeline(encode=encode))

    shards = load(tmp_path / "out")
    assert [len(shards[split]) for split in ("train", "validation", "test")] == [1, 0, 0]
    assert len(shards["test"].examples()) == len(shards["validation"].examples()) == 0
    assert [len(split) for split in datasets.load_from_disk(str(tmp_path / "out")).values()] == [
        1,
        0,
        0,
    ]
    assert verify(tmp_path / "out")[1] == []


def test_build__collects_the_labels_in_use(tmp_path: Path) -> None:
    conll(tmp_path / "in", "train.tsv", "kinase/B-Zeta p53/B-Old")
    inputs = conll(tmp_path / "in", "test.tsv", "kinase/B-Alpha")

    manifest = made.built(
        tmp_path / "out", inputs, made.pipeline_of(annotate={"rename": {"Old": "New"}})
    )

    assert manifest.labels == ("Alpha", "New", "Zeta")
    assert load(tmp_path / "out").tags[:3] == ("O", "B-Alpha", "I-Alpha")
    assert load(tmp_path / "out")["train"][0]["span_labels"] == [2, 1]


def test_build__has_no_labels_whose_mentions_are_all_left_out(tmp_path: Path) -> None:
    row = {"id": "a", "text": "kinase genes", "entities": [[0, 6, "X"], [0, 3, "Y"]]}
    inputs = jsonl(tmp_path / "in", "train.jsonl", row)

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    assert manifest.labels == ("X",)
    assert manifest.splits["train"].left_out == {"inside another": 1}


def test_build__counts_mentions_of_documents_that_cannot_be_read(tmp_path: Path) -> None:
    text = "-DOCSTART-\nkinase\tB-X\ngenes\tB-X\nbroken\n\n-DOCSTART-\nkinase\tB-X\n\n"
    (tmp_path / "train.tsv").write_text(text)

    manifest = made.built(tmp_path / "out", tmp_path / "train.tsv")

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (3, 1)
    (reason,) = train.left_out
    assert reason.startswith("in documents set aside: expected a token and a tag, got 1 field")
    assert train.left_out[reason] == 2


def test_build__keeps_the_order_of_given_labels_and_counts_others(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-Zeta p53/B-Other a/B-Alpha")

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(labels=["Zeta", "Alpha"]))

    assert manifest.labels == ("Zeta", "Alpha")
    assert manifest.splits["train"].left_out == {"label not wanted": 1}
    assert load(tmp_path / "out")["train"][0]["span_labels"] == [0, 1]


def test_build__accepts_as_many_labels_as_the_tags_allow(tmp_path: Path) -> None:
    labels = [*range(MAX_LABELS)] * 2
    words = " ".join(f"kinase/B-L{n:05d}" for n in labels)
    inputs = conll(tmp_path / "in", "train.tsv", words)

    made.built(tmp_path / "out", inputs)

    train = load(tmp_path / "out")["train"]
    assert MAX_LABELS >= 16_000
    assert train.examples().bio.values.max() == 2 * MAX_LABELS - 1
    assert sorted(train.examples().span_labels.values) == sorted(labels)
    assert verify(tmp_path / "out")[1] == []


def test_build__rejects_more_labels_than_the_tags_allow(tmp_path: Path) -> None:
    words = " ".join(f"kinase/B-L{n:05d}" for n in range(MAX_LABELS + 1))
    inputs = conll(tmp_path / "in", "train.tsv", words)

    with pytest.raises(
        BuildError, match="expected at most 16,383 labels, got 16,384; merge or choose some"
    ):
        made.built(tmp_path / "out", inputs)


def test_build__counts_overlapping_mentions(tmp_path: Path) -> None:
    row = {
        "id": "1",
        "text": "colon cancer cells",
        "entities": [[0, 12, "X"], [6, 12, "X"], [6, 18, "X"], [0, 12, "Y"]],
    }
    spans = [{"start": a, "end": b, "label": label} for a, b, label in row["entities"]]
    inputs = jsonl(tmp_path / "in", "train.jsonl", {"id": "1", "text": row["text"], "spans": spans})

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (4, 1)
    assert (
        train.left_out == {"inside another": 1, "overlaps another": 1, "same place": 1}
        or sum(train.left_out.values()) == 3
    )


@pytest.mark.parametrize(
    "corpus", sorted(path.parent.name for path in made.SAMPLE.glob("*/train.tsv"))
)
@pytest.mark.parametrize("max_tokens", [8, 512])
def test_build__counts_every_document_and_mention(
    tmp_path: Path, corpus: str, max_tokens: int
) -> None:
    source = {"scheme": "label", "outside": "N"} if corpus == "ebm-nlp" else {}
    pipeline = made.pipeline_of(source=source, encode={"max_tokens": max_tokens})

    manifest = made.built(tmp_path / "out", made.SAMPLE / corpus, pipeline)

    for split in manifest.splits.values():
        assert split.read == split.written + split.aside
        assert (
            split.mentions == split.given_mentions - sum(split.left_out.values()) + split.cut_pieces
        )
        assert split.mentions > 0
    assert verify(tmp_path / "out")[1] == []


def test_build__cuts_sequences_as_the_paper_does(tmp_path: Path) -> None:
    words = " ".join(["kinase/O"] * 5 + ["kinase/B-X"] + ["kinase/I-X"] * 3)
    inputs = conll(tmp_path / "in", "train.tsv", words)

    ours = made.built(tmp_path / "ours", inputs, made.pipeline_of(encode={"max_tokens": 9}))
    papers = made.built(
        tmp_path / "papers", inputs, made.pipeline_of(encode={"max_tokens": 9, "split": "paper"})
    )

    assert (ours.splits["train"].cut_mentions, papers.splits["train"].cut_mentions) == (0, 1)
    assert (ours.splits["train"].mentions, papers.splits["train"].mentions) == (1, 2)
