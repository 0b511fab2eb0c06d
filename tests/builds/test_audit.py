"""Scores of weak labels and their confidence intervals, compared with scipy's bootstrap."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mslm_data.builds.reading import DUPLICATE_ID
from scipy import stats

import mslm_data as md
from mslm_data import metrics
from mslm_data.annotate import LoadedAnnotator
from mslm_data.builds import audit, stages
from mslm_data.builds.audit import Agreement, read_training
from mslm_data.data.document import Document, Part
from mslm_data.data.documents import Documents
from mslm_data.errors import BuildError
from mslm_data.metrics import MEMORISED, NEW, SYNONYM, KnownMentions
from mslm_data.pipeline import Pipeline
from mslm_data.source.formats.pubtator import PubTator
from tests import made


def of_documents(number: int) -> Agreement:
    """Return the agreement of documents with random true positives, misses and false positives."""
    draw = random.Random(number)
    agreement = Agreement()
    for _ in range(number):
        luck = draw.random()
        gold = [(n * 10, n * 10 + 5) for n in range(draw.randint(0, 12))]
        found = [
            (start, end - (draw.random() < 0.2)) for start, end in gold if draw.random() < luck
        ]
        found += [(200 + n * 10, 205 + n * 10) for n in range(draw.randint(0, 3))]
        agreement.add(gold, found)
    return agreement


def test_agreement__counts_of_a_document_match_hand_count() -> None:
    agreement = Agreement()

    agreement.add([(0, 3), (5, 9), (20, 22)], [(0, 3), (5, 7), (8, 10), (30, 31)])
    agreement.add([], [(0, 1)])

    assert agreement.counts.tolist() == [[3, 4, 1, 3, 2], [0, 1, 0, 0, 0]]
    assert agreement.totals() == {"gold": 3, "found": 5, "exact": 1}
    assert agreement.scores() == pytest.approx(
        {
            "exact_precision": 1 / 5,
            "exact_recall": 1 / 3,
            "exact_f1": 1 / 4,
            "overlap_precision": 3 / 5,
            "overlap_recall": 2 / 3,
            "overlap_f1": 12 / 19,
        }
    )


def test_agreement__counts_gold_mentions_by_class() -> None:
    agreement = Agreement()

    agreement.add([(0, 3), (5, 9), (20, 22)], [(0, 3), (5, 7)], [MEMORISED, SYNONYM, NEW])
    agreement.add([(1, 4)], [(1, 4)])

    classes = agreement.unseen(with_concepts=True)
    assert {
        name: (one["gold"], one["exact"], one["exact_recall"], one["overlap_recall"])
        for name, one in classes.items()
    } == {"memorised": (1, 1, 1, 1), "synonym": (1, 0, 0, 1), "new": (2, 1, 0.5, 0.5)}
    assert [*agreement.unseen(with_concepts=False)] == ["memorised", "new"]


def test_agreement__single_class_has_the_overall_recall() -> None:
    agreement = of_documents(40)

    new = agreement.unseen(with_concepts=False)["new"]

    for name in ("exact_recall", "overlap_recall"):
        assert new[name] == agreement.scores()[name]
        assert new[f"{name}_interval"] == agreement.intervals()[name]


@pytest.mark.parametrize(
    ("name", "right_found", "right_gold"), [("exact", 2, 2), ("overlap", 3, 4)]
)
def test_intervals__equal_scipys_bootstrap(name: str, right_found: int, right_gold: int) -> None:
    agreement = of_documents(80)
    counts = agreement.counts

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

    ours = agreement.intervals()
    for number, score in enumerate(("precision", "recall", "f1")):
        low, high = ours[f"{name}_{score}"]
        width = theirs.high[number] - theirs.low[number]
        assert width > 0.03
        assert low == pytest.approx(theirs.low[number], abs=0.06 * width)
        assert high == pytest.approx(theirs.high[number], abs=0.06 * width)


def test_intervals__contain_the_score_and_are_deterministic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreement = of_documents(40)
    intervals = agreement.intervals()

    # Resamples are drawn in small batches, or all at once.
    monkeypatch.setattr(metrics, "_AT_ONCE", 100)

    assert agreement.intervals() == intervals
    assert all(low < agreement.scores()[name] < high for name, (low, high) in intervals.items())


def test_intervals__are_narrower_for_more_documents() -> None:
    few, many = (of_documents(number).intervals()["exact_f1"] for number in (30, 1_000))

    assert many[1] - many[0] < (few[1] - few[0]) / 3


@pytest.mark.parametrize("documents", [[], [([], [])], [([], []), ([], [(0, 1)])]])
def test_intervals__are_zero_without_true_positives(documents: list) -> None:
    agreement = Agreement()
    for gold, found in documents:
        agreement.add(gold, found)

    assert set(agreement.scores().values()) == {0.0}
    assert set(agreement.intervals().values()) == {(0.0, 0.0)}


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
    texts = [(str(number), "asthma again") for number in range(30)]
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
    assert "got TypeError from the models of the folder" in reason
    assert [aside.place for aside in found.gold.set_aside] == ["train.jsonl:8"]
    assert counts.left_out == {f"in documents set aside: {reason}": 1}
    assert (counts.given_mentions, found.labels["X"].totals()["gold"]) == (30, 29)

    strict = replace(of_gold, max_loss=0.03)
    with pytest.raises(
        BuildError,
        match=r"^audit, --gold: .* at most 3% of the documents .* got 1 of 30\n  1: .*model",
    ) as caught:
        audit.audit(manifest, weak, strict, [gold], labels={"X": "X"})
    assert "Zebulon" not in str(caught.value)


def test_audit__counts_a_repeated_document_once(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,X\n")
    gold = gold_of(tmp_path, [("1", "asthma"), ("2", "gout"), ("1", "asthma")])
    weak, of_gold = pipelines(tmp_path / "terms.csv", max_loss=0.5)
    manifest = made.built(tmp_path / "out", gold, weak)

    found = audit.audit(manifest, weak, of_gold, [gold], labels={"X": "X"})

    assert found.gold.counts.written == 2
    assert found.gold.counts.set_aside == {DUPLICATE_ID.text: 1}
    assert found.labels["X"].totals() == {"gold": 2, "found": 1, "exact": 1}


def test_audit__rejects_an_id_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,X\n")
    gold = gold_of(tmp_path, [("1", "asthma")])
    weak, of_gold = pipelines(tmp_path / "terms.csv")
    manifest = made.built(tmp_path / "out", gold, weak)
    twin = gold.with_name("train-2.jsonl")
    twin.write_bytes(gold.read_bytes())

    with pytest.raises(BuildError, match=r"document id 1 is also in .*train-2\.jsonl"):
        audit.audit(manifest, weak, of_gold, [gold, twin], labels={"X": "X"})


def test_audit__annotates_with_the_digested_table(tmp_path: Path) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("name,label\nasthma,X\ndiabetes,X\n")
    row = {"id": "1", "text": "asthma and diabetes", "entities": [[0, 6, "X"], [11, 19, "X"]]}
    gold = tmp_path / "train.jsonl"
    gold.write_text(json.dumps(row))
    of_gold = made.pipeline_of(source={"use": "jsonl"}, segment="clinical", labels=["X"])
    weak = made.pipeline_of(annotate={"use": "terms", "table": str(table)}, labels=["X"])
    pipeline = replace(of_gold, annotate=weak.annotate)
    manifest = made.built(tmp_path / "out", gold, pipeline)

    # This process has since loaded another table of the same name.
    whole = table.read_text()
    table.write_text("name,label\nasthma,X\n")
    stages._LOADED.clear()
    stages.load_annotator(pipeline.annotate)
    table.write_text(whole)
    result = audit.audit(manifest, pipeline, of_gold, [gold], labels={"X": "X"})

    assert result.labels["X"].totals() == {"gold": 2, "found": 2, "exact": 2}


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
