"""Counts of documents and mentions: written, set aside and left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.gold import Gold
from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError, BuildError, ShardError
from mslm_data.segment.given import GivenSentences
from tests import made
from tests.builds.inputs import conll, jsonl, lines_of


def json_pipeline(**options: Any) -> Any:
    return made.pipeline_of(source={"use": "jsonl"}, **options)


def bare_pipeline(**options: Any) -> Any:
    """Make a pipeline for texts without mentions."""
    return json_pipeline(annotate={"use": "none"}, **options)


# Documents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_bytes", [1, 90, 1 << 20])
def test_build__sets_aside_and_counts_a_repeated_id(unit_bytes: int, tmp_path: Path) -> None:
    rows = [{"id": str(n % 7), "text": f"kinase inhibitors {n}"} for n in range(10)]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    manifest = made.built(tmp_path / "out", inputs, bare_pipeline(unit_bytes=unit_bytes))

    train = manifest.splits["train"]
    assert (train.read, train.written, train.aside) == (10, 7, 3)
    aside = lines_of(tmp_path / "out")
    assert [(line["split"], line["id"], line["place"]) for line in aside] == [
        ("train", str(n - 8), f"train.jsonl:{n}") for n in (8, 9, 10)
    ]
    assert "expected an id that no document before it has" in aside[0]["reason"]
    kept = [row["doc_id"] for row in load(tmp_path / "out")["train"]]
    assert kept == [str(n) for n in range(7)]


@pytest.mark.parametrize("unit_bytes", [1, 90, 1 << 20])
def test_build__sets_aside_training_documents_of_few_terms(unit_bytes: int, tmp_path: Path) -> None:
    def row(name: str, text: str, *spans: tuple[int, int]) -> dict[str, Any]:
        entities = [{"start": start, "end": end, "label": "Gene"} for start, end in spans]
        return {"id": name, "text": text, "entities": entities}

    rows = (
        row("half", "kinase inhibitors", (0, 6)),
        row("none", "inhibitors of kinase"),
        row("third", "of kinase inhibitors", (3, 9)),
        row("quarter", "inhibitors of the kinase", (18, 24)),
        row("bare", " \u200b "),
    )
    jsonl(tmp_path / "in", "train.jsonl", *rows)
    inputs = jsonl(tmp_path / "in", "test.jsonl", row("other", "inhibitors of it"))
    pipeline = json_pipeline(
        annotate={"min_term_share": 1 / 4}, encode={"max_tokens": 8}, unit_bytes=unit_bytes
    )

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    shards = load(tmp_path / "out")
    assert [row["doc_id"] for row in shards["train"]] == ["half", "third"]
    assert [row["doc_id"] for row in shards["test"]] == ["other"]  # evaluation stays whole
    assert [line["id"] for line in lines_of(tmp_path / "out")] == ["none", "quarter", "bare"]
    train = manifest.splits["train"]
    few = "the share of its tokens in mentions is below annotate.min_term_share"
    assert train.set_aside[few] == 2
    assert train.left_out == {f"in documents set aside: {few}": 1}
    assert (train.read, train.written, train.given_mentions, train.mentions) == (5, 2, 3, 2)
    assert verify(tmp_path / "out")[1] == []


def test_build__sets_aside_documents_without_tokens(tmp_path: Path) -> None:
    rows = {"id": "a", "text": "kinase"}, {"id": "b", "text": " \u200b "}, "{broken"
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    manifest = made.built(tmp_path / "out", inputs, bare_pipeline())

    train = manifest.splits["train"]
    assert (train.read, train.written, train.aside, train.sequences) == (3, 1, 2, 1)
    assert {(line["id"], line["place"]) for line in lines_of(tmp_path / "out")} == {
        ("b", "train.jsonl:2"),
        ("train:2", "train.jsonl:3"),
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"id": "b", "text": "\u200b"}, "{broken"],
            r"found no usable documents, of 2 read; [\s\S]*1: expected .* first at train\.jsonl:1",
        ),
        (
            [{"text": "kinase", "answer": "reject"}, {"text": "genes", "answer": "ignore"}],
            r"of 0 read; .*\n  1 not chosen: rejected by the annotator\n  1 not chosen: skipped ",
        ),
    ],
)
def test_build__explains_why_nothing_can_be_used(
    rows: list[dict[str, str] | str], message: str, tmp_path: Path
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    with pytest.raises(BuildError, match=message):
        made.built(tmp_path / "out", inputs, json_pipeline())

    with pytest.raises(ShardError):
        load(tmp_path / "out")


@pytest.mark.parametrize("encode", [{}, {"keep_text": True}])
def test_build__writes_an_empty_split(tmp_path: Path, encode: dict[str, object]) -> None:
    datasets = pytest.importorskip("datasets")
    jsonl(tmp_path / "in", "train.jsonl", {"id": "a", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "test.jsonl", {"id": "b", "text": "\u200b"})
    jsonl(tmp_path / "in", "dev.jsonl")

    made.built(tmp_path / "out", inputs, bare_pipeline(encode=encode))

    shards = load(tmp_path / "out")
    expected = {"train": 1, "validation": 0, "test": 0}
    assert {split: len(rows) for split, rows in shards.items()} == expected
    assert len(shards["test"].examples()) == len(shards["validation"].examples()) == 0
    theirs = datasets.load_from_disk(str(tmp_path / "out"))
    assert {split: len(rows) for split, rows in theirs.items()} == expected
    assert verify(tmp_path / "out")[1] == []


# Mentions -----------------------------------------------------------------------------------------


def spans(*given: tuple[int, int, str]) -> dict[str, Any]:
    return {
        "id": "1",
        "text": "colon cancer cells",
        "spans": [{"start": start, "end": end, "label": label} for start, end, label in given],
    }


BROKEN = "expected a token and a tag, got 1 field(s)"
CASES: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "without tokens": (
        ["kinase/B-X \u200b/B-X", "\u200b/B-X"],
        {},
        {"given_mentions": 3, "mentions": 1, "left_out": {"no token": 2}, "aside": 1},
    ),
    "of documents that cannot be read": (
        ["-DOCSTART-", "kinase/B-X genes/B-X broken", "-DOCSTART-", "kinase/B-X"],
        {},
        {
            "given_mentions": 3,
            "mentions": 1,
            "left_out": {f"in documents set aside: {BROKEN}": 2},
        },
    ),
    "that overlap": (
        [spans((0, 12, "X"), (6, 12, "X"), (6, 18, "X"), (0, 12, "Y"))],
        {"source": {"use": "jsonl", "max_loss": 0}},
        {
            "given_mentions": 4,
            "mentions": 1,
            "left_out": {"inside another": 1, "overlaps another": 1, "same place": 1},
        },
    ),
    "of other labels": (
        ["kinase/B-Zeta p53/B-Other a/B-Alpha"],
        {"labels": ["Zeta", "Alpha"], "source": {"max_loss": 0}},
        {"mentions": 2, "left_out": {"label not wanted": 1}},
    ),
    "that nobody asks for": (
        ["kinase/B-Gene"],
        {"annotate": {"use": "none"}, "source": {"max_loss": 0}},
        {"given_mentions": 0, "mentions": 0, "left_out": {}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_build__counts_mentions(case: str, tmp_path: Path) -> None:
    content, options, expected = CASES[case]
    if isinstance(content[0], str):
        inputs = conll(tmp_path / "in", "train.tsv", *content)
    else:
        inputs = jsonl(tmp_path / "in", "train.jsonl", *content)

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(**options))

    train = manifest.splits["train"]
    assert {name: getattr(train, name) for name in expected} == expected
    assert verify(tmp_path / "out")[1] == []


def fail_at_bad(
    model: type, method: str, error: type[BaseException], patch: pytest.MonkeyPatch
) -> None:
    """Let a method of a model fail for documents with the word `bad`."""
    call = getattr(model, method)

    def failing(self: Any, documents: Documents) -> Any:
        if "bad" in documents.line:
            raise error("bad")
        return call(self, documents)

    patch.setattr(model, method, failing)


BAD = ["one/B-X two/B-X", "bad/B-X and/O bad/B-X", "x/O"]


@pytest.mark.parametrize(
    ("model", "method", "who"),
    [(GivenSentences, "sentences", "segmenter"), (Gold, "annotate", "annotator")],
)
def test_build__counts_mentions_of_documents_that_the_model_rejects(
    model: type, method: str, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", *BAD)
    fail_at_bad(model, method, IndexError, monkeypatch)

    manifest = made.built(tmp_path / "out", inputs)

    train = manifest.splits["train"]
    (aside,) = lines_of(tmp_path / "out")
    reason = aside["reason"]
    assert aside["id"] == "train:1"
    assert re.fullmatch(rf"expected text .* got IndexError in \w+\.py:\d+ from the {who}", reason)
    assert (train.given_mentions, train.mentions) == (4, 2)
    assert train.left_out == {f"in documents set aside: {reason}": 2}
    assert load(tmp_path / "out")["train"].record == train
    assert verify(tmp_path / "out")[1] == []


@pytest.mark.parametrize("error", [AnnotateError, MemoryError, OSError, KeyboardInterrupt])
def test_build__blames_no_document_for_other_failures(
    error: type[BaseException], tmp_path: Path
) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", *BAD)

    with pytest.MonkeyPatch.context() as patch:
        fail_at_bad(Gold, "annotate", error, patch)
        with pytest.raises((error, BuildError)):
            made.built(tmp_path / "out", inputs)

    assert made.built(tmp_path / "out", inputs).splits["train"].aside == 0


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

    counts = {}
    for split in ("mention", "paper"):
        pipeline = made.pipeline_of(encode={"max_tokens": 9, "split": split})
        train = made.built(tmp_path / split, inputs, pipeline).splits["train"]
        counts[split] = (train.cut_mentions, train.mentions)

    assert counts == {"mention": (0, 1), "paper": (1, 2)}


# Labels -------------------------------------------------------------------------------------------


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
    inputs = jsonl(tmp_path / "in", "train.jsonl", spans((0, 12, "X"), (0, 5, "Y")))

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    assert manifest.labels == ("X",)
    assert manifest.splits["train"].left_out == {"inside another": 1}


def test_build__keeps_the_order_of_given_labels(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-Zeta p53/B-Other a/B-Alpha")

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(labels=["Zeta", "Alpha"]))

    assert manifest.labels == ("Zeta", "Alpha")
    assert load(tmp_path / "out")["train"][0]["span_labels"] == [0, 1]


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
    inputs = jsonl(tmp_path / "in", "train.jsonl", spans((0, 5, "X"), (6, 12, "Y")))

    made.built(tmp_path / "out", inputs, json_pipeline(labels=labels))

    said = [record.getMessage() for record in caplog.records if "no mention" in record.msg]
    assert len(said) == bool(message)
    assert message in "".join(said)


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
