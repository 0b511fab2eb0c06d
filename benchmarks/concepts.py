"""Write a concept table of realistic size: diseases and drugs with their names.

Names come from the Disease Ontology and DrugBank's open vocabulary if the folder of real data has
both, else from the shipped sample and a generator. Equal arguments give equal bytes.
"""

from __future__ import annotations

import csv
import random
import re
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
        id: Concept id.
        names: Distinct names, the preferred one first.
        type: UMLS semantic type, such as "T047".
    """

    id: str
    names: tuple[str, ...]
    type: str


def write(path: Path, *, names: int = NAMES) -> str:
    """Write a concept table with MedCAT's columns.

    Args:
        path: CSV file to write.
        names: Minimum number of names, all names of a concept included. Default: 27,000.

    Returns:
        A description of the table: number of names and concepts, and their origin.
    """
    diseases = real() / "concepts" / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = real() / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv"
    if diseases.is_file() and drugs.is_file():
        catalog = [*_read_ontology(diseases), *_read_drugbank(drugs)]
        random.Random(0).shuffle(catalog)
        concepts: Iterator[Concept] = iter(catalog)
        origin = "the Disease Ontology and DrugBank"
    else:
        concepts = chain(_read_sample(_SAMPLE), _invent())
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
    """Return the sorted names of all diseases, drugs and symptoms.

    Names come from the Disease Ontology, DrugBank and the Symptom Ontology if the folder of real
    data has all three, else from the shipped sample.
    """
    folder = real() / "concepts"
    diseases = folder / "disease_ontology" / "doid_2016-03-04.obo"
    drugs = folder / "drugbank_open" / "drugbank_vocabulary.csv"
    symptoms = folder / "symptom_ontology" / "symp.obo"
    if diseases.is_file() and drugs.is_file() and symptoms.is_file():
        catalog = [*_read_ontology(diseases), *_read_drugbank(drugs), *_read_ontology(symptoms)]
    else:
        catalog = [*_read_sample(_SAMPLE)]
    return sorted({name for concept in catalog for name in concept.names})


def _read_ontology(path: Path) -> Iterator[Concept]:
    """Yield the terms of an OBO file with their exact synonyms, without obsolete terms."""
    _, *terms = path.read_text(encoding="utf-8").split("\n[Term]\n")
    for term in terms:
        if "\nis_obsolete: true" in term:
            continue

        # Quotes inside a quoted synonym are escaped by a backslash.
        id_ = re.search(r"^id: (\S+)", term, re.MULTILINE)
        name = re.search(r"^name: (.+)", term, re.MULTILINE)
        synonyms = re.findall(r'^synonym: "((?:[^"\\]|\\.)*)" EXACT', term, re.MULTILINE)
        if id_ and name:
            names = (re.sub(r"\\(.)", r"\1", text) for text in (name[1], *synonyms))
            yield Concept(id_[1].replace(":", ""), _distinct(names), _DISEASE)


def _read_drugbank(path: Path) -> Iterator[Concept]:
    """Yield the drugs of DrugBank's vocabulary with their synonyms."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = (row["Common name"], *row["Synonyms"].split(" | "))
            yield Concept(row["DrugBank ID"], _distinct(names), _DRUG)


def _read_sample(path: Path) -> Iterator[Concept]:
    """Yield the concepts of the shipped sample."""
    names: dict[tuple[str, str], list[str]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names.setdefault((row["cui"], row["type_ids"]), []).extend(row["name"].split("|"))
    for (cui, types), concept_names in names.items():
        yield Concept(cui, _distinct(concept_names), types)


def _invent() -> Iterator[Concept]:
    """Generate an endless sequence of invented diseases and drugs."""
    rng = random.Random(1)

    def disease() -> str:
        name = rng.choice(_STEMS) + "o" + rng.choice(_STEMS) + rng.choice(_DISEASES)
        if rng.random() < 0.7:
            name = f"{rng.choice(_KINDS)} {name}"
        if rng.random() < 0.4:
            name = f"{name} {rng.choice(_PLACES)}"
        return name

    def drug() -> str:
        name = "".join(rng.choices(_PARTS, k=3)) + rng.choice(_DRUGS)
        if rng.random() < 0.4:
            name = f"{name} {rng.choice(_SALTS)}"
        return name

    seen: set[str] = set()
    number = 0
    while True:
        number += 1
        make, type_ = (disease, _DISEASE) if number % 3 == 0 else (drug, _DRUG)
        new_names = {make() for _ in range(rng.choice((1, 2, 2, 3, 6)))} - seen
        if new_names:
            seen |= new_names
            yield Concept(f"B{number:07}", tuple(sorted(new_names)), type_)


def _distinct(names: Sequence[str] | Iterator[str]) -> tuple[str, ...]:
    """Return distinct names of at least two characters, without `|`, the table's separator."""
    stripped = (name.strip() for name in names)
    return tuple(dict.fromkeys(name for name in stripped if len(name) > 1 and "|" not in name))
