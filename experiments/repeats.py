"""Write which test rows of the tasks stand in their training rows too, word for word.

The published splits of ACL-ARC and ChemProt have such rows. A classifier may know their labels by
heart, whatever its encoder was adapted with. `experiments/repeats.json` has their places and no
text, so that `python -m experiments.page` can leave them out without the corpora.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import inputs
from experiments.corpora import TASKS

REPEATS = Path(__file__).parent / "repeats.json"


def main() -> int:
    """Write the file, from the tasks below the folder that `MSLM_DATA_REAL` names."""
    found = {name: repeated(inputs.real() / "tasks" / folder) for name, folder in TASKS.items()}
    REPEATS.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return 0


def repeated(folder: Path) -> list[int]:
    """Return the places of a task's test rows whose text is that of a training row, from 0 on."""
    train, test = (_texts(folder / f"{split}.jsonl") for split in ("train", "test"))
    seen = set(train)
    return [place for place, text in enumerate(test) if text in seen]


def read() -> dict[str, list[int]]:
    """Return the name of each task -> the places of its repeated test rows."""
    found: dict[str, list[int]] = json.loads(REPEATS.read_text(encoding="utf-8"))
    return found


def _texts(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:  # whose lines end at "\n" alone, as JSON's do
        return [json.loads(line)["text"] for line in file]


if __name__ == "__main__":
    sys.exit(main())
