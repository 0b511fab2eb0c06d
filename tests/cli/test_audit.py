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
    """Write four gold mentions: two exact matches, one partial match and one miss."""
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


def test_audit__counts_match_hand_count(folder: Path) -> None:
    done = run(
        *gold(folder),
        "--label",
        "DIS=Disease",
        "--set",
        f"annotate.table={folder / 'terms.csv'}",
        "--json",
    )

    assert done.code == 0
    assert (done.json["documents"], done.json["set_aside"]) == (3, {})
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


def test_audit__rejects_a_different_term_table(folder: Path) -> None:
    (folder / "other.csv").write_text("name,label\ngout,Disease\n")

    done = run(
        *gold(folder), "--label", "DIS=Disease", "--set", f"annotate.table={folder / 'other.csv'}"
    )

    assert done.code == 1
    assert "expected the model that made the folder" in done.err


def test_audit__rejects_unknown_folder_labels(folder: Path) -> None:
    done = run(*gold(folder), "--set", f"annotate.table={folder / 'terms.csv'}")

    assert done.code == 1
    assert "expected --label GOLD=OURS" in done.err
    assert "(Disease, Treatment), got DIS" in done.err


def test_audit__rejects_a_label_without_its_pair(folder: Path) -> None:
    pair = ("--label", "DIS=Disease", "--label", "Disease")

    done = run(*gold(folder), *pair, "--set", f"annotate.table={folder / 'terms.csv'}")

    assert done.code == 1
    assert "(Disease, Treatment), got a pair without a label" in done.err


def test_audit__excludes_records_of_other_corpora_from_the_counts(
    folder: Path,
) -> None:
    notes = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
    chosen = ("--gold-set", "source.patients=4", "--gold-set", "annotate.labels=['Disease']")
    no_mentions = ("--gold-set", "annotate.use=none")

    done = run("audit", folder / "out", "--gold", notes, "--gold-source", "mimic", *chosen, *no_mentions,
               "--set", f"annotate.table={folder / 'terms.csv'}", "--json")  # fmt: skip

    assert done.code == 0, done.err
    assert done.json["documents"] > 0
    assert done.json["documents"] + sum(done.json["set_aside"].values()) < 40


# Training -----------------------------------------------------------------------------------------


def mention(start: int, end: int, concept: str = "") -> dict[str, object]:
    return {"start": start, "end": end, "label": "Disease", "concept": concept}


def of_training(folder: Path, *train: object, concepts: bool = True) -> tuple[object, ...]:
    """Write gold mentions of each class. Return the arguments of an audit with training mentions."""
    row = {
        "id": "a",
        "text": "ASTHMA, cardiac insufficiency, heart failure and Sjögren disease.",
        "entities": [
            mention(0, 6),
            mention(8, 29, "D2|D9" if concepts else ""),
            mention(31, 44),
            mention(49, 64),
        ],
    }
    trains = [word for path in train for word in ("--train", path)]
    return (*lossy(folder, row), "--label", "Disease=Disease", *trains)


def training_folder(folder: Path, *, weak: bool) -> Path:
    """Build a folder of gold mentions for training."""
    rows = {
        "train": [
            {"id": "1", "text": "Asthma came.", "entities": [mention(0, 6, "D1")]},
            {"id": "2", "text": "Weak heart.", "entities": [mention(0, 10, "D2+D3")]},
            {"id": "3", "text": "sjogren Disease.", "entities": [mention(0, 15)]},
        ],
        "test": [{"id": "4", "text": "Heart failure.", "entities": [mention(0, 13)]}],
    }
    (folder / "rows").mkdir()
    for split, documents in rows.items():
        (folder / f"rows/{split}.jsonl").write_text("\n".join(map(json.dumps, documents)))
    done = run(
        "build", "--source", "jsonl", "--input", folder / "rows", "--tokenizer", VOCAB,
        "--out", folder / "gold", "--set", f"annotate.weak={str(weak).lower()}", "--set", "encode.lowercase=true",
    )  # fmt: skip
    assert done.code == 0, done.err
    return folder / "gold"


def by_class(words: tuple[object, ...]) -> dict[str, tuple[int, int, float]]:
    done = run(*words, "--json")
    assert done.code == 0, done.err
    return {
        name: (scores["gold"], scores["exact_hits"], scores["overlap_recall"])
        for name, scores in done.json["labels"]["Disease"]["unseen"].items()
    }


def test_audit__reports_recall_by_class_of_the_training_data(folder: Path) -> None:
    words = of_training(folder, training_folder(folder, weak=True))

    done = run(*words)

    assert by_class(words) == {
        "memorised": (2, 1, 0.5),  # The tokens of the folder have no case and no accents.
        "synonym": (1, 0, 0.0),
        "new": (1, 1, 1.0),
    }
    assert "Disease  memorised       2  0.500 [0.500, 0.500]" in done.out


def test_audit__omits_synonyms_without_concepts(folder: Path) -> None:
    built = training_folder(folder, weak=True)
    expected = {"memorised": (2, 1, 0.5), "new": (2, 1, 0.5)}

    assert by_class(of_training(folder, built, concepts=False)) == expected

    (folder / "names.csv").write_text("name,label\nasthma,X\nSjögren disease,X\n")
    assert by_class(of_training(folder, folder / "names.csv")) == expected


def test_audit__combines_training_folders_splits_and_tables(folder: Path) -> None:
    built = training_folder(folder, weak=False)
    (folder / "names.csv").write_text("name,label,concept\nsick heart,X,D9\n")

    found = by_class(of_training(folder, built, built / "test", folder / "names.csv"))

    assert found == {"memorised": (3, 2, 2 / 3), "synonym": (1, 0, 0.0), "new": (0, 0, 0.0)}


def test_audit__rejects_training_folder_that_is_not_built(folder: Path) -> None:
    (folder / "empty").mkdir()

    done = run(*of_training(folder, folder / "empty"))

    assert (done.code, done.out) == (1, "")
    assert f"{folder / 'empty'}" in done.err


def test_audit__omits_classes_without_training(folder: Path) -> None:
    assert "unseen" not in run(*of_training(folder), "--json").json["labels"]["Disease"]


# Unusable gold ------------------------------------------------------------------------------------


def lossy(folder: Path, *rows: object) -> tuple[object, ...]:
    """Write gold rows with invalid JSON or damaged text. Return the arguments of their audit."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "lossy.jsonl").write_text("\n".join(lines))
    table = ("--set", f"annotate.table={folder / 'terms.csv'}")
    return (
        "audit",
        folder / "out",
        "--gold",
        folder / "lossy.jsonl",
        "--gold-source",
        "jsonl",
        *table,
    )


def test_audit__rejects_gold_mentions_rejected_by_build(folder: Path) -> None:
    row = {"id": "a", "text": "Asthma and gout.", "entities": [[0, 6, "DIS"], [11, 99, "DIS"]]}
    words = (*lossy(folder, row), "--label", "DIS=Disease")

    done = run(*words)
    accepted = run(*words, "--gold-set", "source.max_loss=1")
    as_json = run(*words, "--gold-set", "source.max_loss=1", "--json").json

    assert (done.code, done.out) == (1, "")
    assert "expected at most 5% of the mentions left out (source.max_loss), got 1 of 2" in done.err
    assert (
        "offsets outside the text; check that the texts are those that were annotated, or --gold-set source.offsets=utf-16"
        in done.err
    )
    assert "--gold-set source.max_loss=1 goes on" in done.err
    assert "--set source" not in done.err.replace("--gold-set", "")
    assert accepted.code == 0
    assert "1 of 2 gold mentions left out: offsets outside the text" in accepted.out
    assert as_json["gold_mentions"] == 2
    assert as_json["gold_left_out"] == {"offsets outside the text": 1}
    assert as_json["labels"]["Disease"]["gold"] == 1


def test_audit__rejects_gold_documents_rejected_by_build(folder: Path) -> None:
    row = {"id": "a", "text": "Asthma.", "entities": [[0, 6, "DIS"]]}
    words = (*lossy(folder, row, '{"zebra', '{"zebra'), "--label", "DIS=Disease")

    done = run(*words)
    accepted = run(*words, "--gold-set", "source.max_loss=1")
    as_json = run(*words, "--gold-set", "source.max_loss=1", "--json").json

    assert (done.code, done.out) == (1, "")
    assert (
        "expected at most 5% of the documents set aside (source.max_loss), got 2 of 3" in done.err
    )
    assert "2: expected a JSON object" in done.err
    assert accepted.code == 0
    assert "1 gold documents, 2 set aside" in accepted.out
    assert "2 of 3 gold documents set aside: expected a JSON object" in accepted.out
    assert "first at lossy.jsonl:2" in accepted.out
    assert [*as_json["set_aside"].values()] == [2]
    assert "zebra" not in f"{done}{accepted}{as_json}"


def test_audit__counts_few_lost_gold_mentions_without_error(folder: Path) -> None:
    good = {
        "id": "a",
        "text": "Asthma " * 30,
        "entities": [[n * 7, n * 7 + 6, "DIS"] for n in range(30)],
    }
    bad = {"id": "b", "text": "Gout.", "entities": [[0, 99, "DIS"]]}

    done = run(*lossy(folder, good, bad), "--label", "DIS=Disease")

    assert done.code == 0, done.err
    assert "1 of 31 gold mentions left out: offsets outside the text" in done.out


def test_audit__counts_gold_mentions_outside_the_comparison(folder: Path) -> None:
    spans = [[0, 6, "DIS"], [0, 3, "DIS"], [11, 15, "SIGN"]]
    row = {"id": "a", "text": "Asthma and gout.", "entities": spans}

    done = run(*lossy(folder, row), "--label", "DIS=Disease", "--json")

    assert done.code == 0, done.err
    assert done.json["gold_mentions"] == 3
    assert done.json["gold_left_out"] == {"inside another": 1, "label not wanted": 1}
    assert done.json["labels"]["Disease"]["gold"] == 1


def test_audit__rejects_gold_without_mentions(folder: Path) -> None:
    words = (*lossy(folder, {"id": "a", "text": "Asthma."}), "--label", "DIS=Disease")

    done = run(*words)

    assert done.code == 1
    assert "expected mentions, found none in the source in 1 documents" in done.err


def test_audit__reports_unselected_records_when_no_gold_document_is_left(folder: Path) -> None:
    notes = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
    chosen = ("--gold-set", "source.categories=['No such']", "--label", "X=Disease")
    table = ("--set", f"annotate.table={folder / 'terms.csv'}")

    done = run("audit", folder / "out", "--gold", notes, "--gold-source", "mimic", *chosen, *table)

    assert done.code == 1
    assert "found no usable documents, of 0 read;" in done.err
    assert " not chosen: " in done.err


def test_audit__rejects_gold_without_usable_documents(folder: Path) -> None:
    words = (*lossy(folder, "{", "{"), "--label", "DIS=Disease")

    done = run(*words, "--gold-set", "source.max_loss=1")

    assert done.code == 1
    assert "found no usable documents, of 2 read" in done.err
    assert "check --gold and" in done.err


# Labels -------------------------------------------------------------------------------------------

SIGN = {"id": "a", "text": "Asthma.", "entities": [[0, 6, "SIGN"]]}


def test_audit__rejects_a_label_without_gold_mentions(folder: Path) -> None:
    done = run(*lossy(folder, SIGN), "--label", "SIHN=Disease", "--label", "SIGN=Treatment")

    assert done.code == 1
    assert "with labels of usable gold mentions ('SIGN'), got SIHN" in done.err


def test_audit__shows_no_gold_labels_that_seem_to_be_texts(folder: Path) -> None:
    rows = [
        {"id": str(n), "text": "Asthma.", "entities": [[0, 6, f"Mr. Miller, {n}"]]}
        for n in range(30)
    ]
    named = ("--gold-set", "annotate.labels=['SIGN']", "--label", "OTHER=Disease")

    done = run(*lossy(folder, *rows), *named)

    assert done.code == 1
    assert "(labels that are not shown, as they seem to be texts (30 in 30 places" in done.err
    assert "Miller" not in done.err


def test_audit__accepts_unused_labels_of_the_gold_pipeline(folder: Path) -> None:
    named = ("--gold-set", "annotate.labels=['SIGN', 'RARE']")
    pairs = ("--label", "SIGN=Disease", "--label", "RARE=Treatment")

    done = run(*lossy(folder, SIGN), *named, *pairs, "--json")

    assert done.code == 0, done.err
    assert {label: of["gold"] for label, of in done.json["labels"].items()} == {
        "Disease": 1,
        "Treatment": 0,
    }
    assert "no mention that is kept has the label 'RARE'" in done.err


def test_audit__applies_labels_after_renaming(folder: Path) -> None:
    words = (*lossy(folder, SIGN), "--gold-set", 'annotate.rename={SIGN="Symptom"}')

    done = run(*words, "--label", "Symptom=Disease", "--json")
    before = run(*words, "--label", "SIGN=Disease")

    assert done.code == 0, done.err
    assert done.json["labels"]["Disease"]["exact"] == 1
    assert before.code == 1
    assert (
        "gold mentions ('Symptom'), got SIGN; the gold pipeline renames SIGN to Symptom"
        in before.err
    )


def test_audit__compares_the_labels_in_common_by_default(folder: Path) -> None:
    spans = [[0, 6, "Disease"], [11, 15, "SIGN"]]
    row = {"id": "a", "text": "Asthma and gout.", "entities": spans}

    done = run(*lossy(folder, row), "--json")
    without = run(*lossy(folder, SIGN))

    assert done.code == 0, done.err
    assert {label: of["gold"] for label, of in done.json["labels"].items()} == {"Disease": 1}
    assert done.json["gold_left_out"] == {"label not wanted": 1}
    assert without.code == 1
    assert "('SIGN'), got none that the folder has (Disease, Treatment)" in without.err


def test_audit__rejects_a_repeated_gold_label(folder: Path) -> None:
    done = run(*lossy(folder, SIGN), "--label", "SIGN=Disease", "--label", "SIGN=Treatment")

    assert done.code == 1
    assert "expected each gold label once in --label GOLD=OURS, got SIGN more than once" in done.err


def test_audit__maps_several_gold_labels_to_one_folder_label(folder: Path) -> None:
    spans = [[0, 6, "SIGN"], [11, 15, "DIS"]]
    row = {"id": "a", "text": "Asthma and gout.", "entities": spans}

    done = run(*lossy(folder, row), "--label", "SIGN=Disease", "--label", "DIS=Disease", "--json")

    assert done.code == 0, done.err
    assert done.json["labels"]["Disease"]["gold"] == 2


def test_audit__rejects_a_pair_without_a_gold_label(folder: Path) -> None:
    done = run(*lossy(folder, SIGN), "--label", "=Disease")

    assert done.code == 1
    assert "got a pair without a label" in done.err


@pytest.mark.parametrize("use", ["gold", "none"])
def test_audit__rejects_a_folder_of_gold_labels(folder: Path, use: str) -> None:
    """A comparison of gold mentions with themselves would score 1."""
    words = gold(folder)
    built = folder / "of_gold"
    run(
        "build", "--source", folder / "gold.toml", "--input", folder / "gold.jsonl",
        "--tokenizer", VOCAB, "--out", built, "--set", f"annotate.use={use}",
    )  # fmt: skip

    done = run(words[0], built, *words[2:])

    assert done.code == 1
    assert f"got annotate.use = '{use}'" in done.err


# The folder's annotator ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        "annotate.case=match",
        "annotate.use=gold",
        'annotate.rename={Disease="Treatment"}',
        "annotate.labels=['Disease']",
        "annotate.annotators.other.table=terms.csv",
        "source.use=text",
        "segment.use=clinical",
        "segment.model=some_pipeline",
        "encode.max_tokens=9",
    ],
)
def test_audit__rejects_options_that_name_no_file(folder: Path, option: str) -> None:
    done = run(*lossy(folder, SIGN), "--label", "SIGN=Disease", "--set", option)

    assert (done.code, done.out) == (1, "")
    assert "--set: expected a file option" in done.err
    assert f"got '{option.partition('=')[0]}'; to audit another option, build" in done.err


def of_context(folder: Path, *options: str) -> tuple[object, ...]:
    """Build notes with options on top of `weak.toml`. Return the arguments of their audit."""
    sets = [word for option in options for word in ("--set", option)]
    made = run(
        "build", "--source", folder / "weak.toml", "--input", folder / "notes.jsonl",
        "--tokenizer", VOCAB, "--out", folder / "context", *sets, "--set",
        f"annotate.table={folder / 'terms.csv'}",
    )  # fmt: skip
    assert made.code == 0, made.err
    row = {"id": "a", "text": "Denies asthma. Has asthma.", "entities": [[19, 25, "Disease"]]}
    audit, _, *others = lossy(folder, row)
    return audit, folder / "context", *others, "--label", "Disease=Disease"


def test_audit__excludes_the_same_contexts_as_the_folder(folder: Path) -> None:
    left_out = ('annotate.leave_out_context=["negated"]', "segment.use=clinical")
    words = of_context(folder, *left_out)

    done = run(*words)
    as_json = run(*words, "--json").json

    assert done.code == 0, done.err
    assert "1 mentions found and left out, as in the folder: context is negated" in done.out
    assert as_json["found_left_out"] == {"context is negated": 1}
    scores = as_json["labels"]["Disease"]
    assert (scores["gold"], scores["found"], scores["exact"]) == (1, 1, 1)


def test_audit__keeps_contexts_when_the_folder_keeps_them(folder: Path) -> None:
    words = of_context(folder, "annotate.context=true", "segment.use=clinical")

    done = run(*words, "--json")

    assert done.code == 0, done.err
    assert done.json["found_left_out"] == {}
    assert done.json["labels"]["Disease"]["found"] == 2


@pytest.mark.long
def test_audit__asks_for_the_sentence_model_when_contexts_are_excluded(folder: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(folder / "nlp")
    sentences = ("segment.use=spacy", f"segment.model={folder / 'nlp'}")
    words = of_context(folder, 'annotate.leave_out_context=["negated"]', *sentences)

    without = run(*words)
    done = run(*words, "--set", sentences[1], "--json")

    assert without.code == 1
    assert "segmenter 'spacy': no model given; set its option model" in without.err
    assert done.code == 0, done.err
    assert done.json["labels"]["Disease"]["found"] == 1


def test_audit__help_shows_a_runnable_example() -> None:
    lines = [line.strip() for line in run("audit", "--help").out.splitlines()]

    first = lines.index("mslm-data audit shards/mimic --set annotate.table=TERMS.csv \\")
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


@pytest.mark.long
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
def test_audit__manual_shows_scores_of_open_concepts(
    pack: str,
    options: list[str],
    audited: list[tuple[str, str, str]],
    real: Path,
    tmp_path: Path,
) -> None:
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
        tmp_path / "t.csv",
        *options,
    )
    assert made.code == 0, made.err
    model = ("--set", f"annotate.table={tmp_path / 't.csv'}")
    built = run(
        "build", "--source", "mimic", "--sample", "--out", tmp_path / "out", "--set", "annotate.use=terms",
        "--set", "annotate.plurals=true", "--set", "annotate.case=short", *model,
    )  # fmt: skip
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


def test_audit__loads_a_pack_by_the_consent_of_its_user_only(tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    from mslm_data.annotate.medcat.pack import digest
    from tests.annotate.medcat_made import make_pack

    pack = make_pack(resources.path("vocab", "sample/concepts.csv"), tmp_path / "pack")
    out = tmp_path / "out"
    model = ("--set", f"annotate.model_pack={pack}")
    consent = ("--set", f"annotate.sha256={digest(pack)}")
    built = run("build", "--source", "mimic", "--sample", "--out", out, *model, *consent)
    gold = (
        "--gold",
        resources.path("vocab", "sample/ncbi-disease"),
        "--gold-source",
        "blurb/ncbi-disease",
    )
    words = ("audit", out, *gold, "--label", "Disease=Disease", *model)

    refused = run(*words)
    audited = run(*words, *consent)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["pipeline"]["annotate"]["options"]["sha256"] = digest(pack)
    (out / "manifest.json").write_text(json.dumps(manifest))
    forged = run(*words)

    assert (built.code, audited.code) == (0, 0), built.err + audited.err
    assert (refused.code, forged.code) == (1, 1)
    assert f"--set annotate.sha256={digest(pack)}" in refused.err
    assert "expected no sha256: it consents" in forged.err
