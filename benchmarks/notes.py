"""Write a table of invented notes in the shape of MIMIC-III's NOTEEVENTS.

`python -m benchmarks.notes --notes 100000 --out NOTEEVENTS.csv`

The table has what breaks naive readers: newlines and doubled quotes in TEXT, NULLs, CRLF notes,
placeholders (one broken over a line), withdrawn notes, categories with a trailing space, and notes
copied forward. The same arguments give the same bytes. Sections are written once and joined to
notes, so that a core makes tens of thousands a second.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from benchmarks.phrases import CATEGORIES, PLACEHOLDERS, SECTIONS, SENTENCES, TERMS, TYPES

HEADER = (
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY",
    "DESCRIPTION", "CGID", "ISERROR", "TEXT",
)  # fmt: skip
CONCEPTS = Path(__file__).parent.parent / "vocab" / "sample" / "concepts.csv"
_VARIANTS = 300  # of each section
_SLOT = re.compile(r"\{([a-z])\}")

Terms = Mapping[str, Sequence[str]]


def terms(path: Path) -> Terms:
    """Return a concept table's terms by slot; a slot without any keeps those of `phrases`."""
    found: dict[str, list[str]] = {slot: [] for slot in TERMS}
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                types = set(re.split(r"[|,;\s]+", row["type_ids"]))
                for slot, wanted in TYPES.items():
                    if types & wanted:
                        found[slot] += row["name"].split("|")
    return {slot: tuple(found[slot]) or TERMS[slot] for slot in TERMS}


class Writer:
    """Makes notes from one stream of random numbers."""

    def __init__(self, *, seed: int, known: Terms) -> None:
        self._chance = random.Random(seed)
        self._known = known
        self._sections = [
            [self._section(head, form) for _ in range(_VARIANTS)] for head, form in SECTIONS
        ]

    def rows(self, notes: int, patients: int) -> Iterator[bytes]:
        """Yield the rows of a table, each with its line end."""
        chance = self._chance
        last: dict[int, bytes] = {}
        for i in range(notes):
            patient = 10_000 + (i if i < patients else chance.randrange(patients)) * 7
            copied = chance.random() < 0.15 or i % 40 == 39
            text = last.get(patient) if copied else None
            if text is None:
                text = self._text(i)
                last[patient] = text
            yield self._row(i, patient, text)

    def _row(self, i: int, patient: int, text: bytes) -> bytes:
        chance = self._chance
        category, description = CATEGORIES[i % len(CATEGORIES)]
        admission = (
            ""
            if category in ("Radiology", "ECG") and chance.random() < 0.5
            else str(100_000 + patient)
        )
        day = f"21{10 + i % 90}-{1 + i % 12:02}-{1 + i % 28:02}"
        time = (
            "" if category in ("ECG", "Discharge summary") else f"{day} {i % 24:02}:{i % 60:02}:00"
        )
        error = "1" if i % 64 == 37 else ""

        description = description.replace('"', '""')
        caregiver = 14_000 + i % 500
        where = f"{i + 1},{patient},{admission},{day},{time},{time}"
        head = f'{where},"{category}","{description}",{caregiver}'
        return f'{head},{error},"'.encode() + text + b'"\n'

    def _text(self, i: int) -> bytes:
        """Return a note, its quotes doubled; every 43rd has line ends of two bytes."""
        chance = self._chance
        day = f"[**{2100 + i % 100}-{1 + i % 12}-{1 + i % 28}**]"
        head = f"Admission Date:  {day}       Unit No:  [**Numeric Identifier {i}**]\n\n"

        chosen = sorted(chance.sample(range(len(SECTIONS)), chance.randint(3, 7)))
        parts = [self._sections[s][int(chance.random() * _VARIANTS)] for s in chosen]
        text = head.encode() + b"\n".join(parts)

        return text.replace(b"\n", b"\r\n") if i % 43 == 11 else text

    def _section(self, head: str, form: str) -> bytes:
        chance = self._chance
        if form == "prose":
            body = textwrap.fill(
                " ".join(self._sentence() for _ in range(chance.randint(3, 7))), 74
            )
        elif form == "list":
            body = "\n".join(f"{k}. {self._fill('{d}')}" for k in range(1, chance.randint(3, 7)))
        elif form == "drugs":
            body = "\n".join(
                self._fill("- {t} {n} mg PO DAILY") for _ in range(chance.randint(2, 6))
            )
        elif form == "allergies":
            body = self._fill(
                chance.choice(("   {t} / {t}", "   No Known Drug Allergies", "   {t} (rash)"))
            )
        else:
            body = "\n".join(
                f"# {self._fill('{d}')}: {self._sentence()}" for _ in range(chance.randint(2, 4))
            )
        return f"{head}\n{body}\n".replace('"', '""').encode()

    def _sentence(self) -> str:
        text = self._fill(self._chance.choice(SENTENCES))
        return text[:1].upper() + text[1:]

    def _fill(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self._word(slot[1]), text)

    def _word(self, slot: str) -> str:
        chance = self._chance
        if slot in self._known:
            return chance.choice(self._known[slot])
        if slot in PLACEHOLDERS:
            return self._fill(chance.choice(PLACEHOLDERS[slot]))

        low, high = {"n": (11, 99), "y": (2100, 2199), "m": (1, 12), "k": (1, 9)}[slot]
        return str(chance.randint(low, high))


def write(
    path: Path, *, notes: int, patients: int = 0, seed: int = 0, concepts: Path = CONCEPTS
) -> None:
    """Write a table, compressed if its name ends with `.gz`.

    Args:
        path: The file.
        notes: Number of notes.
        patients: Number of patients; 0 for one to every 45 notes, as in MIMIC-III.
        seed: Another seed gives other notes.
        concepts: A concept table whose names the notes hold.
    """
    rows = Writer(seed=seed, known=terms(concepts)).rows(notes, patients or max(1, notes // 45))
    with _opened(path) as file:
        file.write(",".join(f'"{name}"' for name in HEADER).encode() + b"\n")
        file.writelines(rows)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


def main(arguments: Sequence[str]) -> int:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Write a table of invented notes in the shape of NOTEEVENTS."
    )
    parser.add_argument("--notes", type=int, default=100_000)
    parser.add_argument("--patients", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concepts", type=Path, default=CONCEPTS)
    asked = parser.parse_args(arguments)

    write(
        asked.out,
        notes=asked.notes,
        patients=asked.patients,
        seed=asked.seed,
        concepts=asked.concepts,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
