"""Code of the user: importing it, and explaining its errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mslm_data.cli.own import describe_own_error, import_own
from mslm_data.errors import PipelineError

CODE = """
import json

def late():
    import beside
    return beside.VALUE

def missing():
    return {}["Wilhelmina"]

def within_a_library():
    json.loads("Wilhelmina")

def opens():
    open("weights.json")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with modules of the user."""
    (tmp_path / "of_user.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "beside.py").write_text("VALUE = 3", encoding="utf-8")
    (tmp_path / "raising.py").write_text("int('Wilhelmina')", encoding="utf-8")
    (tmp_path / "unreadable.py").write_text("def f(:", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("of_user", "beside", "raising"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def own(name: str) -> object:
    return import_own(name, where="--callable")


def test_import_own__code_can_import_modules_beside_it_later() -> None:
    late = import_own("of_user:late", where="--callable")

    assert late() == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("json", "expected a function or class, got module"),
        ("json:__name__", "expected a function or class, got str"),
        ("no_such.module:f", "No module named 'no_such'"),
        ("json:no_such", "module 'json' has no attribute 'no_such'"),
        (".relative:f", "got ValueError: in "),
        ("raising:f", r"got ValueError: in raising\.py:1$"),
        ("unreadable:f", r"got SyntaxError: .*unreadable\.py, line 1"),
    ],
)
def test_import_own__explains_what_cannot_be_imported(name: str, message: str) -> None:
    with pytest.raises(PipelineError, match=rf"^--callable: .*{message}"):
        own(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "KeyError in of_user.py:9"),
        ("within_a_library", "JSONDecodeError in of_user.py:12"),
        ("opens", "FileNotFoundError in of_user.py:15: No such file or directory"),
    ],
)
def test_describe_own_error__names_the_line_of_the_user_and_no_text(
    name: str, message: str
) -> None:
    function = import_own(f"of_user:{name}", where="--callable")

    with pytest.raises(Exception) as raised:
        function()

    assert describe_own_error(raised.value, function) == message
