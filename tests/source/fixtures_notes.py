"""A small table of notes of our own, with what breaks naive readers of NOTEEVENTS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.source.fixtures import Broken, Fixture

HEADER = '"ROW_ID","SUBJECT_ID","HADM_ID","CATEGORY","DESCRIPTION","CGID","ISERROR","TEXT"\n'
ROWS = (
    '7,31,,"Physician ","Note ""STAT""",,,"Zorbic fever\n\nHe said ""ow"", twice.\n"\n',
    '8,32,104,"Nursing",Note,5,,"Path C:\\n\\"\n',
    "9,31,,ECG,,,,Quillon rash without quotes\n",
    '10,33,,"Radiology","a, b",,0,"[**2151-7-16**] and [**Last Name (un)\n 45**] é"\n',
)
TEXTS = (
    'Zorbic fever\n\nHe said "ow", twice.\n',
    "Path C:\\n\\",
    "Quillon rash without quotes",
    "[**2151-7-16**] and [**Last Name (un)\n 45**] é",
)


def notes(folder: Path) -> Fixture:
    train = folder / "NOTES_train.csv"
    train.write_text(HEADER + "".join(ROWS), encoding="utf-8", newline="")
    (folder / "NOTES_test.csv").write_text(
        HEADER + '1,2,,"x",,,,"Fin"\n', encoding="utf-8", newline=""
    )

    def broken() -> Broken:
        flagged = ROWS[2].replace("ECG,,,,", "ECG,,,1,")
        train.write_text(
            HEADER + ROWS[0] + ROWS[1] + flagged + ROWS[3], encoding="utf-8", newline=""
        )
        return Broken("9", f"{train.name}:7")

    expected = {
        "train": [
            (doc_id, text, ()) for doc_id, text in zip(("7", "8", "9", "10"), TEXTS, strict=True)
        ],
        "test": [("1", "Fin", ())],
    }
    return Fixture([folder], {}, expected, broken, variants=("bom", "unterminated", "gz"))


FIXTURES_NOTES: dict[str, Callable[[Path], Fixture]] = {"notes": notes}
