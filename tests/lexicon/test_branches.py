"""Branches of ontologies, and common words among names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from mslm_data.errors import MissingExtraError
from mslm_data.lexicon.concepts import obo
from mslm_data.lexicon.concepts.common_words import CommonWords
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally
from tests.cli.running import run

OBO = """format-version: 1.2

[Term]
id: X:1
name: sign

[Term]
id: X:2 ! left in a comment
name: fever
alt_id: X:20
is_a: X:1 ! sign

[Term]
id: X:3
name: red fever
synonym: "scarlet fever" EXACT []
is_a: X:2 {is_inferred="true"} ! fever
is_a: X:5 ! colour

[Term]
id: X:4
name: blue fever
is_a: X:2 ! fever
is_obsolete: true ! since it is red
replaced_by: X:3

[Term]
id: X:5
name: colour
is_a: X:6 ! a circle of terms

[Term]
id: X:6
name: hue
is_a: X:5
relationship: part_of X:1

[Typedef]
id: part_of
name: part of
is_a: X:1
"""


@pytest.fixture
def ontology(tmp_path: Path) -> Path:
    path = tmp_path / "x.obo"
    path.write_text(OBO, encoding="utf-8")
    return path


def choice_of(**terms: str) -> NameChoice:
    return NameChoice(**{key: frozenset(value.split()) for key, value in terms.items()})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choice", "names", "left_out"),
    [
        (choice_of(), "sign,fever,red fever,scarlet fever,colour,hue", {}),
        (choice_of(under="X:2"), "fever,red fever,scarlet fever", {"not under a chosen term": 3}),
        (choice_of(under="X:20"), "fever,red fever,scarlet fever", {"not under a chosen term": 3}),
        (
            choice_of(under="X:3 X:6"),
            "red fever,scarlet fever,colour,hue",
            {"not under a chosen term": 2},
        ),
        (choice_of(not_under="X:5"), "sign,fever", {"under a term left out": 4}),
        (
            choice_of(under="X:2", not_under="X:3"),
            "fever",
            {"not under a chosen term": 3, "under a term left out": 2},
        ),
        (choice_of(under="Y:1", not_under="Y:2"), "sign,fever,red fever,scarlet fever,colour,hue", {}),
    ],
)  # fmt: skip
def test_read__skips_whole_branches(
    ontology: Path, choice: NameChoice, names: str, left_out: dict[str, int]
) -> None:
    tally = NameTally()

    found = [name.name for name in obo.read(ontology, ("T184",), choice, tally)]

    assert found == names.split(",")
    assert tally.left_out == {"obsolete term": 1, **left_out}


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (["--under", "X:2", "--under", "X:9"], "X:9"),
        (["--not-under", "fever"], "fever"),
        (["--under", "X:4"], "X:4"),  # obsolete
        (["--under", "X:3", "--under", "Y:1", "--not-under", "Z:1"], "Z:1"),
    ],
)
def test_command__refuses_terms_of_no_ontology(
    ontology: Path, words: list[str], unknown: str
) -> None:
    other = ontology.with_name("y.obo")
    other.write_text("[Term]\nid: Y:1\nname: rash\n", encoding="utf-8")
    out = ontology.with_name("out.csv")
    inputs = ("vocab", "concepts", "--from", f"{ontology}=T184", "--from", f"{other}=T184")

    refused = run(*inputs, *words, "--out", out)

    assert refused.code == 1
    assert f"no ontology of --from has a current term {unknown};" in refused.err
    assert not out.exists()


def test_command__limits_the_ontology_with_the_term(ontology: Path) -> None:
    other = ontology.with_name("y.obo")
    other.write_text("[Term]\nid: Y:1\nname: rash of red\n", encoding="utf-8")
    inputs = ("vocab", "concepts", "--from", f"{ontology}=T184", "--from", f"{other}=T184")

    program = run(*inputs, "--under", "X:2", "--not-under", "X:3", "--out", ontology.with_name("a.csv"),
                  "--json")  # fmt: skip

    assert program.json["concepts"] == 2
    assert program.json["left_out"] == {
        "not under a chosen term": 3,
        "obsolete term": 1,
        "under a term left out": 2,
    }
    assert program.json["read"] == program.json["kept"] + sum(program.json["left_out"].values())


def below(path: Path, root: str) -> set[str]:
    """Walk `is_a` with simple code, independent of the package."""
    parents: dict[str, set[str]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = block.splitlines()
        if lines[:1] == ["[Term]"] and "is_obsolete: true" not in lines:
            term = next(line[4:] for line in lines if line.startswith("id: "))
            parents[term] = {line.split()[1] for line in lines if line.startswith("is_a: ")}

    found = {root}
    while more := {term for term, above in parents.items() if above & found} - found:
        found |= more
    return found


@pytest.mark.parametrize(
    ("file", "root", "without"),
    [
        ("disease_ontology/doid_2016-03-04.obo", "DOID:162", "DOID:2531"),
        ("disease_ontology/doid_2016-03-04.obo", "DOID:7", "DOID:14566"),
        ("symptom_ontology/symp.obo", "SYMP:0000514", "SYMP:0000614"),
    ],
)
def test_real_ontologies__have_the_branches_of_a_plain_walk(
    real: Path, file: str, root: str, without: str
) -> None:
    path = real / "concepts" / file
    choice = choice_of(under=root, not_under=without)

    names = obo.read(path, ("T047",), choice, NameTally())

    expected = below(path, root) - below(path, without)
    assert len(expected) > 10
    assert {name.concept for name in names} == expected


def names_of(*words: str) -> Iterable[Name]:
    return (Name("1", word, "A", ("T047",), "") for word in words)


def test_common_words__are_reported_or_excluded() -> None:
    pytest.importorskip("wordfreq")
    words = ("AS", "right", "Common word", "hepatosplenomegaly", "Water")

    for rule, kept_names, left_out in (
        ("warn", list(words), {}),
        ("drop", ["Common word", "hepatosplenomegaly"], {"common word": 3}),
    ):
        looked_for = CommonWords(rule)  # type: ignore[arg-type]
        tally = NameTally()

        passed = [name.name for name in looked_for.filter(names_of(*words), tally)]

        assert passed == kept_names
        assert tally.left_out == left_out
        assert looked_for.found() == ("as", "right", "water")


def test_common_words__are_not_searched_by_default() -> None:
    looked_for = CommonWords("keep")

    assert [name.name for name in looked_for.filter(names_of("water"), NameTally())] == ["water"]
    assert looked_for.found() is None


def test_common_words__without_wordfreq_warns_once_or_raises(
    monkeypatch: pytest.MonkeyPatch, ontology: Path
) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    words = (
        "vocab",
        "concepts",
        "--from",
        f"{ontology}=T184",
        "--out",
        ontology.with_name("p.csv"),
    )

    refused = run(*words, "--common-words", "drop")
    told = run(*words, "--json")

    assert refused.code == 1
    assert "mslm-data[vocab]" in refused.err
    assert told.code == 0
    assert told.json["common_words"] is None
    assert told.err.count("needs the package wordfreq, which is not installed") == 1
    with pytest.raises(MissingExtraError, match="wordfreq"):
        CommonWords("drop")
