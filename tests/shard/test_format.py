"""FORMAT.md, compared with a build."""

from __future__ import annotations

import json
import re
from pathlib import Path

import mslm_data.shard
from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.data.columns import COLUMNS
from tests import made

PAGE = (Path(mslm_data.shard.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")


def rows_of(table: str) -> dict[str, str]:
    """Return the first two cells of each row of the table with this header."""
    body = PAGE.partition(f"{table}\n")[2].partition("\n\n")[0]
    cells = [re.split(r" \| ", line.strip("| ")) for line in body.splitlines()[1:]]
    return {name: value for names, value, *_ in cells for name in re.findall(r"`(.+?)`", names)}


def test_schema__format_md_declares_each_column_with_its_type() -> None:
    declared = {column.name: column.arrow_type for column in COLUMNS}

    types = rows_of("| column | type | law |")

    assert [*types] == [*declared]
    for name, words in types.items():
        kind = str(declared[name]).replace("item: ", "").replace("float", "float32")
        assert kind in words.split(", "), name


def test_build__writes_the_example_row_of_format_md(tmp_path: Path) -> None:
    sentence = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert sentence is not None
    (tmp_path / "train.tsv").write_text(sentence[1], encoding="utf-8")
    pipeline = made.pipeline_of(
        name="mine", labels=["Chemical", "Disease"], encode={"keep_text": True}
    )

    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)

    row = load(tmp_path / "out")["train"][0]
    shown = {name: value.strip("`") for name, value in rows_of("| column | value |").items()}
    told = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()
    }
    assert shown == told
    assert verify(tmp_path / "out")[1] == []
