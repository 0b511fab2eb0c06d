"""Commands made of options: types, limits and defaults of the command line, and both renderings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from click.testing import CliRunner
from click.testing import Result as Done
from msgspec import Meta

from mslm_data.cli.command import argument, make_command, option
from mslm_data.cli.options import FileOrFolder, Positive
from mslm_data.registry import Options
from mslm_data.results import Result, Table

Share = Annotated[float, Meta(ge=0, le=1)]


class Given(Options, frozen=True, kw_only=True):
    """A field of each kind."""

    folder: Annotated[Path, argument("DIR", type=FileOrFolder())]
    other: Annotated[tuple[str, ...], argument("[OTHER]...")] = ()
    rows: Annotated[Positive, option("Maximum number of rows.", metavar="N")] = 5
    rate: Annotated[Share | None, option("Share to mask.")] = None
    to: Annotated[Literal["parquet", "jsonl"], option("Format of the files.")] = "parquet"
    name: Annotated[tuple[str, ...], option("Name of a strategy.")] = ("joint",)
    sizes: Annotated[tuple[Positive, ...], option("Sizes to take.", separator=",")] = ()
    lengths: Annotated[tuple[int, int] | None, option("Range.", separator="-")] = None
    sweep: Annotated[bool, option("Whether to count all.")] = False
    browser: Annotated[bool, option("Whether to open a browser.")] = True
    short: Annotated[bool | None, option("Which.", flags="--drop/--keep")] = None


@dataclass(frozen=True)
class Seen(Result):
    """The options, as a result."""

    options: Given

    @property
    def exit_code(self) -> int:
        return int(self.options.sweep)

    def tables(self) -> Any:
        yield "rows"
        yield Table([("a", 1_000)], head=("", "number"))


@make_command("show", Given)
def command(options: Given) -> Result:
    r"""Show options.

    \b
    Example:
        show DIR
    """
    return Seen(options)


def call(*words: str) -> Done:
    return CliRunner().invoke(command, words, standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("", {}),
        ("x y", {"other": ["x", "y"]}),
        ("--rows 7", {"rows": 7}),
        ("--rate .5", {"rate": 0.5}),
        ("--rate 1", {"rate": 1.0}),
        ("--to jsonl", {"to": "jsonl"}),
        ("--name a --name b,c", {"name": ["a", "b,c"]}),
        ("--name 1", {"name": ["1"]}),
        ("--sizes 1,20,\u00a03", {"sizes": [1, 20, 3]}),
        ("--lengths 2-4", {"lengths": [2, 4]}),
        ("--no-browser", {"browser": False}),
        ("--drop", {"short": True}),
        ("--keep", {"short": False}),
    ],
)
def test_make_command__reads_values_by_their_types(words: str, changed: dict[str, Any]) -> None:
    done = call("d", *words.split(" ") * bool(words), "--json")

    expected = msgspec.to_builtins(Given(folder="d"))  # type: ignore[arg-type]
    assert json.loads(done.output)["options"] == json.loads(json.dumps(expected | changed))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rows 0", "'--rows': expected an integer >= 1, got '0'"),
        ("--rows many", "'--rows': expected an integer, got 'many'"),
        (f"--rows {'9' * 5_000}", "'--rows': expected an integer, got '99"),
        ("--rate 1.1", "'--rate': expected a number <= 1.0, got '1.1'"),
        ("--rate nan", "'--rate': expected a number >= 0.0, got 'nan'"),
        ("--rate null", "'--rate': expected a number, got 'null'"),
        ("--to csv", "'--to': 'csv' is not one of 'parquet', 'jsonl'"),
        ("--sizes 1,0", "'--sizes': expected an integer >= 1, got '1,0'"),
        ("--sizes 1,", "'--sizes': expected an integer, got '1,'"),
        ("--lengths 2-3-4", "'--lengths': expected a list of length 2, got '2-3-4'"),
        ("--row 3", "'--rows'?"),
    ],
)
def test_make_command__rejects_wrong_values_by_name(words: str, message: str) -> None:
    done = call("d", *words.split())

    assert message in done.exception.format_message()  # type: ignore[union-attr]


def test_make_command__prints_tables_and_returns_the_exit_code_of_the_result() -> None:
    assert call("d").output == "rows\n   number\na   1,000\n"
    assert (call("d").return_value, call("d", "--sweep").return_value) == (0, 1)


def test_make_command__help_has_types_defaults_and_limits() -> None:
    text = CliRunner().invoke(command, ["--help"]).output

    assert "DIR [OTHER]..." in text
    assert "  Example:\n      show DIR\n" in text
    assert "Maximum number of rows.  [default: 5; >= 1]" in text
    assert "--to [parquet|jsonl]" in text
    assert "--browser / --no-browser" in text
