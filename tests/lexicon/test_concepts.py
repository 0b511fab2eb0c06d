"""`mslm-data vocab concepts`: tables of terms from tables and ontologies."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document
from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import concept_tables, obo, rrf
from mslm_data.lexicon.concepts.making import ConceptFile, ConceptReport, make_table, parse_input
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally, clean
from tests import made
from tests.cli.running import run

OBO = r"""format-version: 1.2
ontology: made

[Term]
id: X:1
name: red fever {comment="trailing"} ! note
def: "A fever: \"red\"." []
synonym: "fever\, red" EXACT []
synonym: "RF-1" RELATED [Y:2]
synonym: "Red fever (disorder)" EXACT []
xref: UMLS_CUI:C9000001
xref: UMLS_CUI:C9000002

[Typedef]
id: part_of
name: part of

[Term]
id: X:2
name: blue fever
synonym: "bf" EXACT []
is_obsolete: true

[Term]
id: X:3
name: 3
"""

MRCONSO = """\
C9000001|ENG|P|L1|PF|S1|Y|A1||||MSH|PEP|D1|"Red" fever|0|N||
C9000001|ENG|S|L2|PF|S2|N|A2||||SNOMEDCT_US|ET|D1|fever, red|0|N|256|
C9000001|GER|P|L3|PF|S3|Y|A3||||MSHGER|ET|D1|Rotes Fieber|0|N|256|
C9000001|ENG|S|L4|PF|S4|Y|A4||||MSH|ET|D1|red fever old|0|O|256|
C9000001|ENG|S|L5|VO|S5|Y|A5||||MSH|ET|D1|FEVER, RED|0|N|256|
C9000002|ENG|P|L6|PF|S6|Y|A6||||MSH|MH|D2|blue molecule|0|N|256|
C9000003|ENG|P|L7|PF|S7|Y|A7||||MSH|MH|D3|NA|0|N|256|"""
MRSTY = """\
C9000001|T047|B2.2.1.2.1|Disease or Syndrome|AT1|256|
C9000001|T184|A2.2.2|Sign or Symptom|AT2||
C9000002|T109|A1.4.1.2.1|Organic Chemical|AT3|256|
C9000003|T047|B2.2.1.2.1|Disease or Syndrome|AT4|256|"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def umls(folder: Path) -> Path:
    write(folder / "MRSTY.RRF", MRSTY)
    return write(folder / "MRCONSO.RRF", MRCONSO)


def balanced(report: ConceptReport) -> bool:
    return report.read == report.kept + sum(report.left_out.values())


def concepts_in(table: Path, text: str) -> list[tuple[str, str]]:
    loaded = Terms(table=str(table)).start()
    (found,) = made.annotated(loaded, [Document(id="", text=text)])
    return [(text[span.start : span.end], span.concept) for span in found.spans]


def rows(table: Path) -> list[str]:
    return table.read_text(encoding="utf-8").splitlines()


def test_obo__gives_names_and_synonyms(tmp_path: Path) -> None:
    tally = NameTally()

    names = list(obo.read(write(tmp_path / "x.obo", OBO), ("T047",), NameChoice(), tally))

    assert names == [
        Name("X:1", "red fever", "P", ("T047",), "X"),
        Name("X:1", "fever, red", "A", ("T047",), "X"),
        Name("X:1", "RF-1", "A", ("T047",), "X"),
        Name("X:1", "Red fever (disorder)", "A", ("T047",), "X"),
        Name("X:3", "3", "P", ("T047",), "X"),
    ]
    assert tally.left_out == {"obsolete term": 2}


def test_obo__uses_a_cross_reference_as_id(tmp_path: Path) -> None:
    names = obo.read(
        write(tmp_path / "x.obo", OBO), ("T047",), NameChoice(xref="UMLS_CUI"), NameTally()
    )

    assert [(name.concept, name.source) for name in names][::4] == [
        ("C9000001", "UMLS_CUI"),
        ("X:3", "X"),
    ]


def test_obo__refuses_a_term_without_an_id(tmp_path: Path) -> None:
    path = write(tmp_path / "x.obo", "[Term]\nname: fever\n")

    with pytest.raises(AnnotateError, match=r"x\.obo:1: the term has no id"):
        list(obo.read(path, (), NameChoice(), NameTally()))


@pytest.mark.parametrize("name", ["c.csv", "c.tsv"])
@pytest.mark.parametrize("header", ["cui,name", "id,name"])
def test_tables__refuse_an_unclosed_quote(tmp_path: Path, name: str, header: str) -> None:
    text = f'{header}\nC1,"heart failure"\nC2,"asthma\nC3,cough\nC4,fever\n'
    path = write(tmp_path / name, text.replace(",", "\t") if name.endswith(".tsv") else text)

    with pytest.raises(AnnotateError, match=r"c\.[ct]sv:3: expected a row of a table"):
        list(concept_tables.read(path, ("T047",), NameChoice(), NameTally()))


@pytest.mark.parametrize("header", ["cui,name", "id,name"])
def test_tables__exclude_names_without_a_concept(tmp_path: Path, header: str) -> None:
    tally = NameTally()
    path = write(tmp_path / "c.csv", f"{header}\n,heart failure\nC2,asthma\n")

    names = list(concept_tables.read(path, ("T047",), NameChoice(), tally))

    assert [(name.concept, name.name) for name in names] == [("C2", "asthma")]
    assert tally.left_out == {"no concept id": 1}


@pytest.mark.parametrize("header", ["cui,name", "id,name"])
def test_tables__count_rows_without_a_name(tmp_path: Path, header: str) -> None:
    tally = NameTally()
    path = write(tmp_path / "c.csv", f"{header}\nC1,\nC2,asthma\n,\n")

    names = list(concept_tables.read(path, ("T047",), NameChoice(), tally))

    assert [(name.concept, name.name) for name in names] == [("C2", "asthma")]
    assert +tally.left_out == {"row without a name": 2}


def test_obo__counts_malformed_lines(tmp_path: Path) -> None:
    tally = NameTally()
    text = "[Term]\nid: X:1\nname: gout\nsynonym: podagra EXACT []\n\n[Term]\nid: X:2\n"

    names = list(obo.read(write(tmp_path / "x.obo", text), ("T047",), NameChoice(), tally))

    assert [name.name for name in names] == ["gout"]
    assert tally.left_out == {"synonym without quotes": 1, "term without a name": 1}


def test_rrf__reads_one_language_without_suppressed_rows(tmp_path: Path) -> None:
    tally = NameTally()

    names = list(rrf.read(umls(tmp_path), (), NameChoice(), tally))

    assert names == [
        Name("C9000001", '"Red" fever', "P", ("T047", "T184"), "MSH"),
        Name("C9000001", "fever, red", "A", ("T047", "T184"), "SNOMEDCT_US"),
        Name("C9000001", "FEVER, RED", "A", ("T047", "T184"), "MSH"),
        Name("C9000002", "blue molecule", "P", ("T109",), "MSH"),
        Name("C9000003", "NA", "P", ("T047",), "MSH"),
    ]
    assert tally.left_out == {"other language": 1, "suppressed": 1}


@pytest.mark.parametrize("default", [(), ("T047",), ("T184",)])
def test_rrf__uses_the_given_type_only_for_concepts_without_one(
    tmp_path: Path, default: tuple[str, ...]
) -> None:
    path = umls(tmp_path)
    without = "C9000009|ENG|P|L9|PF|S9|Y|A9||||MSH|MH|D9|green fever|0|N|256|"
    path.write_text(f"{MRCONSO}\n{without}\n")
    tally = NameTally()

    names = rrf.read(path, default, NameChoice(types=frozenset({"T047"})), tally)

    expected = ["C9000001", "C9000003"]
    assert sorted({name.concept for name in names}) == [
        *expected, *(["C9000009"] if default == ("T047",) else [])
    ]  # fmt: skip
    # The molecule has a type in the table, so the given type does not apply.
    assert tally.left_out["other semantic type"] == (1 if default == ("T047",) else 2)


def test_rrf__refuses_other_files(tmp_path: Path) -> None:
    alone = write(tmp_path / "a" / "MRCONSO.RRF", MRCONSO)
    short = umls(tmp_path / "b")
    short.write_text(f"{MRCONSO}\nC1|ENG|P|\n")

    with pytest.raises(
        AnnotateError, match=r"MRSTY\.RRF, which holds the semantic types, is not beside it"
    ):
        list(rrf.read(alone, (), NameChoice(), NameTally()))
    with pytest.raises(
        AnnotateError, match=r"MRCONSO\.RRF:8: expected 18 fields, each ended by '\|', got 4"
    ):
        list(rrf.read(short, (), NameChoice(), NameTally()))


def test_tables__medcats_layout(tmp_path: Path) -> None:
    table = "name_status,CUI,name,type_ids\nP,c1,Kidney Failure,t047\n,C1,Failure of Kidneys| KF |,\nN,C2,NA,\n,,x,\n"
    tally = NameTally()

    names = list(
        concept_tables.read(write(tmp_path / "x.csv", table), ("T184",), NameChoice(), tally)
    )

    assert names == [
        Name("C1", "Kidney Failure", "P", ("T047",), ""), Name("C1", "Failure of Kidneys", "A", ("T047",), ""),
        Name("C1", "KF", "A", ("T047",), ""), Name("C2", "NA", "N", ("T184",), ""),
    ]  # fmt: skip
    assert tally.left_out == {"no concept id": 1}


@pytest.mark.parametrize(
    "table",
    [
        'DrugBank ID,Common name,Name,CAS,Synonyms\nDB1,Aspirin,aspirin,1,"Acetylsalicylate | ASA, pure"\n',
        "id\tlabel\tsynonyms\nDB1\tAspirin\tAcetylsalicylate | ASA, pure\n",
    ],
)
def test_tables__names_with_synonyms(table: str, tmp_path: Path) -> None:
    names = concept_tables.read(
        write(tmp_path / "x.csv", table), ("T121",), NameChoice(), NameTally()
    )

    assert [(name.concept, name.name, name.status) for name in names] == [
        ("DB1", "Aspirin", "P"), ("DB1", "Acetylsalicylate", "A"), ("DB1", "ASA, pure", "A"),
    ]  # fmt: skip


def test_tables__medcats_layout_with_synonyms(tmp_path: Path) -> None:
    table = "cui,name,synonyms,type_ids,name_status\nc1,MS,mitral stenosis | ,T047,N\nC1,,stenosed valve,,\n"
    tally = NameTally()

    names = list(concept_tables.read(write(tmp_path / "x.csv", table), (), NameChoice(), tally))

    assert names == [
        Name("C1", "MS", "N", ("T047",), ""), Name("C1", "mitral stenosis", "A", ("T047",), ""),
        Name("C1", "stenosed valve", "A", ("T047",), ""),
    ]  # fmt: skip
    assert not tally.left_out


def test_tables__types_in_the_table(tmp_path: Path) -> None:
    table = ",id,name,type_ids\n0,D1,aspirin,T121|t109\n1,D2,cough,\n"

    names = concept_tables.read(
        write(tmp_path / "x.csv", table), ("T184",), NameChoice(), NameTally()
    )

    assert list(names) == [
        Name("D1", "aspirin", "P", ("T121", "T109"), ""), Name("D2", "cough", "P", ("T184",), ""),
    ]  # fmt: skip


def test_tables__refuses_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,b\n1,2\n")

    with pytest.raises(
        AnnotateError, match=r"expected a table with the columns cui and name .*, got a, b$"
    ):
        list(concept_tables.read(path, (), NameChoice(), NameTally()))


def test_clean__drops_snomeds_tag_and_medcats_separator() -> None:
    assert clean("fever | red  (finding)") == "fever red"
    assert clean("leukemia (acute)") == "leukemia (acute)"


def test_parse_input__reads_types_after_the_last_equals_sign() -> None:
    assert parse_input("a=b/x.obo=T047,T191") == ConceptFile(Path("a=b/x.obo"), ("T047", "T191"))
    assert parse_input("a=b/x.obo") == ConceptFile(Path("a=b/x.obo"))


def test_parse_input__refuses_unknown_semantic_types(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "cui,name\n")

    with pytest.raises(AnnotateError, match=r"--from: expected semantic types .* got 'T47'"):
        parse_input(f"{path}=T47")


def test_make_table__merges_inputs(tmp_path: Path) -> None:
    inputs = [
        ConceptFile(umls(tmp_path / "META").parent),
        ConceptFile(write(tmp_path / "x.obo", OBO), ("T047",)),
        ConceptFile(
            write(tmp_path / "drugs.csv", "id,name,synonyms\nD1,aspirin,red fever\n"), ("T121",)
        ),
    ]

    report = make_table(inputs, tmp_path / "t.csv", choice=NameChoice(xref="UMLS_CUI"))

    assert balanced(report)
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


@pytest.mark.parametrize(
    ("table", "kept", "left_out"),
    [
        # Rows of a concept need not be consecutive, and any row may add a type.
        ("C1,aspirin,P,T109\nC2,gout,P,T047\nC1,Aspirin,A,T121\n",
         ["aspirin,Treatment,C1,T109|T121", "gout,Disease,C2,T047"], {"same name again": 1}),
        ("C1,cold,A,T047\nC2,cold,P,T184\nC3,cold,P,T047\n",
         ["cold,Symptom,C2,T184"], {"name of another concept": 2}),
        ("C1,cold,A,T047\nC2,cold,A,T184\n",
         ["cold,Disease,C1,T047"], {"name of another concept": 1}),
        ("C1,cold,P,T999\nC2,cold,A,T184\n",
         ["cold,Symptom,C2,T184"], {"no label for its semantic types": 1}),
        ("C1,MS|mitral stenosis,N,T047\nC2,gout,A,T047\n",
         ["gout,Disease,C2,T047"], {"needs disambiguation": 2}),
    ],
)  # fmt: skip
def test_make_table__keeps_each_name_once(
    tmp_path: Path, table: str, kept: list[str], left_out: dict[str, int]
) -> None:
    path = write(tmp_path / "c.csv", f"cui,name,name_status,type_ids\n{table}")

    report = make_table([ConceptFile(path)], tmp_path / "t.csv", choice=NameChoice())

    assert balanced(report)
    assert rows(tmp_path / "t.csv")[1:] == kept
    assert report.left_out == left_out
    assert report.kept == len(kept)


def test_make_table__uses_a_table_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "cui,name,type_ids\nC1,gene one,T028\n")
    labels = write(
        tmp_path / "l.toml", 'labels = ["Gene"]\n[[type]]\ntui = "T028"\nlabel = "Gene"\n'
    )

    make_table([ConceptFile(path)], tmp_path / "t.csv", choice=NameChoice(), labels=str(labels))

    assert rows(tmp_path / "t.csv")[1:] == ["gene one,Gene,C1,T028"]
    with pytest.raises(AnnotateError, match=r"1 no label for its semantic types\); --labels names"):
        make_table([ConceptFile(path)], tmp_path / "u.csv", choice=NameChoice())


def test_make_table__keeps_chosen_types_and_sources(tmp_path: Path) -> None:
    choice = NameChoice(types=frozenset({"T047"}), sources=frozenset({"MSH"}))

    report = make_table([ConceptFile(umls(tmp_path))], tmp_path / "t.csv", choice=choice)

    assert balanced(report)
    assert report.left_out == {
        "other language": 1, "other semantic type": 1, "other source": 1, "suppressed": 1,
    }  # fmt: skip
    assert (report.concepts, report.kept) == (2, 3)


@pytest.mark.parametrize(
    ("types", "sources", "absent"),
    [({"T047", "T998"}, {"MSH"}, "T998"), ({"T047"}, {"MSH", "NOPE", "ALSO"}, "ALSO, NOPE")],
)
def test_make_table__refuses_unknown_types_and_sources(
    types: set[str], sources: set[str], absent: str, tmp_path: Path
) -> None:
    choice = NameChoice(types=frozenset(types), sources=frozenset(sources))

    with pytest.raises(AnnotateError, match=f"no names of {absent}; correct --types or --source"):
        make_table([ConceptFile(umls(tmp_path))], tmp_path / "t.csv", choice=choice)

    assert not (tmp_path / "t.csv").exists()


def test_make_table__refuses(tmp_path: Path) -> None:
    made = write(tmp_path / "x.obo", OBO)
    (tmp_path / "there.csv").mkdir()
    for inputs, out, choice, message in [
        (
            [ConceptFile(made, ("T047",))],
            "there.csv",
            NameChoice(),
            "the file exists",
        ),
        (
            [ConceptFile(made, ("T047",))],
            "t.tsv",
            NameChoice(),
            r"t\.tsv: expected a file ending in \.csv",
        ),
        (
            [ConceptFile(tmp_path / "none.obo")],
            "t.csv",
            NameChoice(),
            "no such file, nor a folder with MRCONSO",
        ),
        (
            [ConceptFile(write(tmp_path / "x.owl", ""))],
            "t.csv",
            NameChoice(),
            r"expected a file ending in \.obo",
        ),
        (
            [ConceptFile(made)],
            "t.csv",
            NameChoice(),
            r"concept X:1 has no semantic types; .* --from .*x\.obo=T047",
        ),
        (
            [ConceptFile(made, ("T047",))],
            "t.csv",
            NameChoice(types=frozenset({"T1"})),
            r"--from: no names of T1; correct --types",
        ),
        (
            [ConceptFile(made, ("T999",))],
            "t.csv",
            NameChoice(),
            r"--from: no names are kept \(1 fewer than two letters, 3 no label .*, 2 obsolete term",
        ),
    ]:
        with pytest.raises(AnnotateError, match=message):
            make_table(inputs, tmp_path / out, choice=choice)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.csv", "x.obo", "x.owl"]


def test_make_table__reads_gzipped_files(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "x.obo.gz", "wt", encoding="utf-8") as file:
        file.write(OBO)

    assert (
        make_table(
            [ConceptFile(tmp_path / "x.obo.gz", ("T047",))], tmp_path / "t.csv", choice=NameChoice()
        ).kept
        == 3
    )


def test_command__prints_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.obo", OBO)

    people = run("vocab", "concepts", "--from", f"{path}=T047", "--out", tmp_path / "a.csv")
    program = run(
        "vocab",
        "concepts",
        "--from",
        f"{path}=T047",
        "--out",
        tmp_path / "b.csv",
        "--json",
    )

    assert people.code == program.code == 0
    assert "left out: obsolete term" in people.out
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert {key: program.json[key] for key in ("read", "kept", "concepts", "types")} == {
        "read": 7, "kept": 3, "concepts": 1, "types": {"T047": 1},
    }  # fmt: skip
    assert (
        run("vocab", "concepts", "--from", tmp_path / "none.obo", "--out", tmp_path / "c.csv").code
        == 1
    )
    assert run("vocab", "concept").code == 2


def test_disease_ontology__has_well_known_names(real: Path) -> None:
    tally = NameTally()
    path = real / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"

    names = list(obo.read(path, ("T047",), NameChoice(), tally))
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
    drugs = concepts / "drugbank_open" / "drugbank_vocabulary.csv"
    inputs = [
        ConceptFile(concepts / "disease_ontology" / "doid_2016-03-04.obo", ("T047",)),
        ConceptFile(concepts / "symptom_ontology" / "symp.obo", ("T184",)),
        ConceptFile(drugs, ("T121",)),
        ConceptFile(concepts / "umls_rrf_fixture"),
        ConceptFile(concepts / "medcat_examples" / "umls_sample.csv"),
        ConceptFile(concepts / "medcat_examples" / "cdb_advanced.csv"),
        ConceptFile(concepts / "medcat_examples" / "cdb_simple.csv", ("T047",)),
    ]

    report = make_table(inputs, tmp_path / "t.csv", choice=NameChoice(xref="UMLS_CUI"))

    assert balanced(report)
    assert report.types["T121"] >= 999
    assert report.types["T184"] > 800
    found = concepts_in(tmp_path / "t.csv", "Fever and chest pain in asthma: lepirudin for NSCLC.")
    assert [name for name, _ in found] == ["Fever", "chest pain", "asthma", "lepirudin", "NSCLC"]


def test_read__every_drug_of_the_real_table(real: Path) -> None:
    table = real / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv"

    names = list(concept_tables.read(table, ("T121",), NameChoice(), NameTally()))

    assert len({name.concept for name in names}) > 13_000
    assert {name.types for name in names} == {("T121",)}
