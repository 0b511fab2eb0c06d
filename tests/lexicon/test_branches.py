"""Branches of ontologies, and common words among names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mslm_data.errors import AnnotateError, MissingExtraError
from mslm_data.lexicon.concepts import obo
from mslm_data.lexicon.concepts.common_words import CommonWords, CommonWordsRule
from mslm_data.lexicon.concepts.making import ConceptFile, ConceptReport, make_table
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally

ONTOLOGY = Path(__file__).parent / "concepts" / "branches.obo"


def choice_of(**terms: str) -> NameChoice:
    return NameChoice(**{key: frozenset(value.split()) for key, value in terms.items()})  # type: ignore[arg-type]


NOT_UNDER, UNDER = "not under a chosen term", "under a term left out"


@pytest.mark.parametrize(
    ("choice", "names", "left_out"),
    [
        (choice_of(), "sign,fever,red fever,scarlet fever,colour,hue", {}),
        (choice_of(under="X:2"), "fever,red fever,scarlet fever", {NOT_UNDER: 3}),
        (choice_of(under="X:20"), "fever,red fever,scarlet fever", {NOT_UNDER: 3}),
        (choice_of(under="X:3 X:6"), "red fever,scarlet fever,colour,hue", {NOT_UNDER: 2}),
        (choice_of(not_under="X:5"), "sign,fever", {UNDER: 4}),
        (choice_of(under="X:2", not_under="X:3"), "fever", {NOT_UNDER: 3, UNDER: 2}),
        (
            choice_of(under="Y:1", not_under="Y:2"),
            "sign,fever,red fever,scarlet fever,colour,hue",
            {},
        ),
    ],
)
def test_read__skips_whole_branches(
    choice: NameChoice, names: str, left_out: dict[str, int]
) -> None:
    tally = NameTally()

    found = [name.name for name in obo.read(ONTOLOGY, ("T184",), choice, tally)]

    assert found == names.split(",")
    assert tally.left_out == {"obsolete term": 1, **left_out}


def make_two(folder: Path, **terms: str) -> ConceptReport:
    """Make a table of the ontology and of another, with the term Y:1 alone."""
    other = folder / "y.obo"
    other.write_text("[Term]\nid: Y:1\nname: rash of red\n", encoding="utf-8")
    inputs = [ConceptFile(path, ("T184",)) for path in (ONTOLOGY, other)]
    choice = choice_of(**terms)
    return make_table(inputs, folder / "out.csv", choice=choice, common_words="keep")


@pytest.mark.parametrize(
    ("terms", "unknown"),
    [
        ({"under": "X:2 X:9"}, "X:9"),
        ({"not_under": "fever"}, "fever"),
        ({"under": "X:4"}, "X:4"),  # obsolete
        ({"under": "X:3 Y:1", "not_under": "Z:1"}, "Z:1"),
    ],
)
def test_make_table__refuses_terms_of_no_ontology(
    terms: dict[str, str], unknown: str, tmp_path: Path
) -> None:
    with pytest.raises(AnnotateError, match=f"no ontology of --from has a current term {unknown};"):
        make_two(tmp_path, **terms)


def test_make_table__limits_the_ontology_with_the_term(tmp_path: Path) -> None:
    report = make_two(tmp_path, under="X:2", not_under="X:3")

    assert report.concepts == 2
    assert report.left_out == {NOT_UNDER: 3, "obsolete term": 1, UNDER: 2}
    assert report.read == report.kept + sum(report.left_out.values())


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


@pytest.mark.parametrize(
    ("rule", "kept", "left_out", "found"),
    [
        ("keep", ["AS", "right", "Common word", "Water"], {}, None),
        ("warn", ["AS", "right", "Common word", "Water"], {}, ("as", "right", "water")),
        ("drop", ["Common word"], {"common word": 3}, ("as", "right", "water")),
    ],
)
def test_common_words__are_reported_or_excluded(
    rule: CommonWordsRule, kept: list[str], left_out: dict[str, int], found: tuple[str, ...] | None
) -> None:
    pytest.importorskip("wordfreq")
    words = ("AS", "right", "Common word", "Water")
    names = (Name("1", word, "A", ("T047",), "") for word in words)
    common_words, tally = CommonWords(rule), NameTally()

    passed = [name.name for name in common_words.filter(names, tally)]

    assert passed == kept
    assert tally.left_out == left_out
    assert common_words.found() == found


def test_common_words__without_wordfreq_warns_or_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)

    with pytest.raises(MissingExtraError, match=r"wordfreq.*mslm-data\[vocab\]"):
        CommonWords("drop")
    assert CommonWords("warn").found() is None
    assert len(caplog.messages) == 1
    assert "needs the package wordfreq, which is not installed" in caplog.messages[0]
