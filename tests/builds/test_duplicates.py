"""Copies of documents: counted, or set aside from training, for any workers and units."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mslm_data.builds.duplicates import EXACT, KINDS, NEAR, choose_bands, find_copies, sign

from mslm_data.builds import decontaminate, duplicates
from mslm_data.builds.verify import verify
from mslm_data.data.document import Document, Placeholder
from mslm_data.data.documents import Documents
from mslm_data.errors import BuildError, MissingExtraError, PipelineError
from mslm_data.pipeline import Pipeline, read
from mslm_data.shard.manifest import read_manifest
from tests import made
from tests.builds.test_accounts import jsonl, lines_of
from tests.made import build
from tests.reference import duplicates as twin
from tests.stats.test_overlap import FILLER, folder_of

NOTE = " ".join(f"word{number}" for number in range(60))
LATER = NOTE.replace("word59", "other")
ROWS = [
    {"id": "a", "text": NOTE},
    {"id": "b", "text": "It helps."},
    {"id": "c", "text": NOTE.upper() + "."},
    {"id": "d", "text": LATER},
    {"id": "e", "text": "it, helps"},
    {"id": "f", "text": "It helps not."},
    {"id": "g", "text": "?"},
    {"id": "h", "text": "?!"},
]


@pytest.fixture
def near() -> None:
    pytest.importorskip("rensa", reason="near copies need the extra duplicates")


def pipeline_of(duplicates: str, similarity: float = 0.8, **options: Any) -> Pipeline:
    source = {
        "use": "jsonl",
        "duplicates": duplicates,
        "duplicate_similarity": similarity,
        "max_loss": options.pop("max_loss", 0.5),
    }
    return made.pipeline_of(source=source, annotate={"use": "none"}, **options)


def reasons_of(out: Path) -> dict[str, str]:
    return {line["id"]: line["reason"] for line in lines_of(out)}


def kinds_of(texts: list[str], similarity: float, stays: list[bool] | None = None) -> list[str]:
    documents = Documents.from_documents(
        [Document(id=str(n), text=text) for n, text in enumerate(texts)]
    )
    whole = np.array(stays or [False] * len(texts))
    splits = np.zeros(len(texts), np.int64)
    found = find_copies(sign(documents, similarity), splits, whole, similarity)
    return [KINDS[kind] for kind in found.tolist()]


@pytest.mark.parametrize("unit_bytes", [1, 1 << 20])
def test_build__sets_aside_exact_copies(unit_bytes: int, tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of("drop", 1, unit_bytes=unit_bytes))

    train = manifest.splits["train"]
    assert (train.read, train.written, train.set_aside) == (8, 6, 2)
    assert reasons_of(tmp_path / "out") == {"c": EXACT.text, "e": EXACT.text}
    assert train.duplicates == {}
    assert "rensa" not in manifest.versions
    assert verify(tmp_path / "out")[1] == []


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("unit_bytes", [1, 300, 1 << 20])
def test_build__sets_aside_near_copies(unit_bytes: int, tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of("drop", unit_bytes=unit_bytes))

    assert reasons_of(tmp_path / "out") == {"c": EXACT.text, "d": NEAR.text, "e": EXACT.text}
    assert "rensa" in manifest.versions
    assert manifest.pipeline["source"]["duplicate_similarity"] == 0.8
    assert verify(tmp_path / "out")[1] == []


@pytest.mark.usefixtures("near")
def test_build__counts_no_copy_without_rows(tmp_path: Path) -> None:
    rows = [{"id": doc_id, "text": "kinase deficiency"} for doc_id in "1213"]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of("count", 1))

    train = manifest.splits["train"]
    assert (train.written, train.set_aside) == (3, 1)
    assert train.duplicates == {"exact": 2}


def test_build__counts_copies(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    made.built(tmp_path / "out", inputs, pipeline_of("count", unit_bytes=1))

    train = read_manifest(tmp_path / "out").splits["train"]
    assert (train.written, train.duplicates) == (8, {"exact": 2, "near": 1})
    assert verify(tmp_path / "out")[1] == []


def test_build__keeps_copies_by_default(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of("keep"))

    assert manifest.splits["train"].written == 8
    assert not {"duplicates", "duplicate_similarity"} & set(manifest.pipeline["source"])
    assert b"duplicates" not in (tmp_path / "out" / "manifest.json").read_bytes()


def test_build__keeps_test_documents_and_removes_their_training_copies(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", {"id": "a", "text": "one"})
    jsonl(inputs, "test.jsonl", {"id": "b", "text": "One"}, {"id": "c", "text": "ONE"})
    jsonl(inputs, "validation.jsonl", {"id": "d", "text": "one!"})
    pipeline = pipeline_of("drop", 1, max_loss=0)

    with pytest.raises(BuildError, match="found no usable documents, of 0 read"):
        made.built(tmp_path / "no", jsonl(tmp_path / "x", "train.jsonl"), pipeline)
    manifest = made.built(tmp_path / "out", inputs, pipeline)

    assert {name: of.written for name, of in manifest.splits.items()} == {
        "train": 0,
        "validation": 1,
        "test": 2,
    }
    assert reasons_of(tmp_path / "out") == {"a": EXACT.text}


@pytest.mark.parametrize("segment", ["given", "clinical"])
def test_build__contaminated_documents_have_no_copies(
    near: None, segment: str, tmp_path: Path
) -> None:
    long = " ".join(f"word{number}" for number in range(160))
    inputs = jsonl(
        tmp_path / "in",
        "train.jsonl",
        {"id": "a", "text": f"{long}. {FILLER}."},
        {"id": "b", "text": f"{long}."},
        {"id": "c", "text": f"{long}!"},
    )
    held_out = folder_of(tmp_path / "held out", [f"{FILLER}."])
    pipeline = pipeline_of("drop", segment=segment, max_loss=1)
    left = decontaminate.NEAR.text if segment == "given" else decontaminate.EXACT.text
    without = made.built(tmp_path / "all", inputs, pipeline)
    manifest = made.built(
        tmp_path / "out", inputs, replace(pipeline, decontaminate=(str(held_out),))
    )

    assert without.splits["train"].written == 1
    assert manifest.splits["train"].written == 1
    assert reasons_of(tmp_path / "all") == {"b": NEAR.text, "c": EXACT.text}
    assert reasons_of(tmp_path / "out") == {"a": left, "c": EXACT.text}


def corpus(tmp_path: Path) -> Path:
    draw = random.Random(0)
    rows = []
    for number in range(120):
        text = draw.choice(rows)["text"] if rows and number % 3 == 0 else note(draw)
        rows.append({"id": str(number), "text": text})
    for name, some in (("train.jsonl", rows[:60]), ("train2.jsonl", rows[60:])):
        jsonl(tmp_path / "corpus", name, *some)
    return tmp_path / "corpus"


def note(draw: random.Random) -> str:
    return " ".join(draw.choice("abcdefghijklmnop") * 2 for _ in range(draw.randint(1, 80)))


def corpus_pipeline(duplicates: str, similarity: float) -> Pipeline:
    splits = {"train": ["train.jsonl", "train2.jsonl"]}
    source = {
        "use": "jsonl",
        "duplicates": duplicates,
        "duplicate_similarity": similarity,
        "splits": splits,
        "max_loss": 0,
    }
    return made.pipeline_of(source=source, annotate={"use": "none"}, unit_bytes=500)


@pytest.mark.long
def test_build__duplicates_do_not_depend_on_workers_parts_or_interruptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = corpus(tmp_path)
    pipeline = corpus_pipeline("drop", 1)
    made.built(tmp_path / "one", inputs, pipeline)
    expected = made.tree(tmp_path / "one")
    assert lines_of(tmp_path / "one")

    build(pipeline, [inputs], made.word_piece(), tmp_path / "two", workers=2)
    assert made.tree(tmp_path / "two") == expected

    for part in (2, 1, 3):
        build(pipeline, [inputs], made.word_piece(), tmp_path / "parts", part=(part, 3), workers=1)
    made.built(tmp_path / "parts", inputs, pipeline)
    assert made.tree(tmp_path / "parts") == expected

    # The build ends before documents are matched, and after.
    for name in ("match", "find_copies"):
        monkeypatch.setattr(duplicates, name, stop)
        with pytest.raises(KeyboardInterrupt):
            made.built(tmp_path / "stopped", inputs, pipeline)
        monkeypatch.undo()
    monkeypatch.setattr("mslm_data.builds.worker.build_unit", stop)
    with pytest.raises(KeyboardInterrupt):
        made.built(tmp_path / "stopped", inputs, pipeline)
    monkeypatch.undo()
    monkeypatch.setattr(duplicates, "find_copies", stop)
    made.built(tmp_path / "stopped", inputs, pipeline)
    assert made.tree(tmp_path / "stopped") == expected


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_build__does_not_resume_with_another_threshold(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    tokenizer = made.word_piece()
    build(pipeline_of("drop", 1), [inputs], tokenizer, tmp_path / "out", workers=1, part=(1, 1))

    with pytest.raises(BuildError, match=r"different: pipeline\.source\.duplicates"):
        made.built(tmp_path / "out", inputs, pipeline_of("count", 1))


def test_build__sets_aside_repeated_ids_beside_copies(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "text": "one"},
        {"id": "1", "text": "two"},
        {"id": "2", "text": "two"},
        {"id": "1", "text": "one"},
        {"id": "3", "text": "two"},
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    for unit_bytes in (1, 1 << 20):
        out = tmp_path / str(unit_bytes)
        made.built(out, inputs, pipeline_of("drop", 1, unit_bytes=unit_bytes))

        aside = [(line["place"], line["id"], line["reason"]) for line in lines_of(out)]
        assert aside == [
            ("train.jsonl:2", "1", "expected an id that no document before it has"),
            ("train.jsonl:4", "1", EXACT.text),
            ("train.jsonl:5", "3", EXACT.text),
        ]


def test_sign__ignores_placeholders() -> None:
    texts = ("seen by [**Dr X**] today", "Seen by [**Dr. Y Z**] today.")
    documents = [
        Document(
            id=text,
            text=text,
            placeholders=(Placeholder(text.index("["), text.index("]") + 1, None),),
        )
        for text in texts
    ]

    signed = sign(Documents.from_documents(documents), 1)

    assert signed.words.tolist() == [3, 3]
    assert signed.exact[0] == signed.exact[1]


def test_sign__does_not_depend_on_other_documents() -> None:
    draw = random.Random(1)
    documents = [Document(id=str(n), text=note(draw)) for n in range(40)]

    together = sign(Documents.from_documents(documents), 1)

    alone = [sign(Documents.from_documents([document]), 1) for document in documents]
    assert together.exact.tolist() == [of.exact[0] for of in alone]
    assert together.words.tolist() == [of.words[0] for of in alone]


@pytest.mark.long
@pytest.mark.usefixtures("near")
def test_find_copies__finds_the_copies_of_exact_similarities() -> None:
    draw = random.Random(2)
    texts = []
    for _ in range(300):
        words = [f"w{draw.randrange(400)}" for _ in range(draw.randint(30, 300))]
        texts.append(" ".join(words))
        for _ in range(draw.choice([0, 0, 1, 2])):
            edited = list(words)
            for _ in range(draw.randint(0, len(words) // 25)):
                edited[draw.randrange(len(edited))] = f"v{draw.randrange(400)}"
            texts.append(" ".join(edited))
    order = list(range(len(texts)))
    draw.shuffle(order)
    texts = [texts[place] for place in order]

    expected = twin.copies(texts, 0.8)
    found = kinds_of(texts, 0.8)

    assert Counter(expected)["near"] >= 80
    assert [kind == "exact" for kind in found] == [kind == "exact" for kind in expected]
    right = sum(a == b == "near" for a, b in zip(expected, found, strict=True))
    assert right / Counter(expected)["near"] >= 0.9
    assert right / Counter(found)["near"] >= 0.9


@pytest.mark.usefixtures("near")
def test_find_copies__compares_with_kept_documents_only() -> None:
    words = [f"w{n}" for n in range(100)]
    chain = [" ".join([*words[n * 20 :], *(f"v{m}" for m in range(n * 20))]) for n in range(3)]
    assert twin.jaccard(*map(twin.words_of, chain[:2])) > 0.6
    assert twin.jaccard(*map(twin.words_of, chain[1:])) > 0.6
    assert twin.jaccard(chain[0].split(), chain[2].split()) < 0.45

    assert kinds_of(chain, 0.54) == twin.copies(chain, 0.54) == ["", "near", ""]
    assert kinds_of(chain, 0.54, [True, True, False]) == ["", "", "near"]


def test_choose_bands__finds_copies_at_the_threshold() -> None:
    for similarity in (0.3, 0.5, 0.8, 0.95):
        bands, width = choose_bands(similarity)

        assert bands * width <= 128
        assert 1 - (1 - similarity**width) ** bands >= 0.99
    assert choose_bands(0.8) == (21, 6)


def test_build__names_the_package_for_near_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    monkeypatch.setitem(sys.modules, "rensa", None)

    with pytest.raises(MissingExtraError, match=r"near copies.*pip install 'mslm-data\[dupl"):
        made.built(tmp_path / "out", inputs, pipeline_of("drop"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"duplicates": "thin"},
            "expected one of keep, count, drop for option 'duplicates', got 'thin'",
        ),
        ({"duplicate_similarity": 0}, "duplicate_similarity: expected a number above 0, got 0"),
        ({"duplicate_similarity": 2}, "duplicate_similarity: expected a number from 0 to 1, got 2"),
    ],
)
def test_pipeline__rejects_invalid_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        read({"name": "test", "source": {"use": "jsonl", **options}})
