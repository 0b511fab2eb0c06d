"""Names stand for one thing, and words that a stranger reads can be understood alone.

The first half looks at names, the second at docstrings, comments, help texts and messages. The
patterns are few and plain: they catch what once had to be decoded, and no checker knows all of that.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from mslm_data.cli import COMMANDS, cli

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mslm_data"

MANY_MODULES = {
    "__init__": "Python's own name",
}
"""Names that three modules or more may have, with the reason. Modules of `cli/` are not counted: they
are named after their commands."""

FIRST_WORDS = ("See", "Say", "Says", "What", "Which", "Who", "That", "Others")
"""Words that begin no docstring and no help text: they name no subject, or point elsewhere."""

PHRASES = {
    r"so the next": "repeat the sentence, or name both subjects",
    r"\b[Ll]ikewise\b": "repeat the sentence, or name both subjects",
    r"(?<![Tt]here )\b(is|are) no\b": "say 'is not'",
    r"(?<![Tt]here )\b(is|are) none\b": "say what it is",
    r"(?<![Tt]here )\bis nothing\b": "say 'does nothing'",
    r"\bof no use\b": "say 'unused'",
    r"\bat (the )?least, ": "say 'minimum'",
    r"\b(who|for whom) (looks|asks|wants|needs)\b": "say 'callers that'",
    r"\brising and apart\b": "say 'sorted' and 'must not overlap'",
    r"\b(goes|go|went) on where\b": "say 'resume'",
    r"\bare to lie\b": "say 'lie'",
}
"""Pattern -> what to write in its place."""

BEFORE = [
    "Say which.",
    "Go to the first batch of an epoch; to the one that is, is nothing, so a resumed one goes on.",
    "shuffle: See `ShardSampler`; so the next two.",
    "the next is of no use",
    "None believes the file's digest without a look, for who looks himself.",
    "Occurrences at least, of all lengths or of each.",
    "In place of a size: the share of tokens that are to lie in an entry.",
    "'dga' is no mask of text",
    "rows: expected mentions within their row, rising and apart, got others",
    "A build that was ended goes on where it stopped by the same command.",
]
AFTER = [
    "Configure the batches of one epoch.",
    "Start `epoch` from its first batch. Does nothing if it is the current one, so a resumed run continues.",
    "shuffle, bucketed, drop_last: Passed to `ShardSampler`.",
    "Item U may hold scratch data.",
    "None skips the checks, for callers that do their own.",
    "Minimum number of occurrences: one number, or one per n-gram length.",
    "Keep as many n-grams as needed to cover this share of the tokens.",
    "'dga' is not a text-masking strategy",
    "row 3: mentions must be sorted, must not overlap, and must end within the row",
    "Run the same command again to resume an interrupted build.",
    "An average is None where there is no mention, and 0 where there are none.",
]


class Text(NamedTuple):
    """A text that people read.

    Attributes:
        place: Where it stands, as `file:line` or the command's name.
        words: The text, on one line.
        opens: Whether it is a docstring or a help text, which begins with a subject or a verb.
    """

    place: str
    words: str
    opens: bool


def problems(words: str, *, opens: bool = True) -> list[str]:
    """Return what is wrong with a text, each with what to write instead."""
    found = [
        f"'{pattern}': {instead}"
        for pattern, instead in PHRASES.items()
        if re.search(pattern, words)
    ]
    first = re.match(r"\w+", words)
    if opens and first is not None and first[0] in FIRST_WORDS:
        found.append(f"begins with '{first[0]}': begin with a verb or the subject")
    return found


@lru_cache(maxsize=1)
def trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    }


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def one_line(text: str) -> str:
    return " ".join(text.split())


def docstrings_and_messages() -> Iterator[Text]:
    """Yield every string of the package; those that stand alone are docstrings."""
    for path, tree in trees().items():
        alone = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Text(place(path, node.lineno), one_line(node.value), id(node) in alone)


def comments() -> Iterator[Text]:
    """Yield every comment of the package; lines that follow each other are one."""
    for path in trees():
        text = path.read_text(encoding="utf-8")
        last, start, words = -1, -1, ""
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT:
                continue
            line = token.start[0]
            said = token.string.lstrip("#: ")
            if line == last + 1:
                words = f"{words} {said}"
            else:
                yield Text(place(path, start), words, opens=False)
                start, words = line, said
            last = line
        yield Text(place(path, start), words, opens=False)


def help_texts() -> Iterator[Text]:
    """Yield the help of every command and option."""
    for name, line in COMMANDS.items():
        yield Text(f"mslm-data --help, {name}", line, opens=True)

    to_do: list[tuple[str, click.Command]] = [("mslm-data", cli)]
    while to_do:
        name, command = to_do.pop()
        yield Text(f"{name} --help", one_line(command.help or ""), opens=True)
        for option in command.params:
            words = getattr(option, "help", None) or ""
            yield Text(f"{name} {option.opts[0]}", one_line(words), opens=True)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                to_do.append((f"{name} {child}", found))


def is_public(name: str) -> bool:
    return not name.startswith("_")


def documented(node: ast.ClassDef) -> set[str]:
    """Return the methods of a class that have a docstring."""
    return {
        method.name
        for method in node.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }


# Names ---------------------------------------------------------------------------------------------


def test_public_classes__each_name_stands_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and is_public(node.name):
                places[node.name].append(place(path, node.lineno))

    twice = {name: where for name, where in places.items() if len(where) > 1}

    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in twice.items())


def test_modules__no_name_stands_three_times() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in trees():
        if PACKAGE / "cli" not in path.parents:
            places[path.stem].append(str(path.relative_to(ROOT)))

    often = {n: where for n, where in places.items() if len(where) > 2 and n not in MANY_MODULES}

    assert not often, "\n".join(f"{name}: {', '.join(where)}" for name, where in often.items())


def test_public_methods__have_a_docstring_or_override_one_that_has() -> None:
    inherited = set().union(
        *(
            documented(node)
            for tree in trees().values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            and any(
                isinstance(base, ast.Name) and base.id in ("ABC", "Protocol") for base in node.bases
            )
        )
    )

    silent = [
        f"{place(path, method.lineno)}: {node.name}.{method.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and is_public(node.name)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        and is_public(method.name)
        and method.name not in documented(node) | inherited
    ]

    assert not silent, "\n".join(silent)


# Words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", BEFORE)
def test_problems__what_had_to_be_decoded_is_found(words: str) -> None:
    assert problems(words)


@pytest.mark.parametrize("words", AFTER)
def test_problems__plain_words_pass(words: str) -> None:
    assert not problems(words)


@pytest.mark.parametrize("texts", [docstrings_and_messages, comments, help_texts])
def test_package__reads_alone(texts) -> None:
    found = [
        f"{text.place}: {problem}: {text.words[:100]}"
        for text in texts()
        for problem in problems(text.words, opens=text.opens)
    ]

    assert not found, f"{len(found)} texts\n" + "\n".join(found)


def test_docstrings__what_continues_a_bullet_is_indented() -> None:
    """A line at the margin ends the list, in the manual and in the comments of a printed strategy."""
    broken = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            lines = (ast.get_docstring(node) or "").splitlines()
            for line, following in pairwise(lines):
                bullet = re.match(r" *\* ", line)
                if bullet is None:
                    continue
                before = following[: bullet.end()].strip()
                if before and not before.startswith("*"):
                    broken.append(f"{path.relative_to(ROOT)}: {line.strip()[:60]}")

    assert not broken, "\n".join(broken)


def test_decisions__name_what_is_there() -> None:
    """How to undo a decision is said as `NAME` in `FILE`, which moves and is renamed."""
    decisions = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w.]+)`(?: and `[\w.]+`)?\s+in\s+`([\w/.-]+\.\w+)`", decisions)

    gone = []
    for name, file in places:
        path = next((root / file for root in (PACKAGE, ROOT) if (root / file).is_file()), None)
        if path is None or name.rpartition(".")[2] not in path.read_text(encoding="utf-8"):
            gone.append(f"{name} in {file}")

    assert len(places) > 20
    assert not gone, "\n".join(gone)
