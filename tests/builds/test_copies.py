"""The drop list: held-out texts, repeated ids and copies, for any unit sizes."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate import Annotations
from mslm_data.annotate.terms.annotator import LoadedTerms, Terms
from mslm_data.builds import decontaminate, plan
from mslm_data.builds.copies import DUPLICATE_ID, EXACT, NEAR, choose_bands, hash_documents
from mslm_data.builds.verify import verify
from mslm_data.data.document import Document, Placeholder
from mslm_data.data.documents import Documents
from mslm_data.errors import MissingExtraError
from mslm_data.pipeline import Pipeline
from tests import made
from tests.builds.inputs import jsonl, lines_of
from tests.reference import duplicates as twin
from tests.stats.test_overlap import FILLER, folder_of

NOTE = " ".join(f"word{number}" for number in range(60))
LONG = " ".join(f"word{number}" for number in range(160))
ROWS = [
    {"id": "a", "text": NOTE},
    {"id": "b", "text": "It helps."},
    {"id": "c", "text": NOTE.upper() + "."},
    {"id": "d", "text": NOTE.replace("word59", "other")},
    {"id": "e", "text": "it, helps"},
    {"id": "f", "text": "It helps not."},
    {"id": "g", "text": "?"},
    {"id": "h", "text": "?!"},
]


@pytest.fixture(autouse=True)
def near() -> None:
    pytest.importorskip("rensa", reason="near copies need the extra duplicates")


def pipeline_of(
    duplicates: str, similarity: float = 0.8, *, segment: str = "given", **source: Any
) -> Pipeline:
    options = {"duplicates": duplicates, "duplicate_similarity": similarity, **source}
    return made.pipeline_of(
        source={"use": "jsonl", **options}, annotate={"use": "none"}, segment=segment
    )


def write(folder: Path, splits: dict[str, list[dict[str, Any]]]) -> Path:
    for split, rows in splits.items():
        jsonl(folder, f"{split}.jsonl", *rows)
    return folder


# What is dropped ----------------------------------------------------------------------------------

IDS = [("1", "one"), ("1", "two"), ("2", "two"), ("1", "one"), ("3", "two")]
SOME_HELD_OUT = [
    {"id": "a", "text": f"{LONG}. {FILLER}."},
    {"id": "b", "text": f"{LONG}."},
    {"id": "c", "text": f"{LONG}!"},
]
DROP: dict[str, Any] = {"duplicates": "drop"}
EXACTLY = {**DROP, "similarity": 1}
CASES: dict[str, tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[int, str]]] = {
    "nothing": ({"duplicates": "keep"}, {"train": ROWS}, {}),
    "exact copies": (EXACTLY, {"train": ROWS}, {3: EXACT.text, 5: EXACT.text}),
    "near copies": (DROP, {"train": ROWS}, {3: EXACT.text, 4: NEAR.text, 5: EXACT.text}),
    "copies are counted": ({"duplicates": "count"}, {"train": ROWS}, {}),
    # An id goes first, so the text of a document that is dropped is still there once.
    "ids before copies": (
        EXACTLY,
        {"train": [{"id": doc_id, "text": text} for doc_id, text in IDS]},
        {2: DUPLICATE_ID.text, 4: DUPLICATE_ID.text, 5: EXACT.text},
    ),
    "test documents stay": (
        EXACTLY,
        {
            "train": [{"id": "a", "text": "one"}],
            "validation": [{"id": "d", "text": "one!"}],
            "test": [{"id": "b", "text": "One"}, {"id": "c", "text": "ONE"}],
        },
        {1: EXACT.text},
    ),
    "near copies of test documents": (DROP, {"train": ROWS[3:4], "test": ROWS[:1]}, {1: NEAR.text}),
    "near and exact copies": (DROP, {"train": SOME_HELD_OUT}, {2: NEAR.text, 3: EXACT.text}),
    # A document that is held out is no original of copies.
    "held-out words before copies": (
        {**DROP, "held_out": [f"{FILLER}."]},
        {"train": SOME_HELD_OUT},
        {1: decontaminate.HELD_NEAR.text, 3: EXACT.text},
    ),
    "held-out sentences before copies": (
        {**DROP, "held_out": [f"{FILLER}."], "segment": "clinical"},
        {"train": SOME_HELD_OUT},
        {1: decontaminate.HELD_EXACT.text, 3: EXACT.text},
    ),
}


@pytest.mark.parametrize("unit_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_build__drops_documents(
    case: str, unit_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, splits, expected = CASES[case]
    options = {**options}
    if "held_out" in options:
        options["decontaminate"] = [str(folder_of(tmp_path / "held", options.pop("held_out")))]
    inputs = write(tmp_path / "in", splits)
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of(**options))

    reasons = {line["place"]: line["reason"] for line in lines_of(tmp_path / "out")}
    assert reasons == {f"train.jsonl:{line}": reason for line, reason in expected.items()}
    train = manifest.splits["train"]
    assert train.read == train.written + len(expected)
    found = {"exact": 2, "near": 1} if case == "copies are counted" else {}
    assert options["duplicates"] == "drop" or train.copies == found
    near_copies = options["duplicates"] != "keep" and options.get("similarity") != 1
    assert ("rensa" in manifest.versions) == near_copies
    assert verify(tmp_path / "out")[1] == []


def test_build__annotates_no_dropped_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nobody pays a slow annotator for a copy."""
    annotated: list[str] = []
    annotate = LoadedTerms.annotate

    def noted(self: LoadedTerms, documents: Documents) -> Annotations:
        annotated.extend(documents.ids)
        return annotate(self, documents)

    monkeypatch.setattr(LoadedTerms, "annotate", noted)
    monkeypatch.setattr(Terms, "slow", True)
    monkeypatch.setattr(plan, "SLOW_UNIT_BYTES", 100)
    folder = folder_of(tmp_path / "held out", [FILLER])
    rows = [
        *ROWS,
        {"id": "a", "text": "Another."},
        {"id": "i", "text": FILLER},
        {"id": "j", "text": "Aspirin"},
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    for out, source, expected in (
        ("keep", {}, "abcdefghij"),
        ("drop", {"duplicates": "drop", "decontaminate": [str(folder)]}, "abfghj"),
    ):
        annotated.clear()
        pipeline = made.pipeline_of(
            source={"use": "jsonl", **source},
            annotate={
                "use": "terms", "table": str(made.SAMPLE / "concepts.csv"), "labels": ["Treatment"]
            },
        )  # fmt: skip
        made.built(tmp_path / out, inputs, pipeline)

        assert annotated == list(expected)


# How copies are found -----------------------------------------------------------------------------


def kinds_of(tmp_path: Path, texts: Sequence[str], similarity: float, stay: int = 0) -> list[str]:
    """Return "exact", "near" or "" for each text; the first are of the test split."""
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    out = tmp_path / f"{stay}"
    inputs = write(tmp_path / f"in{stay}", {"test": rows[:stay], "train": rows[stay:]})
    if not stay:
        (inputs / "test.jsonl").unlink()
    made.built(out, inputs, pipeline_of("drop", similarity))
    reasons = {line["id"]: line["reason"] for line in lines_of(out)}
    names = {EXACT.text: "exact", NEAR.text: "near", "": ""}
    return [names[reasons.get(str(number), "")] for number in range(len(texts))]


@pytest.mark.long
def test_build__finds_the_copies_of_exact_similarities(tmp_path: Path) -> None:
    rng = random.Random(2)
    texts = []
    for _ in range(300):
        words = [f"w{rng.randrange(400)}" for _ in range(rng.randint(30, 300))]
        texts.append(" ".join(words))
        for _ in range(rng.choice([0, 0, 1, 2])):
            edited = list(words)
            for _ in range(rng.randint(0, len(words) // 25)):
                edited[rng.randrange(len(edited))] = f"v{rng.randrange(400)}"
            texts.append(" ".join(edited))
    rng.shuffle(texts)

    expected = twin.copies(texts, 0.8)
    found = kinds_of(tmp_path, texts, 0.8)

    assert Counter(expected)["near"] >= 80
    assert [kind == "exact" for kind in found] == [kind == "exact" for kind in expected]
    right = sum(a == b == "near" for a, b in zip(expected, found, strict=True))
    assert right / Counter(expected)["near"] >= 0.9
    assert right / Counter(found)["near"] >= 0.9


def test_build__compares_with_kept_documents_only(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(100)]
    chain = [" ".join([*words[n * 20 :], *(f"v{m}" for m in range(n * 20))]) for n in range(3)]
    assert twin.jaccard(*map(twin.words_of, chain[:2])) > 0.6
    assert twin.jaccard(*map(twin.words_of, chain[1:])) > 0.6
    assert twin.jaccard(chain[0].split(), chain[2].split()) < 0.45

    assert kinds_of(tmp_path, chain, 0.54) == twin.copies(chain, 0.54) == ["", "near", ""]
    assert kinds_of(tmp_path, chain, 0.54, stay=2) == ["", "", "near"]


def test_hash_documents__ignores_placeholders_and_other_documents() -> None:
    texts = ("seen by [**Dr X**] today", "Seen by [**Dr. Y Z**] today.", "and more", NOTE)
    documents = [
        Document(
            id=text,
            text=text,
            placeholders=(Placeholder(text.index("["), text.index("]") + 1, None),)
            if "[" in text
            else (),
        )
        for text in texts
    ]
    pipeline = pipeline_of("drop")

    together = hash_documents(Documents.from_documents(documents), pipeline, "train")

    assert together.words.tolist() == [3, 3, 2, 60]
    assert together.exact[0] == together.exact[1]
    alone = [
        hash_documents(Documents.from_documents([document]), pipeline, "train")
        for document in documents
    ]
    for name in ("ids", "words", "exact", "bands", "places"):
        rows = [getattr(one, name)[0].tolist() for one in alone]
        assert getattr(together, name).tolist() == rows


def test_choose_bands__finds_copies_at_the_threshold() -> None:
    for similarity in (0.3, 0.5, 0.8, 0.95):
        bands, width = choose_bands(similarity)

        assert bands * width <= 128
        assert 1 - (1 - similarity**width) ** bands >= 0.99
    assert choose_bands(0.8) == (21, 6)


# The package for near copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicates", ["ask", "keep"])
def test_build__needs_no_package_unless_it_looks_for_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, duplicates: str
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    monkeypatch.setitem(sys.modules, "rensa", None)

    assert made.built(tmp_path / "out", inputs, pipeline_of(duplicates))


def test_build__names_the_package_for_near_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    monkeypatch.setitem(sys.modules, "rensa", None)

    with pytest.raises(MissingExtraError, match=r"near copies.*pip install 'mslm-data\[dupl"):
        made.built(tmp_path / "out", inputs, pipeline_of("drop"))
