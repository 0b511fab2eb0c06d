"""Convert generated notes (`benchmarks.notes`) to the tables of MIMIC-IV-Note.

Radiology and ECG reports are written to `radiology.csv`, other notes to `discharge.csv`, and
authors to the two `*_detail.csv`. Placeholders become `___`; withdrawn notes are skipped. Columns
follow https://mimic.mit.edu/docs/iv/modules/note/.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

COLUMNS = (
    "note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text",
)  # fmt: skip
DETAIL_COLUMNS = ("note_id", "subject_id", "field_name", "field_value", "field_ordinal")
_TYPES = {"discharge": "DS", "radiology": "RR"}
_PLACEHOLDER = re.compile(r"\[\*\*[^\[\]]*\*\*\]")


def write(notes: Path, folder: Path) -> None:
    """Write the four tables.

    Args:
        notes: CSV file with the columns of NOTEEVENTS.
        folder: Output folder, made if needed.
    """
    rows_by_table: dict[str, list[tuple[object, ...]]] = {table: [] for table in _TYPES}
    count: Counter[tuple[str, str]] = Counter()  # (patient, table) -> notes
    with notes.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["ISERROR"]:
                continue
            table = "radiology" if row["CATEGORY"] in ("Radiology", "ECG") else "discharge"
            patient = row["SUBJECT_ID"]
            count[patient, table] += 1
            number = count[patient, table]
            rows_by_table[table].append((
                f"{patient}-{_TYPES[table]}-{number}", patient, row["HADM_ID"], _TYPES[table],
                number, row["CHARTTIME"], row["STORETIME"], _PLACEHOLDER.sub("___", row["TEXT"]),
            ))  # fmt: skip

    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in rows_by_table.items():
        rows.sort(key=lambda row: (int(str(row[1])), row[4]))
        details = [(row[0], row[1], "author", "___", 1) for row in rows]
        _write(folder / f"{table}.csv", COLUMNS, rows)
        _write(folder / f"{table}_detail.csv", DETAIL_COLUMNS, details)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
