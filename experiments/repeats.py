"""Find the test rows of the tasks that repeat the text of a training row.

The published splits of ACL-ARC and ChemProt contain such rows. A classifier may have memorised
their labels, whatever its encoder was adapted with. `experiments/repeats.json` holds their indices
and no text, so `python -m experiments.page` can exclude them without the corpora.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import inputs
from experiments.corpora import TASKS

REPEATS = Path(__file__).parent / "repeats.json"


def main() -> int:
    """Write the file from the tasks in the folder `MSLM_DATA_REAL`."""
    indices = {name: repeated(inputs.real() / "tasks" / folder) for name, folder in TASKS.items()}
    REPEATS.write_text(json.dumps(indices) + "\n", encoding="utf-8")
    return 0


def repeated(folder: Path) -> list[int]:
    """Return the indices of a task's test rows that repeat the text of a training row."""
    train, test = (_texts(folder / f"{split}.jsonl") for split in ("train", "test"))
    seen = set(train)
    return [place for place, text in enumerate(test) if text in seen]


def read() -> dict[str, list[int]]:
    """Return task -> indices of its repeated test rows."""
    indices: dict[str, list[int]] = json.loads(REPEATS.read_text(encoding="utf-8"))
    return indices


def _texts(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:  # not splitlines: U+2028 does not end a JSON line
        return [json.loads(line)["text"] for line in file]


if __name__ == "__main__":
    sys.exit(main())
