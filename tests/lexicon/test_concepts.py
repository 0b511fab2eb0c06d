"""`mslm-data vocab concepts`: tables of terms from tables and ontologies."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document
from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import concept_tables, obo, rrf
from mslm_data.lexicon.concepts.making import ConceptFile, ConceptReport, make_table, parse_input
from mslm_data.lexicon.concepts.names import NameChoice, NameTally, clean
from tests import made
from tests.cli.running import run

FOLDER = Path(__file__).parent / "concepts"
"""Ontologies, UMLS's two files, and `cases.json`.

`read` of it has what a reader finds in a file of the folder, or in a text: concept, name, status,
types and source. `tables` have the rows of a table and those that are kept of it.
"""
CASES = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
ONTOLOGY = FOLDER / "x.obo"
OBO = ONTOLOGY.read_text(encoding="utf-8")
MRCONSO = (FOLDER / "MRCONSO.RRF").read_text(encoding="utf-8")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def umls(folder: Path, more: str = "") -> Path:
    write(folder / "MRSTY.RRF", (FOLDER / "MRSTY.RRF").read_text(encoding="utf-8"))
    return write(folder / "MRCONSO.RRF", f"{MRCONSO}\n{more}" if more else MRCONSO)


def make(inputs: list[ConceptFile], out: Path, **choice: Any) -> ConceptReport:
    """Make a table, and check that each name is kept or left out for a reason."""
    report = make_table(inputs, out, choice=NameChoice(**choice))
    assert report.read == report.kept + sum(report.left_out.values())
    return report


def concepts_in(table: Path, text: str) -> list[tuple[str, str]]:
    loaded = Terms(table=str(table)).start()
    (found,) = made.annotated(loaded, [Document(id="", text=text)])
    return [(text[span.start : span.end], span.concept) for span in found.spans]


def rows(table: Path) -> list[str]:
    return table.read_text(encoding="utf-8").splitlines()


# Readers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", CASES["read"])
def test_read__gives_names(what: str, tmp_path: Path) -> None:
    case = CASES["read"][what]
    path = FOLDER / case["file"]
    if "text" in case:
        path = write(tmp_path / path.name, "".join(case["text"]))
    read = {".obo": obo.read, ".RRF": rrf.read}.get(path.suffix, concept_tables.read)
    tally = NameTally()

    names = list(read(path, ("T047",), NameChoice(), tally))

    assert [[*n[:3], "|".join(n.types), n.source] for n in names] == case["names"]
    assert +tally.left_out == case["left_out"]


def test_obo__uses_a_cross_reference_as_id() -> None:
    choice = NameChoice(xref="UMLS_CUI")

    names = obo.read(ONTOLOGY, ("T047",), choice, NameTally())

    assert [(name.concept, name.source) for name in names][::4] == [
        ("C9000001", "UMLS_CUI"),
        ("X:3", "X"),
    ]


@pytest.mark.parametrize("default", [(), ("T047",), ("T184",)])
def test_rrf__uses_the_given_type_only_for_concepts_without_one(
    tmp_path: Path, default: tuple[str, ...]
) -> None:
    path = umls(tmp_path, "C9000009|ENG|P|L9|PF|S9|Y|A9||||MSH|MH|D9|green fever|0|N|256|\n")
    tally = NameTally()

    names = rrf.read(path, default, NameChoice(types=frozenset({"T047"})), tally)

    expected = ["C9000001", "C9000003"]
    assert sorted({name.concept for name in names}) == [
        *expected, *(["C9000009"] if default == ("T047",) else [])
    ]  # fmt: skip
    # The molecule has a type in the table, so the given type does not apply.
    assert tally.left_out["other semantic type"] == (1 if default == ("T047",) else 2)


def test_clean__drops_snomeds_tag_and_medcats_separator() -> None:
    assert clean("fever | red  (finding)") == "fever red"
    assert clean("leukemia (acute)") == "leukemia (acute)"


def test_parse_input__reads_types_after_the_last_equals_sign(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "cui,name\n")

    assert parse_input("a=b/x.obo=T047,T191") == ConceptFile(Path("a=b/x.obo"), ("T047", "T191"))
    assert parse_input("a=b/x.obo") == ConceptFile(Path("a=b/x.obo"))
    with pytest.raises(AnnotateError, match=r"--from: expected semantic types .* got 'T47'"):
        parse_input(f"{path}=T47")


# Tables -------------------------------------------------------------------------------------------


def test_make_table__merges_inputs(tmp_path: Path) -> None:
    drugs = write(tmp_path / "drugs.csv", "id,name,synonyms\nD1,aspirin,red fever\n")
    inputs = [
        ConceptFile(FOLDER),
        ConceptFile(ONTOLOGY, ("T047",)),
        ConceptFile(drugs, ("T121",)),
    ]

    report = make(inputs, tmp_path / "t.csv", xref="UMLS_CUI")

    assert report.left_out == {
        "fewer than two letters": 1, "name of another concept": 1, "no label for its semantic types": 1,
        "obsolete term": 2, "other language": 1, "same name again": 3, "suppressed": 1,
    }  # fmt: skip
    assert report.types == {"T047": 2, "T121": 1, "T184": 1}
    assert rows(tmp_path / "t.csv") == [
        "name,label,cui,type_ids",
        '"""Red"" fever",Disease,C9000001,T047|T184',
        '"fever, red",Disease,C9000001,T047|T184',
        "NA,Disease,C9000003,T047",
        "red fever,Disease,C9000001,T047|T184",
        "RF-1,Disease,C9000001,T047|T184",
        "aspirin,Treatment,D1,T121",
    ]
    assert concepts_in(tmp_path / "t.csv", "red fever, RF-1 and aspirin for Fever, Red") == [
        ("red fever", "C9000001"), ("RF-1", "C9000001"), ("aspirin", "D1"), ("Fever, Red", "C9000001"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", CASES["tables"])
def test_make_table__keeps_each_name_once(case: dict[str, Any], tmp_path: Path) -> None:
    lines = ["cui,name,name_status,type_ids", *case["rows"], ""]
    path = write(tmp_path / "c.csv", "\n".join(lines))

    report = make([ConceptFile(path)], tmp_path / "t.csv")

    assert rows(tmp_path / "t.csv")[1:] == case["kept"]
    assert report.left_out == case["left_out"]
    assert report.kept == len(case["kept"])


def test_make_table__uses_a_table_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "cui,name,type_ids\nC1,gene one,T028\n")
    labels = write(
        tmp_path / "l.toml", 'labels = ["Gene"]\n[[type]]\ntui = "T028"\nlabel = "Gene"\n'
    )

    make_table([ConceptFile(path)], tmp_path / "t.csv", choice=NameChoice(), labels=str(labels))

    assert rows(tmp_path / "t.csv")[1:] == ["gene one,Gene,C1,T028"]
    with pytest.raises(AnnotateError, match=r"1 no label for its semantic types\); --labels names"):
        make([ConceptFile(path)], tmp_path / "u.csv")


def test_make_table__keeps_chosen_types_and_sources(tmp_path: Path) -> None:
    choice = {"types": frozenset({"T047"}), "sources": frozenset({"MSH"})}

    report = make([ConceptFile(FOLDER)], tmp_path / "t.csv", **choice)

    assert report.left_out == {
        "other language": 1, "other semantic type": 1, "other source": 1, "suppressed": 1,
    }  # fmt: skip
    assert (report.concepts, report.kept) == (2, 3)


def test_make_table__reads_gzipped_files(tmp_path: Path) -> None:
    (tmp_path / "x.obo.gz").write_bytes(gzip.compress(OBO.encode()))

    assert make([ConceptFile(tmp_path / "x.obo.gz", ("T047",))], tmp_path / "t.csv").kept == 3


UNCLOSED = 'C1,"heart failure"\nC2,"asthma\nC3,cough\nC4,fever\n'
TYPED = "x.obo=T047"
REFUSED: list[tuple[dict[str, str], str, dict[str, frozenset[str]], str]] = [
    ({}, "none.obo", {}, "no such file, nor a folder with MRCONSO"),
    ({"x.owl": ""}, "x.owl", {}, r"expected a file ending in \.obo"),
    ({"x.obo": OBO}, "x.obo", {}, r"concept X:1 has no semantic types; .* --from .*x\.obo=T047"),
    ({"x.obo": "[Term]\nname: fever\n"}, TYPED, {}, r"x\.obo:1: the term has no id"),
    ({"x.obo": OBO}, "x.obo=T999", {}, r"--from: no names are kept \(1 fewer than two letters, 3 "),
    ({"x.obo": OBO}, TYPED, {"types": frozenset({"T1"})}, "--from: no names of T1; correct --types"),
    (
        {},
        str(FOLDER),
        {"types": frozenset({"T047"}), "sources": frozenset({"MSH", "NOPE", "ALSO"})},
        "no names of ALSO, NOPE; correct --types or --source",
    ),
    ({"MRCONSO.RRF": MRCONSO}, "MRCONSO.RRF", {}, r"MRSTY\.RRF, which .*, is not beside it"),
    (
        {"MRCONSO.RRF": f"{MRCONSO}\nC1|ENG|P|\n", "MRSTY.RRF": ""},
        "MRCONSO.RRF=T047",
        {},
        r"MRCONSO\.RRF:8: expected 18 fields, each ended by '\|', got 4",
    ),
    ({"x.csv": "a,b\n1,2\n"}, "x.csv", {}, r"table with the columns cui and name .*, got a, b$"),
    ({"c.csv": f"cui,name\n{UNCLOSED}"}, "c.csv=T047", {}, r"c\.csv:3: expected a row of a table"),
    ({"c.csv": f"id,name\n{UNCLOSED}"}, "c.csv=T047", {}, r"c\.csv:3: expected a row of a table"),
    ({"c.tsv": f"id,name\n{UNCLOSED}".replace(",", "\t")}, "c.tsv=T047", {}, r"c\.tsv:3: expected"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "source", "choice", "message"), REFUSED)
def test_make_table__refuses_wrong_inputs(
    files: dict[str, str],
    source: str,
    choice: dict[str, frozenset[str]],
    message: str,
    tmp_path: Path,
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)

    with pytest.raises(AnnotateError, match=message):
        make([parse_input(str(tmp_path / source))], tmp_path / "t.csv", **choice)

    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [("there.csv", "the file exists"), ("t.tsv", r"t\.tsv: expected a file ending in \.csv")],
)
def test_make_table__refuses_a_wrong_output(out: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.csv").mkdir()

    with pytest.raises(AnnotateError, match=message):
        make([ConceptFile(ONTOLOGY, ("T047",))], tmp_path / out)


def test_command__prints_counts(tmp_path: Path) -> None:
    done = run("vocab", "concepts", "--from", f"{ONTOLOGY}=T047", "--out", tmp_path / "a.csv")

    assert done.code == 0
    assert "left out: obsolete term" in done.out


# Real files ---------------------------------------------------------------------------------------


def test_disease_ontology__has_well_known_names(real: Path) -> None:
    path = real / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"

    names = list(obo.read(path, ("T047",), NameChoice(), NameTally()))
    by_cui = {
        name.concept for name in obo.read(path, ("T047",), NameChoice(xref="UMLS_CUI"), NameTally())
    }

    assert len(names) == 19_927
    assert len({name.concept for name in names}) == 6_874
    assert len({name.concept for name in names if name.status == "P"}) == 6_874
    # 5,771 terms have a CUI. Some share it.
    assert len([concept for concept in by_cui if concept.startswith("DOID:")]) == 6_874 - 5_771


@pytest.mark.long
def test_real_inputs__become_one_table(real: Path, tmp_path: Path) -> None:
    concepts = real / "concepts"
    inputs = [
        ConceptFile(concepts / "disease_ontology" / "doid_2016-03-04.obo", ("T047",)),
        ConceptFile(concepts / "symptom_ontology" / "symp.obo", ("T184",)),
        ConceptFile(concepts / "drugbank_open" / "drugbank_vocabulary.csv", ("T121",)),
        ConceptFile(concepts / "umls_rrf_fixture"),
        ConceptFile(concepts / "medcat_examples" / "umls_sample.csv"),
        ConceptFile(concepts / "medcat_examples" / "cdb_advanced.csv"),
        ConceptFile(concepts / "medcat_examples" / "cdb_simple.csv", ("T047",)),
    ]

    report = make(inputs, tmp_path / "t.csv", xref="UMLS_CUI")

    assert report.types["T121"] > 13_000
    assert report.types["T184"] > 800
    found = concepts_in(tmp_path / "t.csv", "Fever and chest pain in asthma: lepirudin for NSCLC.")
    assert [name for name, _ in found] == ["Fever", "chest pain", "asthma", "lepirudin", "NSCLC"]
