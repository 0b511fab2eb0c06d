"""Write the tables of MIMIC-IV-Note from a table of invented notes in the shape of NOTEEVENTS.

`python -m benchmarks.mimic_iv NOTEEVENTS.csv --out note`

Radiology and ECG reports go to `radiology.csv`, other notes to `discharge.csv`, and their authors
to the tables of details that lie beside. Each placeholder is `___`, and withdrawn notes are left
out. The columns are those of https://mimic.mit.edu/docs/iv/modules/note/.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

COLUMNS = (
    "note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text",
)  # fmt: skip
COLUMNS_OF_DETAILS = ("note_id", "subject_id", "field_name", "field_value", "field_ordinal")
_TYPES = {"discharge": "DS", "radiology": "RR"}
_PLACEHOLDER = re.compile(r"\[\*\*[^\[\]]*\*\*\]")


def write(notes: Path, folder: Path) -> None:
    """Write the four tables.

    Args:
        notes: A table with the columns of NOTEEVENTS.
        folder: Where they are written.
    """
    found: dict[str, list[tuple[object, ...]]] = {table: [] for table in _TYPES}
    count: Counter[tuple[str, str]] = Counter()  # of a patient's notes of a type
    with notes.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["ISERROR"]:
                continue
            table = "radiology" if row["CATEGORY"] in ("Radiology", "ECG") else "discharge"
            patient = row["SUBJECT_ID"]
            count[patient, table] += 1
            number = count[patient, table]
            found[table].append((
                f"{patient}-{_TYPES[table]}-{number}", patient, row["HADM_ID"], _TYPES[table],
                number, row["CHARTTIME"], row["STORETIME"], _PLACEHOLDER.sub("___", row["TEXT"]),
            ))  # fmt: skip

    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in found.items():
        rows.sort(key=lambda row: (int(str(row[1])), row[4]))
        details = [(row[0], row[1], "author", "___", 1) for row in rows]
        _write(folder / f"{table}.csv", COLUMNS, rows)
        _write(folder / f"{table}_detail.csv", COLUMNS_OF_DETAILS, details)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def main(arguments: Sequence[str]) -> int:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Write the tables of MIMIC-IV-Note from one in the shape of NOTEEVENTS."
    )
    parser.add_argument("notes", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)

    write(asked.notes, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
