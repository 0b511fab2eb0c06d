"""Tables of semantic types and their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.annotate.semantic_types import read
from mslm_data.errors import AnnotateError
from mslm_data.io import resources

DISEASE = '[[type]]\ntui = "T047"\nlabel = "Disease"\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"annotate\.types: no file '.*types\.toml'"),
        ("labels = [", "expected labels = .* got DecodeError"),
        (DISEASE, "missing required field `labels`"),
        (f"labels = []\n{DISEASE}", "type T047: expected one of the labels"),
        (
            f'labels = ["Disease", "B"]\n{DISEASE}[[type]]\ntui = "t047"\nlabel = "B"\n',
            "expected one label for each type, got several for T047",
        ),
    ],
)
def test_read__refuses_other_tables(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "types.toml"
    if content is not None:
        path.write_text(content)

    with pytest.raises(AnnotateError, match=message):
        read(str(path))


def test_read__asks_which_of_two_tables_of_one_name_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = resources.path("vocab", "semantic_types.toml").read_text(encoding="utf-8")
    own = tmp_path / "semantic_types.toml"
    monkeypatch.chdir(tmp_path)

    own.write_text(shipped, encoding="utf-8")
    assert read(own.name).label(["T047"]) == "Disease"
    own.write_text(shipped.replace('"Disease"', '"Illness"'), encoding="utf-8")
    assert read(str(own)).label(["T047"]) == "Illness"
    for name in (own.name, f"./{own.name}"):
        with pytest.raises(AnnotateError, match=r"differs from the shipped table of the same name"):
            read(name)
