"""Generate notes with the columns of MIMIC-III's NOTEEVENTS.

The table has the traps of the real one: newlines and doubled quotes in TEXT, empty fields, CRLF
notes, placeholders (some across lines), withdrawn notes, categories with a trailing space, and
copied notes. Equal arguments give equal bytes. Notes are joined from pregenerated sections, which
gives tens of thousands of notes per second on one core.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
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
_VARIANTS = 300  # pregenerated variants of each section
_SLOT = re.compile(r"\{([a-z])\}")

Terms = Mapping[str, Sequence[str]]


def terms(path: Path) -> Terms:
    """Return slot -> terms of a concept table, with those of `phrases` for empty slots."""
    terms_by_slot: dict[str, list[str]] = {slot: [] for slot in TERMS}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            types = set(re.split(r"[|,;\s]+", row["type_ids"]))
            for slot, wanted in TYPES.items():
                if types & wanted:
                    terms_by_slot[slot] += row["name"].split("|")
    return {slot: tuple(terms_by_slot[slot]) or TERMS[slot] for slot in TERMS}


class Writer:
    """Generate notes from one stream of random numbers."""

    def __init__(self, *, seed: int, known: Terms) -> None:
        self._rng = random.Random(seed)
        self._known = known
        self._sections = [
            [self._section(head, form) for _ in range(_VARIANTS)] for head, form in SECTIONS
        ]

    def rows(self, notes: int, patients: int) -> Iterator[bytes]:
        """Yield table rows, each with its line end."""
        rng = self._rng
        last: dict[int, bytes] = {}
        for i in range(notes):
            patient = 10_000 + (i if i < patients else rng.randrange(patients)) * 7

            # A copied note repeats the last one of the patient, as in real records.
            copied = rng.random() < 0.15 or i % 40 == 39
            text = last.get(patient) if copied else None
            if text is None:
                text = self._text(i)
                last[patient] = text
            yield self._row(i, patient, text)

    def _row(self, i: int, patient: int, text: bytes) -> bytes:
        rng = self._rng
        category, description = CATEGORIES[i % len(CATEGORIES)]
        admission = (
            ""
            if category in ("Radiology", "ECG") and rng.random() < 0.5
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
        """Return a note with doubled quotes; every 43rd has CRLF line ends."""
        rng = self._rng
        day = f"[**{2100 + i % 100}-{1 + i % 12}-{1 + i % 28}**]"
        head = f"Admission Date:  {day}       Unit No:  [**Numeric Identifier {i}**]\n\n"

        chosen = sorted(rng.sample(range(len(SECTIONS)), rng.randint(3, 7)))
        parts = [self._sections[s][int(rng.random() * _VARIANTS)] for s in chosen]
        text = head.encode() + b"\n".join(parts)

        return text.replace(b"\n", b"\r\n") if i % 43 == 11 else text

    def _section(self, head: str, form: str) -> bytes:
        rng = self._rng
        if form == "prose":
            body = textwrap.fill(" ".join(self._sentence() for _ in range(rng.randint(3, 7))), 74)
        elif form == "list":
            body = "\n".join(f"{k}. {self._fill('{d}')}" for k in range(1, rng.randint(3, 7)))
        elif form == "drugs":
            body = "\n".join(self._fill("- {t} {n} mg PO DAILY") for _ in range(rng.randint(2, 6)))
        elif form == "allergies":
            body = self._fill(
                rng.choice(("   {t} / {t}", "   No Known Drug Allergies", "   {t} (rash)"))
            )
        else:
            body = "\n".join(
                f"# {self._fill('{d}')}: {self._sentence()}" for _ in range(rng.randint(2, 4))
            )
        return f"{head}\n{body}\n".replace('"', '""').encode()

    def _sentence(self) -> str:
        text = self._fill(self._rng.choice(SENTENCES))
        return text[:1].upper() + text[1:]

    def _fill(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self._word(slot[1]), text)

    def _word(self, slot: str) -> str:
        rng = self._rng
        if slot in self._known:
            return rng.choice(self._known[slot])
        if slot in PLACEHOLDERS:
            return self._fill(rng.choice(PLACEHOLDERS[slot]))

        low, high = {"n": (11, 99), "y": (2100, 2199), "m": (1, 12), "k": (1, 9)}[slot]
        return str(rng.randint(low, high))


def write(
    path: Path, *, notes: int, patients: int = 0, seed: int = 0, concepts: Path = CONCEPTS
) -> None:
    """Write a table of notes.

    Args:
        path: CSV file, compressed if its name ends with `.gz`.
        notes: Number of notes.
        patients: Number of patients. Default: 0, one per 45 notes, as in MIMIC-III.
        seed: Random seed. Default: 0.
        concepts: Concept table with the names to use in notes. Default: the shipped sample.
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
