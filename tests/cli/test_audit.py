from __future__ import annotations

import json
from pathlib import Path

import pytest

from mslm_data.io import resources
from tests.cli.running import run

VOCAB = resources.path("vocab", "sample/vocab.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Build weak labels with a table of two terms."""
    (tmp_path / "terms.csv").write_text(
        "name,label\nheart failure,Disease\nasthma,Disease\naspirin,Treatment\n"
    )
    (tmp_path / "notes.jsonl").write_text(
        json.dumps({"id": "1", "text": "No heart failure. Aspirin was given."})
    )
    (tmp_path / "weak.toml").write_text(
        '[source]\nuse = "jsonl"\n[annotate]\nuse = "terms"\nlabels = ["Disease", "Treatment"]\n'
    )
    done = run(
        "build", "--source", tmp_path / "weak.toml", "--input", tmp_path / "notes.jsonl",
        "--tokenizer", VOCAB, "--out", tmp_path / "out", "--set",
        f"annotate.table={tmp_path / 'terms.csv'}",
    )  # fmt: skip
    assert done.code == 0
    return tmp_path


def gold(folder: Path) -> tuple[object, ...]:
    """Write four gold mentions: two are found exactly, one in part and one not."""
    rows = [
        {
            "id": "a",
            "text": "Asthma and severe heart failure.",
            "entities": [[0, 6, "DIS"], [11, 31, "DIS"]],
        },
        {
            "id": "b",
            "text": "Heart failure without gout; aspirin.",
            "entities": [[0, 13, "DIS"], [22, 26, "DIS"]],
        },
        {"id": "c", "text": "Asthma was ruled out."},
    ]
    (folder / "gold.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "gold.toml").write_text('[source]\nuse = "jsonl"\n[annotate]\nlabels = ["DIS"]\n')
    return (
        "audit",
        folder / "out",
        "--gold",
        folder / "gold.jsonl",
        "--gold-source",
        folder / "gold.toml",
    )


def test_audit__counts_by_hand(folder: Path) -> None:
    done = run(
        *gold(folder),
        "--label",
        "DIS=Disease",
        "--set",
        f"annotate.table={folder / 'terms.csv'}",
        "--json",
    )

    assert done.code == 0
    assert (done.json["documents"], done.json["set_aside"]) == (3, 0)
    assert set(done.json["labels"]) == {"Disease"}
    scores = done.json["labels"]["Disease"]
    assert (scores["gold"], scores["found"], scores["exact"]) == (4, 4, 2)
    assert (scores["exact_precision"], scores["exact_recall"], scores["exact_f1"]) == (
        0.5,
        0.5,
        0.5,
    )
    assert (scores["overlap_precision"], scores["overlap_recall"]) == (0.75, 0.75)


def test_audit__prints_a_table(folder: Path) -> None:
    done = run(
        *gold(folder), "--label", "DIS=Disease", "--set", f"annotate.table={folder / 'terms.csv'}"
    )

    assert "3 gold documents" in done.out
    assert "Disease  overlap" in done.out


def test_audit__refuses_another_table_than_that_of_the_folder(folder: Path) -> None:
    (folder / "other.csv").write_text("name,label\ngout,Disease\n")

    done = run(
        *gold(folder), "--label", "DIS=Disease", "--set", f"annotate.table={folder / 'other.csv'}"
    )

    assert done.code == 1
    assert "expected the model that made the folder" in done.err


def test_audit__refuses_labels_that_the_folder_has_not(folder: Path) -> None:
    done = run(*gold(folder), "--set", f"annotate.table={folder / 'terms.csv'}")

    assert done.code == 1
    assert "expected --label GOLD=OURS" in done.err
    assert "(Disease, Treatment), got DIS" in done.err


def test_audit__refuses_a_label_without_its_pair(folder: Path) -> None:
    pair = ("--label", "DIS=Disease", "--label", "Disease")

    done = run(*gold(folder), *pair, "--set", f"annotate.table={folder / 'terms.csv'}")

    assert done.code == 1
    assert "(Disease, Treatment), got a pair without a label" in done.err


def test_audit__counts_records_of_another_corpus_neither_as_read_nor_as_set_aside(
    folder: Path,
) -> None:
    notes = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
    chosen = ("--gold-set", "source.patients=4", "--gold-set", "annotate.labels=['Disease']")

    done = run("audit", folder / "out", "--gold", notes, "--gold-source", "mimic", *chosen,
               "--set", f"annotate.table={folder / 'terms.csv'}", "--json")  # fmt: skip

    assert done.code == 0, done.err
    assert done.json["documents"] > 0
    assert done.json["documents"] + done.json["set_aside"] < 40


def test_audit__help_shows_an_example_as_it_is_typed() -> None:
    lines = [line.strip() for line in run("audit", "--help").out.splitlines()]

    first = lines.index("mslm-data audit shards/mimic --set annotate.model_pack=PACK \\")
    assert lines[first + 1 : first + 3] == [
        "--gold NCBI_corpus --gold-source blurb/ncbi-disease \\",
        "--gold-set source.use=pubtator --label Disease=Disease",
    ]


BRANCHES = (
    "DOID:7",
    "DOID:150",
    "DOID:630",
    "DOID:14566",
    "DOID:0014667",
    "DOID:0050117",
    "DOID:0080014",
    "DOID:0080015",
)
NCBI = ("ncbi-disease", "ncbi", "Disease=Disease")
BC5CDR = ("bc5cdr-disease", "bc5cdr", "Disease=Disease")
DRUGS = ("bc5cdr-chem", "bc5cdr", "Chemical=Treatment")


@pytest.mark.parametrize(
    ("pack", "options", "audited"),
    [
        ("all terms", [], [NCBI, BC5CDR, DRUGS]),
        (
            "chosen branches",
            [word for term in BRANCHES for word in ("--under", term)],
            [NCBI, BC5CDR],
        ),
        ("no common words", ["--common-words", "drop"], [NCBI]),
    ],
)
def test_audit__manual_shows_what_open_concepts_reach(
    pack: str,
    options: list[str],
    audited: list[tuple[str, str, str]],
    real: Path,
    tmp_path: Path,
) -> None:
    pytest.importorskip("medcat")
    pytest.importorskip("wordfreq")
    ontology = real / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = real / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv"
    made = run(
        "vocab",
        "concepts",
        "--from",
        f"{ontology}=T047",
        "--from",
        f"{drugs}=T121",
        "--out",
        tmp_path / "pack",
        *options,
    )
    assert made.code == 0, made.err
    model = ("--set", f"annotate.model_pack={tmp_path / 'pack'}")
    built = run("build", "--source", "mimic", "--sample", "--out", tmp_path / "out", *model)
    assert built.code == 0

    rows = []
    for pipeline, folder, label in audited:
        done = run(
            "audit", tmp_path / "out", *model, "--gold", real / "pubtator" / folder,
            "--gold-source", f"blurb/{pipeline}", "--gold-set", "source.use=pubtator", "--label",
            label, "--json",
        )  # fmt: skip
        ((name, scores),) = done.json["labels"].items()
        numbers = [
            scores[f"{how}_{score}"]
            for how in ("exact", "overlap")
            for score in ("precision", "recall", "f1")
        ]
        corpus = "NCBI-disease" if pipeline == "ncbi-disease" else "BC5CDR"
        rows.append(
            f"| {pack} | {corpus} ({done.json['documents']:,} documents) | {name} | "
            + " | ".join(f"{n:.3f}"[1:] for n in numbers)
        )

    page = (Path(__file__).parents[2] / "docs/notes.md").read_text(encoding="utf-8")
    for row in rows:
        assert row in page
