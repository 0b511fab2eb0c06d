"""`mslm-data audit`: which gold labels it compares, what it counts, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from mslm_data.io import resources
from tests.cli.running import Done, run

VOCAB = resources.path("vocab", "sample/vocab.txt")


class Audit(Protocol):
    """Audits a folder with gold rows: objects, or lines that need not be JSON."""

    def __call__(
        self, rows: Sequence[object], *options: object, folder: Path | None = None
    ) -> Done: ...


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weak labels in `out`, and its term table."""
    root = tmp_path_factory.mktemp("audit")
    (root / "terms.csv").write_text(
        "name,label\nheart failure,Disease\nasthma,Disease\naspirin,Treatment\n"
    )
    (root / "notes.jsonl").write_text(json.dumps({"text": "No heart failure. Aspirin was given."}))
    (root / "weak.toml").write_text(
        '[source]\nuse = "jsonl"\n[annotate]\nuse = "terms"\nlabels = ["Disease", "Treatment"]\n'
    )
    build_weak(root, root / "out")
    return root


def build_weak(root: Path, out: Path, *sets: str) -> None:
    options = [word for text in sets for word in ("--set", text)]
    done = run(
        "build", "--source", root / "weak.toml", "--input", root / "notes.jsonl", "--tokenizer",
        VOCAB, "--out", out, "--set", f"annotate.table={root / 'terms.csv'}", *options,
    )  # fmt: skip
    assert done.code == 0, done.err


@pytest.fixture
def audit(built: Path, tmp_path: Path) -> Audit:
    def call(rows: Sequence[object], *options: object, folder: Path | None = None) -> Done:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (tmp_path / "gold.jsonl").write_text("\n".join(lines))
        return run(
            "audit", folder or built / "out", "--gold", tmp_path / "gold.jsonl", "--gold-source",
            "jsonl", "--set", f"annotate.table={built / 'terms.csv'}", *options,
        )  # fmt: skip

    return call


def row(text: str, *entities: object) -> dict[str, Any]:
    return {"id": "a", "text": text, "entities": entities}


# Compared labels ----------------------------------------------------------------------------------

SIGN = row("Asthma.", [0, 6, "SIGN"])
TWO = "Asthma and gout."
MANY = row("Asthma " * 30, *([n * 7, n * 7 + 6, "DIS"] for n in range(30)))
COMPARED: list[tuple[list[object], list[str], dict[str, int], dict[str, int]]] = [
    # Lost mentions below source.max_loss.
    ([MANY, row("Gout.", [0, 99, "DIS"]) | {"id": "b"}], ["--label", "DIS=Disease"],
     {"Disease": 30}, {"offsets outside the text": 1}),
    ([row(TWO, [0, 6, "DIS"], [0, 3, "DIS"], [11, 15, "SIGN"])], ["--label", "DIS=Disease"],
     {"Disease": 1}, {"inside another": 1, "label not wanted": 1}),
    # A label of the gold pipeline without mentions.
    ([SIGN], ["--gold-set", "annotate.labels=['SIGN', 'RARE']", "--label", "SIGN=Disease",
              "--label", "RARE=Treatment"], {"Disease": 1, "Treatment": 0}, {}),
    ([SIGN], ["--gold-set", 'annotate.rename={SIGN="Symptom"}', "--label", "Symptom=Disease"],
     {"Disease": 1}, {}),
    # Without --label, the labels in common.
    ([row(TWO, [0, 6, "Disease"], [11, 15, "SIGN"])], [],
     {"Disease": 1}, {"label not wanted": 1}),
    ([row(TWO, [0, 6, "Disease"], [11, 15, "SIGN"])],
     ["--gold-set", "annotate.labels=['Disease', 'SIGN', 'RARE']"],
     {"Disease": 1}, {"label not wanted": 1}),
    ([row(TWO, [0, 6, "SIGN"], [11, 15, "DIS"])],
     ["--label", "SIGN=Disease", "--label", "DIS=Disease"], {"Disease": 2}, {}),
]  # fmt: skip
"""Gold rows, options, number of gold mentions by label, and of those left out by reason."""


@pytest.mark.parametrize(("rows", "options", "labels", "left_out"), COMPARED)
def test_audit__compares_the_chosen_labels(
    audit: Audit,
    rows: list[object],
    options: list[str],
    labels: dict[str, int],
    left_out: dict[str, int],
) -> None:
    done = audit(rows, *options, "--json")

    assert done.code == 0, done.err
    assert {label: scores["gold"] for label, scores in done.json["labels"].items()} == labels
    assert done.json["gold_left_out"] == left_out


def test_audit__prints_tables_and_losses(audit: Audit) -> None:
    rows = [row("Asthma and gout.", [0, 6, "DIS"], [11, 99, "DIS"]), '{"zebra', '{"zebra']

    done = audit(rows, "--label", "DIS=Disease", "--gold-set", "source.max_loss=1")

    assert done.code == 0, done.err
    assert "1 gold documents, 2 set aside" in done.out
    assert "Disease  overlap" in done.out
    assert "2 of 3 gold documents set aside: expected a JSON object" in done.out
    assert "first at gold.jsonl:2" in done.out
    assert "1 of 2 gold mentions left out: offsets outside the text" in done.out
    assert "zebra" not in f"{done}"


# Training -----------------------------------------------------------------------------------------


def mention(start: int, end: int, concept: str = "") -> dict[str, object]:
    return {"start": start, "end": end, "label": "Disease", "concept": concept}


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """Training mentions: in the folder `gold`, whose tokens have no case, and the table `names.csv`."""
    rows = {
        "train": [
            row("Asthma came.", mention(0, 6, "D1")),
            row("Weak heart.", mention(0, 10, "D2+D3")),
            row("sjogren Disease.", mention(0, 15)),
        ],
        "test": [row("Heart failure.", mention(0, 13))],
    }
    (tmp_path / "rows").mkdir()
    for split, documents in rows.items():
        lines = [json.dumps(of | {"id": f"{split}{n}"}) for n, of in enumerate(documents)]
        (tmp_path / f"rows/{split}.jsonl").write_text("\n".join(lines))
    done = run(
        "build", "--source", "jsonl", "--input", tmp_path / "rows", "--tokenizer", VOCAB, "--out",
        tmp_path / "gold", "--set", "encode.lowercase=true", "--set", "annotate.weak=true",
    )  # fmt: skip
    assert done.code == 0, done.err
    (tmp_path / "names.csv").write_text("name,label,concept\nsick heart,X,D9\n")
    return tmp_path


@pytest.mark.parametrize(
    ("trains", "concept", "expected"),
    [
        (["gold"], "D2|D9", {"memorised": (2, 1), "synonym": (1, 0), "new": (1, 1)}),
        (["gold"], "", {"memorised": (2, 1), "new": (2, 1)}),
        (
            ["gold", "gold/test", "names.csv"],
            "D9",
            {"memorised": (3, 2), "synonym": (1, 0), "new": (0, 0)},
        ),
        ([], "", None),
    ],
)
def test_audit__reports_recall_by_class_of_the_training_data(
    audit: Audit,
    training: Path,
    trains: list[str],
    concept: str,
    expected: dict[str, tuple[int, int]] | None,
) -> None:
    text = "ASTHMA, cardiac insufficiency, heart failure and Sjögren disease."
    gold = row(text, mention(0, 6), mention(8, 29, concept), mention(31, 44), mention(49, 64))
    words = [word for name in trains for word in ("--train", training / name)]

    done = audit([gold], *words, "--json")

    assert done.code == 0, done.err
    classes = done.json["labels"]["Disease"].get("unseen")
    counts = classes and {
        name: (scores["gold"], scores["exact_hits"]) for name, scores in classes.items()
    }
    assert counts == expected


# The folder's annotator ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "found", "left_out"),
    [
        ('annotate.leave_out_context=["negated"]', 1, {"context is negated": 1}),
        ("annotate.context=true", 2, {}),
    ],
)
def test_audit__excludes_the_same_contexts_as_the_folder(
    audit: Audit, built: Path, tmp_path: Path, option: str, found: int, left_out: dict[str, int]
) -> None:
    build_weak(built, tmp_path / "context", option, "segment.use=clinical")
    gold = row("Denies asthma. Has asthma.", [19, 25, "Disease"])

    done = audit([gold], "--json", folder=tmp_path / "context")

    assert done.code == 0, done.err
    assert done.json["found_left_out"] == left_out
    assert done.json["labels"]["Disease"]["found"] == found


@pytest.mark.long
def test_audit__asks_for_the_sentence_model_when_contexts_are_excluded(
    audit: Audit, built: Path, tmp_path: Path
) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "nlp")
    model = f"segment.model={tmp_path / 'nlp'}"
    context = 'annotate.leave_out_context=["negated"]'
    build_weak(built, tmp_path / "context", context, "segment.use=spacy", model)
    gold = row("Denies asthma. Has asthma.", [19, 25, "Disease"])

    without = audit([gold], folder=tmp_path / "context")
    done = audit([gold], "--set", model, "--json", folder=tmp_path / "context")

    assert without.code == 1
    assert "segmenter 'spacy': no model given; set its option model" in without.err
    assert done.json["labels"]["Disease"]["found"] == 1


def test_audit__loads_a_pack_by_the_consent_of_its_user_only(tmp_path: Path) -> None:
    """The same holds for the build, which leaves nothing and does not record the consent."""
    pytest.importorskip("medcat")
    from mslm_data.annotate.medcat.pack import digest
    from tests.annotate.medcat_made import make_pack

    pack = make_pack(resources.path("vocab", "sample/concepts.csv"), tmp_path / "pack")
    gold = resources.path("vocab", "sample/ncbi-disease")
    out = tmp_path / "out"
    model = ("--set", f"annotate.model_pack={pack}")
    consent = ("--set", f"annotate.sha256={digest(pack)}")
    build = ("build", "--source", "mimic", "--sample", "--out", out, *model)
    audit = ("audit", out, "--gold", gold, "--gold-source", "blurb/ncbi-disease", *model)

    not_built = run(*build)
    left = out.exists()
    built = run(*build, *consent)
    manifest = json.loads((out / "manifest.json").read_text())
    refused = run(*audit)
    audited = run(*audit, *consent)
    is_recorded = digest(pack) in json.dumps(manifest)
    manifest["pipeline"]["annotate"]["options"]["sha256"] = digest(pack)
    (out / "manifest.json").write_text(json.dumps(manifest))
    forged = run(*audit)

    assert (built.code, audited.code) == (0, 0), built.err + audited.err
    assert (not_built.code, refused.code, forged.code) == (1, 1, 1)
    assert f"--set annotate.sha256={digest(pack)}" in not_built.err
    assert f"--set annotate.sha256={digest(pack)}" in refused.err
    assert "expected no sha256: it consents" in forged.err
    assert not left
    assert not is_recorded


# Refusals -----------------------------------------------------------------------------------------

OUTSIDE = [row(TWO, [0, 6, "DIS"], [11, 99, "DIS"])]
NO_FILES = [
    "annotate.case=match",
    "annotate.use=gold",
    'annotate.rename={Disease="Treatment"}',
    "annotate.labels=['Disease']",
    "annotate.annotators.other.table=terms.csv",
    "source.use=text",
    "segment.use=clinical",
    "segment.model=some_pipeline",
    "encode.max_tokens=9",
]
"""Options that `--set` of an audit does not take."""
REFUSED = [
    ([SIGN], [], "gold mentions ('SIGN'), got none that the folder has (Disease, Treatment)"),
    ([SIGN], ["--label", "SIGN=Diseas"], "(Disease, Treatment), got Diseas"),
    ([SIGN], ["--label", "SIHN=Disease", "--label", "SIGN=Treatment"],
     "with labels of usable gold mentions ('SIGN'), got SIHN"),
    ([SIGN], ["--gold-set", 'annotate.rename={SIGN="Symptom"}', "--label", "SIGN=Disease"],
     "gold mentions ('Symptom'), got SIGN; the gold pipeline renames SIGN to Symptom"),
    ([SIGN], ["--label", "SIGN=Disease", "--label", "SIGN=Treatment"],
     "expected each gold label once in --label GOLD=OURS, got SIGN more than once"),
    ([SIGN], ["--label", "=Disease"], "(Disease, Treatment), got a pair without a label"),
    ([SIGN], ["--label", "SIGN=Disease", "--label", "Disease"], "got a pair without a label"),
    ([row("Asthma.")], ["--label", "DIS=Disease"],
     "expected mentions, found none in the source in 1 documents"),
    (["{", "{"], ["--label", "DIS=Disease", "--gold-set", "source.max_loss=1"],
     "found no usable documents, of 2 read; check --gold and"),
    (OUTSIDE, ["--label", "DIS=Disease"],
     "expected at most 5% of the mentions left out (source.max_loss), got 1 of 2"),
    (OUTSIDE, ["--label", "DIS=Disease"], "or --gold-set source.offsets=utf-16"),
    (OUTSIDE, ["--label", "DIS=Disease"], "--gold-set source.max_loss=1 goes on"),
    ([row("Asthma.", [0, 6, "DIS"]), "{"], ["--label", "DIS=Disease"],
     "expected at most 5% of the documents set aside (source.max_loss), got 1 of 2"),
    ([SIGN], ["--label", "SIGN=Disease", "--set", "annotate.table={here}/other.csv"],
     "expected the model that made the folder"),
    ([SIGN], ["--label", "SIGN=Disease", "--train", "{here}/empty"], "{here}/empty"),
    ([row("Asthma.", [0, 6, f"Mr. Miller, {n}"]) | {"id": f"{n}"} for n in range(30)],
     ["--gold-set", "annotate.labels=['SIGN']", "--label", "OTHER=Disease"],
     "(labels that are not shown, as they seem to be texts (30 in 30 places"),
    *(
        ([SIGN], ["--label", "SIGN=Disease", "--set", option],
         f"got '{option.partition('=')[0]}'; to audit another option, build")
        for option in NO_FILES
    ),
]  # fmt: skip
"""Gold rows, options, and a part of the message."""


@pytest.mark.parametrize(("rows", "options", "message"), REFUSED)
def test_audit__rejects_wrong_labels_gold_and_options(
    audit: Audit, tmp_path: Path, rows: list[object], options: list[str], message: str
) -> None:
    (tmp_path / "other.csv").write_text("name,label\ngout,Disease\n")
    (tmp_path / "empty").mkdir()
    here = str(tmp_path)

    done = audit(rows, *(word.replace("{here}", here) for word in options))

    assert (done.code, done.out) == (1, "")
    assert message.replace("{here}", here) in done.err
    assert "Miller" not in done.err


def test_audit__counts_records_that_the_gold_source_does_not_choose(built: Path) -> None:
    """With `--gold-set`: of some patients, and of a category that no note has."""
    notes = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
    words = ("audit", built / "out", "--gold", notes, "--gold-source", "mimic", "--set",
             f"annotate.table={built / 'terms.csv'}", "--gold-set")  # fmt: skip

    some = run(*words, "source.patients=4", "--gold-set", "annotate.labels=['Disease']",
               "--gold-set", "annotate.use=none", "--json")  # fmt: skip
    none = run(*words, "source.categories=['No such']", "--label", "X=Disease")

    assert some.code == 0, some.err
    assert 0 < some.json["documents"] + sum(some.json["set_aside"].values()) < 40
    assert none.code == 1
    assert "found no usable documents, of 0 read;" in none.err
    assert " not chosen: " in none.err
