"""Write a table of concepts as large as an annotator meets: diseases and drugs with their names.

`python -m benchmarks.concepts --out concepts.csv`

The names are those of the Disease Ontology and of DrugBank's open vocabulary, where the folder of
real data has them. Without it they are those of the shipped sample, and invented ones. The same
arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import ROOT, real

NAMES = 27_000
_COLUMNS = ("cui", "name", "ontologies", "name_status", "type_ids")
_DISEASE, _DRUG = "T047", "T121"
_SAMPLE = ROOT / "vocab" / "sample" / "concepts.csv"

_STEMS = (
    *("cardi", "nephr", "hepat", "gastr", "neur", "derm", "oste", "arthr", "pulmon", "vascul"),
    *("thyr", "splen", "rhin", "ot", "ophthalm", "my", "lymph", "hemat", "encephal", "chondr"),
)
_DISEASES = ("itis", "osis", "oma", "opathy", "algia", "emia", "ectasia", "odystrophy")
_KINDS = ("acute", "chronic", "congenital", "idiopathic", "juvenile", "familial", "recurrent")
_PLACES = ("of the hand", "of the foot", "of the spine", "of childhood", "with effusion", "type 2")
_PARTS = ("ba", "cor", "di", "fe", "gli", "lo", "mi", "na", "pra", "ri", "so", "ta", "vi", "zo")
_DRUGS = ("azole", "cillin", "mab", "olol", "pril", "sartan", "statin", "tide", "vir", "xaban")
_SALTS = ("sodium", "hydrochloride", "acetate", "sulfate", "maleate")


class Concept(NamedTuple):
    """A concept.

    Attributes:
        id: Its id.
        names: The preferred one first; nobody's name twice.
        type: Its semantic type.
    """

    id: str
    names: tuple[str, ...]
    type: str


def write(path: Path, *, names: int = NAMES) -> str:
    """Write a table in MedCAT's columns, and say what it holds.

    Args:
        path: The file, CSV.
        names: Minimum number of names; concepts are taken until it is reached.
    """
    diseases = real() / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = real() / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv"
    if diseases.is_file() and drugs.is_file():
        known = [*_of_ontology(diseases), *_of_drugbank(drugs)]
        random.Random(0).shuffle(known)
        concepts: Iterator[Concept] = iter(known)
        origin = "the Disease Ontology and DrugBank"
    else:
        concepts = chain(_of_sample(_SAMPLE), _invented())
        origin = "the shipped sample, and invented ones"

    count = written = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_COLUMNS)
        for concept in concepts:
            if written >= names:
                break
            for i, name in enumerate(concept.names):
                status = "A" if i else "P"
                table.writerow([concept.id, name, "BENCH", status, concept.type])
            count += 1
            written += len(concept.names)
    return f"{written:,} names of {count:,} concepts of {origin}"


def open_names() -> list[str]:
    """Return the names of all diseases, drugs and symptoms of the open vocabularies, sorted.

    They are the Disease Ontology's, DrugBank's and the Symptom Ontology's where the folder of real
    data has them, else those of the shipped sample.
    """
    folder = real() / "concepts"
    diseases = folder / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = folder / "drugbank_open" / "drugbank_vocabulary.csv"
    symptoms = folder / "symptom_ontology" / "symp.obo"
    if diseases.is_file() and drugs.is_file() and symptoms.is_file():
        known = [*_of_ontology(diseases), *_of_drugbank(drugs), *_of_ontology(symptoms)]
    else:
        known = [*_of_sample(_SAMPLE)]
    return sorted({name for concept in known for name in concept.names})


def _of_ontology(path: Path) -> Iterator[Concept]:
    """Yield the terms of an OBO file that are in use, with their exact synonyms."""
    _, *terms = path.read_text(encoding="utf-8").split("\n[Term]\n")
    for term in terms:
        if "\nis_obsolete: true" in term:
            continue

        # A quoted synonym may hold quotes, each after a backslash.
        id_ = re.search(r"^id: (\S+)", term, re.MULTILINE)
        name = re.search(r"^name: (.+)", term, re.MULTILINE)
        synonyms = re.findall(r'^synonym: "((?:[^"\\]|\\.)*)" EXACT', term, re.MULTILINE)
        if id_ and name:
            names = (re.sub(r"\\(.)", r"\1", text) for text in (name[1], *synonyms))
            yield Concept(id_[1].replace(":", ""), _distinct(names), _DISEASE)


def _of_drugbank(path: Path) -> Iterator[Concept]:
    """Yield the drugs of DrugBank's vocabulary with their synonyms."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = (row["Common name"], *row["Synonyms"].split(" | "))
            yield Concept(row["DrugBank ID"], _distinct(names), _DRUG)


def _of_sample(path: Path) -> Iterator[Concept]:
    """Yield the concepts of the shipped table."""
    names: dict[tuple[str, str], list[str]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names.setdefault((row["cui"], row["type_ids"]), []).extend(row["name"].split("|"))
    for (cui, types), of_concept in names.items():
        yield Concept(cui, _distinct(of_concept), types)


def _invented() -> Iterator[Concept]:
    """Yield diseases and drugs that nobody has, without end."""
    chance = random.Random(1)

    def disease() -> str:
        name = chance.choice(_STEMS) + "o" + chance.choice(_STEMS) + chance.choice(_DISEASES)
        if chance.random() < 0.7:
            name = f"{chance.choice(_KINDS)} {name}"
        if chance.random() < 0.4:
            name = f"{name} {chance.choice(_PLACES)}"
        return name

    def drug() -> str:
        name = "".join(chance.choices(_PARTS, k=3)) + chance.choice(_DRUGS)
        if chance.random() < 0.4:
            name = f"{name} {chance.choice(_SALTS)}"
        return name

    seen: set[str] = set()
    number = 0
    while True:
        number += 1
        make, type_ = (disease, _DISEASE) if number % 3 == 0 else (drug, _DRUG)
        made = {make() for _ in range(chance.choice((1, 2, 2, 3, 6)))} - seen
        if made:
            seen |= made
            yield Concept(f"B{number:07}", tuple(sorted(made)), type_)


def _distinct(names: Sequence[str] | Iterator[str]) -> tuple[str, ...]:
    """Return names of two characters or more, each once; `|` would part a name in the table."""
    stripped = (name.strip() for name in names)
    return tuple(dict.fromkeys(name for name in stripped if len(name) > 1 and "|" not in name))


def main(arguments: Sequence[str]) -> int:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a large table of concepts.")
    parser.add_argument("--names", type=int, default=NAMES)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)

    print(write(asked.out, names=asked.names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
