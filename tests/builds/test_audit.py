"""Scores of weak labels and their confidence intervals, compared with scipy's bootstrap."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace
from scipy import stats

import mslm_data as md
from mslm_data import metrics
from mslm_data.annotate import LoadedAnnotator
from mslm_data.builds import audit, stages
from mslm_data.builds.audit import compare, read_training, score, score_classes
from mslm_data.builds.copies import DUPLICATE_ID
from mslm_data.data.document import Document, Part, Span
from mslm_data.data.documents import Documents, Mentions
from mslm_data.errors import BuildError
from mslm_data.metrics import MEMORISED, NEW, SYNONYM, DocumentTable, KnownMentions
from mslm_data.pipeline import Pipeline
from mslm_data.source.formats.pubtator import PubTator
from tests import made

Places = list[tuple[int, int]]


def counts_of(
    *documents: tuple[Places, Places], classes: list[int] | None = None
) -> npt.NDArray[np.int64]:
    """Return the counts of documents with gold and found mentions of one label, `[D, K, 5]`."""
    gold, found = (
        Mentions.from_rows(
            [[Span(*place, "X") for place in document[side]] for document in documents],
            1_000 * np.arange(len(documents)),
        )
        for side in (0, 1)
    )
    of_gold = np.array([NEW] * len(gold) if classes is None else classes, np.int8)
    table = DocumentTable(5)
    compare(table, 0, gold, found, of_gold, "X")
    return table.sums(len(documents))


def of_documents(number: int) -> npt.NDArray[np.int64]:
    """Return the counts of documents with random true positives, misses and false positives."""
    draw = random.Random(number)
    documents = []
    for _ in range(number):
        luck = draw.random()
        gold = [(n * 10, n * 10 + 5) for n in range(draw.randint(0, 12))]
        found = [
            (start, end - (draw.random() < 0.2)) for start, end in gold if draw.random() < luck
        ]
        found += [(200 + n * 10, 205 + n * 10) for n in range(draw.randint(0, 3))]
        documents.append((gold, found))
    return counts_of(*documents)


def test_score__matches_hand_count() -> None:
    counts = counts_of(
        ([(0, 3), (5, 9), (20, 22)], [(0, 3), (5, 7), (8, 10), (30, 31)]), ([], [(0, 1)])
    )

    assert counts.sum(axis=1).tolist() == [[3, 4, 1, 3, 2], [0, 1, 0, 0, 0]]
    scores = {name: value for name, value in score(counts).items() if "interval" not in name}
    assert scores == pytest.approx(
        {
            "gold": 3,
            "found": 5,
            "exact": 1,
            "exact_precision": 1 / 5,
            "exact_recall": 1 / 3,
            "exact_f1": 1 / 4,
            "overlap_precision": 3 / 5,
            "overlap_recall": 2 / 3,
            "overlap_f1": 12 / 19,
        }
    )


def test_compare__ignores_other_labels() -> None:
    gold = Mentions.from_rows([[Span(0, 3, "X"), Span(5, 9, "Y")]], np.zeros(1, np.int64))
    found = Mentions.from_rows([[Span(0, 3, "Y"), Span(5, 8, "Y")]], np.zeros(1, np.int64))
    table = DocumentTable(5)

    compare(table, 0, gold, found, np.array([MEMORISED, SYNONYM], np.int8), "Y")

    assert table.sums(1)[0, SYNONYM].tolist() == [1, 0, 0, 0, 1]
    assert table.sums(1)[0].sum(axis=0).tolist() == [1, 2, 0, 1, 1]


def test_score_classes__counts_gold_mentions_by_class() -> None:
    documents = ([(0, 3), (5, 9), (20, 22)], [(0, 3), (5, 7)]), ([(1, 4)], [(1, 4)])
    counts = counts_of(*documents, classes=[MEMORISED, SYNONYM, NEW, NEW])

    classes = score_classes(counts, with_concepts=True)

    assert {
        name: (one["gold"], one["exact_hits"], one["exact_recall"], one["overlap_recall"])
        for name, one in classes.items()
    } == {"memorised": (1, 1, 1, 1), "synonym": (1, 0, 0, 1), "new": (2, 1, 0.5, 0.5)}
    assert [*score_classes(counts, with_concepts=False)] == ["memorised", "new"]


def test_score_classes__single_class_has_the_overall_recall() -> None:
    counts = of_documents(40)

    new = score_classes(counts, with_concepts=False)["new"]

    for name in ("exact_recall", "overlap_recall"):
        assert new[name] == score(counts)[name]
        assert new[f"{name}_interval"] == score(counts)[f"{name}_interval"]


@pytest.mark.parametrize(
    ("name", "right_found", "right_gold"), [("exact", 2, 2), ("overlap", 3, 4)]
)
def test_score__intervals_equal_scipys_bootstrap(
    name: str, right_found: int, right_gold: int
) -> None:
    counts = of_documents(80).sum(axis=1)

    def statistics(gold, found, right, right_too, axis=-1):
        precision = right.sum(axis) / found.sum(axis)
        recall = right_too.sum(axis) / gold.sum(axis)
        return np.stack([precision, recall, 2 * precision * recall / (precision + recall)])

    theirs = stats.bootstrap(
        (counts[:, 0], counts[:, 1], counts[:, right_found], counts[:, right_gold]),
        statistics,
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval

    ours = score(of_documents(80))
    for number, of in enumerate(("precision", "recall", "f1")):
        low, high = ours[f"{name}_{of}_interval"]
        width = theirs.high[number] - theirs.low[number]
        assert width > 0.03
        assert low == pytest.approx(theirs.low[number], abs=0.06 * width)
        assert high == pytest.approx(theirs.high[number], abs=0.06 * width)


def test_score__intervals_contain_the_score_and_are_deterministic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = of_documents(40)
    scores = score(counts)

    # Resamples are drawn in small batches, or all at once.
    monkeypatch.setattr(metrics, "_AT_ONCE", 100)

    assert score(counts) == scores
    for name in ("exact_precision", "exact_recall", "exact_f1", "overlap_f1"):
        low, high = scores[f"{name}_interval"]
        assert low < scores[name] < high


@pytest.mark.parametrize("documents", [[], [([], [])], [([], []), ([], [(0, 1)])]])
def test_score__is_zero_without_true_positives(documents: list) -> None:
    scores = score(counts_of(*documents))

    del scores["found"]
    assert set(scores.values()) == {0, (0.0, 0.0)}


def gold_of(folder: Path, texts: list[tuple[str, str]]) -> Path:
    rows = [
        {"id": doc_id, "text": text, "entities": [[0, len(text.split()[0]), "X"]]}
        for doc_id, text in texts
    ]
    path = folder / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def pipelines(table: Path, **source: Any) -> tuple[Pipeline, Pipeline]:
    """Return the pipeline of a folder of weak labels by a term table, and the gold pipeline."""
    gold = made.pipeline_of(source={"use": "jsonl", **source}, segment="clinical", labels=["X"])
    weak = made.pipeline_of(annotate={"use": "terms", "table": str(table)}, labels=["X"])
    return replace(gold, annotate=weak.annotate), gold


class Failing:
    """An annotator that fails on documents with a certain word."""

    def __init__(self, annotator: LoadedAnnotator) -> None:
        self._annotator = annotator

    def annotate(self, documents: Documents) -> Any:
        if "Zebulon" in documents.line:
            raise TypeError("Zebulon is no word")
        return self._annotator.annotate(documents)


def test_audit__excludes_documents_on_which_the_model_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,X\n")
    texts = [(str(number), f"asthma {'again ' * number}") for number in range(30)]
    texts[7] = ("7", "asthma Zebulon")
    gold = gold_of(tmp_path, texts)
    weak, of_gold = pipelines(tmp_path / "terms.csv")
    manifest = made.built(tmp_path / "out", gold, weak)
    load = audit.load_annotator
    monkeypatch.setattr(audit, "load_annotator", lambda annotate: Failing(load(annotate)))

    found = audit.audit(manifest, weak, of_gold, [gold], labels={"X": "X"})

    counts = found.gold.counts
    [(reason, count)] = counts.set_aside.items()
    assert (counts.written, count) == (29, 1)
    assert re.search(r"got TypeError in \w+\.py:\d+ from the models of the folder", reason)
    assert [aside.place for aside in found.gold.set_aside] == ["train.jsonl:8"]
    assert counts.left_out == {f"in documents set aside: {reason}": 1}
    assert (counts.given_mentions, found.labels["X"]["gold"]) == (30, 29)

    strict = replace(of_gold, source=replace(of_gold.source, max_loss=0.03))
    with pytest.raises(
        BuildError,
        match=r"^audit, --gold: .* at most 3% of the documents .* got 1 of 30\n  1: .*model",
    ) as caught:
        audit.audit(manifest, weak, strict, [gold], labels={"X": "X"})
    assert "Zebulon" not in str(caught.value)


def test_audit__counts_a_repeated_document_once(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,X\n")
    gold = gold_of(tmp_path, [("1", "asthma"), ("2", "gout"), ("1", "asthma")])
    weak, of_gold = pipelines(tmp_path / "terms.csv", max_loss=0.7)
    manifest = made.built(tmp_path / "out", gold, weak)
    twin = gold.with_name("train-2.jsonl")
    twin.write_bytes(gold.read_bytes())

    found = audit.audit(manifest, weak, of_gold, [gold, twin], labels={"X": "X"})

    assert found.gold.counts.written == 2
    assert found.gold.counts.set_aside == {DUPLICATE_ID.text: 4}
    assert found.labels["X"].items() >= {"gold": 2, "found": 1, "exact": 1}.items()


def test_audit__annotates_with_the_digested_table(tmp_path: Path) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("name,label\nasthma,X\ndiabetes,X\n")
    gold = gold_of(tmp_path, [("1", "asthma"), ("2", "diabetes")])
    weak, of_gold = pipelines(table)
    manifest = made.built(tmp_path / "out", gold, weak)

    # This process has since loaded another table of the same name.
    whole = table.read_text()
    table.write_text("name,label\nasthma,X\n")
    stages._LOADED.clear()
    stages.load_annotator(weak.annotate)
    table.write_text(whole)
    result = audit.audit(manifest, weak, of_gold, [gold], labels={"X": "X"})

    assert result.labels["X"].items() >= {"gold": 2, "found": 2, "exact": 2}.items()


@pytest.mark.long
def test_read_training__classes_of_ncbi_disease_match_published_counts(
    real: Path, tmp_path: Path
) -> None:
    """Kim and Kang's program counts 599, 196 and 165, as it also ignores punctuation."""
    folder = real / "pubtator/ncbi"
    md.build(
        "blurb/ncbi-disease",
        input=folder,
        tokenizer=real / "tokenizers/bert-base-uncased__BlueBERT.vocab.txt",
        out=tmp_path / "out",
        options={"source.use": "pubtator", "annotate.weak": True},
    )
    by_tokens = read_training(tmp_path / "out")
    by_text = KnownMentions()
    for spans in mentions_of(folder / "NCBItrainset_corpus.txt"):
        by_text.add(*spans)

    counts = np.zeros((2, 3), np.int64)
    for spans in mentions_of(folder / "NCBItestset_corpus.txt"):
        for number, known in enumerate((by_tokens, by_text)):
            counts[number] += np.bincount(known.classify(*spans), minlength=3)

    assert counts.tolist() == [[598, 197, 165]] * 2


def mentions_of(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield texts and concepts of the mentions of each PubTator document."""
    for document in PubTator().read(Part(str(path))):
        if isinstance(document, Document):
            yield (
                [document.text[span.start : span.end] for span in document.spans],
                [span.concept for span in document.spans],
            )
