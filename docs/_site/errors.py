"""Generate the page of errors and warnings, with messages from actual commands."""

from __future__ import annotations

import contextlib
import inspect
import io
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mslm_data as md
from mslm_data import errors
from mslm_data.cli import cli
from mslm_data.errors import MslmDataError
from mslm_data.io import resources

_SAMPLE = "mslm-data build --source blurb/ncbi-disease --sample --out shards/mine"
CALLS: dict[str, str] = {
    "CallError": f"{_SAMPLE} --input corpus",
    "PipelineError": f"{_SAMPLE} --set encode.max_token=128",
    "SourceError": (
        "mslm-data build --source blurb/ncbi-disease --input corpus"
        " --tokenizer tokenizer.json --out shards/mine"
    ),
    "FetchError": (
        "mslm-data build --source mine.toml --tokenizer tokenizer.json --out shards/mine"
    ),
    "AnnotateError": f"{_SAMPLE} --set annotate.use=terms",
    "TokenizerError": f"{_SAMPLE} --tokenizer old/tokenizer.json",
    "BuildError": "mslm-data build --source blurb/bc2gm --sample --out exported",
    "ShardError": "mslm-data mask-stats shards/mine",
    "PushError": "mslm-data push shards/notes my-notes",
    "ExportError": "mslm-data export shards/ncbi --to parquet --out exported",
    "VocabularyError": "mslm-data mask-stats shards/ncbi --strategy pmi",
    "MissingExtraError": "mslm-data vocab anchors shards/ncbi --general wordfreq",
}
"""Error class -> command that raises it in the folder of `_prepared`."""


class Warned(NamedTuple):
    """A warning.

    Attributes:
        message: The message, shortened.
        when: Situation in which it is given.
        advice: What to do.
    """

    message: str
    when: str
    advice: str


WARNINGS: dict[str, tuple[Warned, ...]] = {
    "builds/copies.py": (
        Warned(
            "texts are also in",
            "More than 1 % of the texts of a split are in another split too.",
            "List them with `mslm-data overlap`, and see overlap.md.",
        ),
        Warned(
            "texts equal an earlier text of the split",
            "More than 1 % of the texts of a split are there more than once.",
            "Drop copies with `source.duplicates`, if they should not count twice.",
        ),
    ),
    "builds/units.py": (
        Warned(
            "is set aside, as a worker process died at it",
            "A document killed the process that annotates it, and `source.on_crash` is `skip`.",
            "Look for the document at the place in the message.",
        ),
    ),
    "builds/finish.py": (
        Warned(
            "of its files are missing or damaged",
            "Files of the finished folder at `--out` were removed or changed.",
            "Nothing; the folder is built again. If nobody touched it, check the disk.",
        ),
    ),
    "cli/subset.py": (
        Warned(
            "split 'train' has only 15 of Disease",
            "`mslm-data subset --shots` asks for more mentions than the split has of a label. All "
            "documents with the label are taken.",
            "Choose fewer shots, or compare labels with as many mentions only.",
        ),
    ),
    "builds/data_loss.py": (
        Warned(
            "no mention that is kept has the label",
            "A label of `annotate.labels` does not occur in the rows. It may be misspelt, here or "
            "in `annotate.rename`, or all of its mentions were left out.",
            "Compare `annotate.labels` with the labels in the warning.",
        ),
    ),
    "cli/build.py": (
        Warned(
            "mentions begin or end within a token and were widened",
            "Many mentions of a split do not match tokens. The offsets may not be in characters.",
            "Inspect some rows with `inspect`. Set `source.ends`, `source.offsets` or "
            "`source.newlines`.",
        ),
    ),
    "cli/inspect.py": (
        Warned(
            "every token is masked",
            "The strategy masks all tokens of the printed rows.",
            "Lower the rates.",
        ),
    ),
    "cli/mask_stats.py": (
        Warned(
            "more tokens are masked by ELM than by BLM",
            "Both weights are clipped by Eq. 3, so they are 0.5 whatever the counts.",
            "Lower `--elm` or raise `--blm`.",
        ),
        Warned(
            "every token is masked",
            "The strategy masks all tokens of the split.",
            "Lower the rates.",
        ),
        Warned(
            "the strategy masks mentions, but no row has a mention",
            "The corpus was built without mentions.",
            "Build it with an annotator, or choose a strategy without mentions, such as `token`.",
        ),
        Warned(
            "rows reach the limit of",
            "Strategies such as `bert` and `whole-word` mask at most 20 tokens of a row, a limit "
            "for rows of 128 tokens. These rows are longer.",
            "Pass `--set max_masked=0`, and set `max_masked=0` in training.",
        ),
    ),
    "cli/vocab/pmi.py": (
        Warned(
            "all n-grams together cover less than --coverage",
            "The corpus has too few frequent n-grams.",
            "Lower `--min-count`.",
        ),
    ),
    "encode/tokenizer.py": (
        Warned(
            "lower-casing text for a vocabulary that has capitals",
            "The `vocab.txt` has capitals, and `encode.lowercase` is true.",
            "Remove `encode.lowercase`, unless the model was trained with it.",
        ),
    ),
    "io/locks.py": (
        Warned(
            "the file system has no locks (flock)",
            "The file system does not support locks. `.owner` files are used instead.",
            "Nothing. After a crash of the machine, remove its `.owner` file.",
        ),
        Warned(
            "waiting for another process that holds this lock",
            "Another process builds, fetches or counts in the same folder.",
            "Wait, or end the process in the message.",
        ),
    ),
    "io/private.py": (
        Warned(
            "goes to a folder that others can enter",
            "Text of patients, or token ids of it, is written to this folder.",
            "Run the `chmod` command in the message.",
        ),
    ),
    "lexicon/concepts/common_words.py": (
        Warned(
            "a look for common words among names needs the package wordfreq",
            "`vocab concepts` cannot detect names of concepts that are common words.",
            "`pip install 'mslm-data[vocab]'`, or pass `--common-words keep`.",
        ),
    ),
}
"""Module -> its warnings. A test compares the modules with the code."""


def classes() -> list[type[MslmDataError]]:
    """Return all error classes except the base, in the order of the module."""
    return [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, MslmDataError) and kind is not MslmDataError
    ]


def page() -> str:
    """Render the page, with a message of each class."""
    base = inspect.cleandoc(MslmDataError.__doc__ or "")
    lines = [
        "# Errors and warnings",
        "",
        "Each message gives the file or option, the expected and the actual value, and a fix. None",
        "contains text of a corpus. Errors that users can meet are classes of `mslm_data.errors`.",
        "",
        "## All errors",
        "",
        "`MslmDataError` is the base of all. " + _paragraph(base, 1),
        "",
        "| class | raised where |",
        "|---|---|",
    ]
    for kind in classes():
        description = _paragraph(inspect.cleandoc(kind.__doc__ or ""), 0)
        lines.append(f"| [{kind.__name__}](#{kind.__name__.lower()}) | {description} |")
    lines.append("")

    with _prepared():
        for kind in classes():
            lines += _section(kind)
    return "\n".join([*lines, *_warnings()])


def _section(kind: type[MslmDataError]) -> list[str]:
    """Return the section of a class, with its command and message."""
    description = inspect.cleandoc(kind.__doc__ or "")
    bases = " and a ".join(f"`{base.__name__}`" for base in kind.__bases__)
    call = CALLS[kind.__name__]
    prefix = "Error" if kind is errors.CallError else "error"
    return [
        f"## {kind.__name__}",
        "",
        f"{_paragraph(description, 0)} It is a {bases}.",
        "",
        "```{code-block} console",
        ":class: wrapped",
        "",
        f"$ {call}",
        f"{prefix}: {error_message(kind, call)}",
        "```",
        "",
        f"**What to do.** {_paragraph(description, 1)}",
        "",
    ]


def error_message(kind: type[MslmDataError], call: str) -> str:
    """Run a command, and return the message of the error it raises.

    Raises:
        AssertionError: The command does not raise an error of this class.
    """
    silent = io.StringIO()
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            cli.main(shlex.split(call)[1:], prog_name="mslm-data", standalone_mode=False)
    except kind as error:
        if type(error) is kind:
            return str(error)
        raise
    raise AssertionError(f"{call}: expected {kind.__name__}, got none")


@contextlib.contextmanager
def _prepared() -> Iterator[None]:
    """Work in a folder with two built samples, an export, and a pipeline without `source.fetch`.

    The package wordfreq appears as not installed.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        _without_package("wordfreq"),
    ):
        shards = md.build("blurb/ncbi-disease", sample=True, out="shards/ncbi", workers=1)

        # A protected folder. Building notes, which are protected, needs additional packages.
        protected = {"about.protected": True}
        md.build("blurb/bc5cdr-chem", sample=True, out="shards/notes", options=protected, workers=1)
        silent = io.StringIO()
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            call = ["export", str(shards.folder), "--to", "jsonl", "--out", "exported"]
            cli.main(call, prog_name="mslm-data", standalone_mode=False)

        pipeline = resources.pipeline_text("blurb/ncbi-disease").split("[[source.fetch]]")[0]
        Path("mine.toml").write_text(pipeline, encoding="utf-8")
        tokenizer = Path("shards/ncbi/tokenizer.json")
        Path("tokenizer.json").write_bytes(tokenizer.read_bytes())
        yield


@contextlib.contextmanager
def _without_package(package: str) -> Iterator[None]:
    """Make a package appear as not installed.

    `mock.patch.dict(sys.modules)` is no alternative: on exit it removes all modules imported since,
    and numba compiles wrong code for functions of removed modules.
    """
    before = sys.modules.get(package)
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
        if before is not None:
            sys.modules[package] = before


def _warnings() -> list[str]:
    """Return the section of warnings."""
    lines = [
        "## Warnings",
        "",
        "Commands print warnings to stderr and continue. In Python, warnings about data and files",
        "use the logger `mslm_data`, warnings about calls of your program are `UserWarning`.",
        "",
        "| warning | given where | what to do |",
        "|---|---|---|",
    ]
    for warned in WARNINGS.values():
        lines += [
            f"| {warning.message} | {warning.when} | {warning.advice} |" for warning in warned
        ]
    return [*lines, ""]


def _paragraph(text: str, number: int) -> str:
    """Return a paragraph of a docstring as one line."""
    return " ".join(text.split("\n\n")[number].split())
