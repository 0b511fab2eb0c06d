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
    "builds/folder.py": (
        Warned(
            "of its files are missing or damaged",
            "The folder of `--out` was finished, and files of it were removed or changed since.",
            "Nothing: it is built again. Look after the disk if nobody touched them.",
        ),
    ),
    "builds/data_loss.py": (
        Warned(
            "no mention has the label",
            "A label of `annotate.labels` occurs nowhere. Often it is misspelt, there or in "
            "`annotate.rename`.",
            "Compare `annotate.labels` with the labels that the warning names.",
        ),
    ),
    "cli/build.py": (
        Warned(
            "mentions begin or end within a token and were widened",
            "Many mentions of a split do so. Often offsets count something else than characters.",
            "Look at some rows with `inspect`. Set `source.ends`, `source.offsets` or "
            "`source.newlines`.",
        ),
    ),
    "cli/inspect.py": (
        Warned(
            "every token is masked",
            "The options of a strategy hide all tokens of the rows that are shown.",
            "Lower the rates.",
        ),
    ),
    "cli/mask_stats.py": (
        Warned(
            "more tokens are masked by ELM than by BLM",
            "Both clips of Eq. 3 apply, so both weights are 0.5 and say nothing.",
            "Lower `--elm` or raise `--blm`.",
        ),
        Warned("every token is masked", "As above, for a whole split.", "Lower the rates."),
        Warned(
            "rows reach the limit of",
            "A strategy such as `bert` or `whole-word` masks at most 20 tokens of a row, which is "
            "meant for rows of 128, and rows are longer.",
            "Pass `--set max_masked=0`, and `max_masked=0` where you train.",
        ),
    ),
    "cli/vocab/pmi.py": (
        Warned(
            "all n-grams together cover less than --coverage",
            "The corpus has too few n-grams that occur often enough.",
            "Lower `--min-count`.",
        ),
    ),
    "encode/tokenizer.py": (
        Warned(
            "lower-casing text for a vocabulary that has capitals",
            "A `vocab.txt` has capitals, and `encode.lowercase` is true.",
            "Leave `encode.lowercase` out, unless the model was trained so.",
        ),
    ),
    "io/locks.py": (
        Warned(
            "the file system has no locks (flock)",
            "Folders lie on a file system that cannot lock files. Files named `.owner` lock "
            "instead.",
            "Nothing. If a machine died, remove the `.owner` file that it left.",
        ),
        Warned(
            "waiting for another process that holds this lock",
            "Another process builds, fetches or counts in the same place.",
            "Wait, or end the process that the message names.",
        ),
    ),
    "io/private.py": (
        Warned(
            "goes to a folder that others can enter",
            "Patients' text, or what can be turned back into it, is written there.",
            "Close the folder with the `chmod` of the message.",
        ),
    ),
    "lexicon/concepts/common_words.py": (
        Warned(
            "a look for common words among names needs the package wordfreq",
            "`vocab concepts` cannot tell which names of concepts are common words.",
            "`pip install 'mslm-data[vocab]'`, or pass `--common-words keep`.",
        ),
    ),
    "shard/remote.py": (
        Warned(
            "expected room in cache_bytes",
            "The shards that are being read take more room than `cache_bytes` allows.",
            "Pass more `cache_bytes`, or a smaller `open_shards`.",
        ),
    ),
    "source/formats/conll.py": (
        Warned(
            "nearly all words begin with",
            "Words carry the mark of their language or file, as `en:` in WikiANN.",
            "Set `source.word_prefix` to what the warning names, if it does not belong to them.",
        ),
    ),
    "torch/data/epoch.py": (
        Warned(
            "epoch: a second pass over the data",
            "Rows get the same masks as in the pass before.",
            "Set `epoch` before each pass, as the message says.",
        ),
    ),
    "torch/dga/general_knowledge.py": (
        Warned(
            "SoftMasks: no optimizer with the model's own parameters took a step",
            "No step within the `with` moved the model, or an optimizer has copies of its "
            "parameters, as some that shard them do.",
            "Train within the `with`, and give `SoftMasks` the model that is trained.",
        ),
    ),
    "torch/predict/metrics.py": (
        Warned(
            "evaluate: masked=True masks the gold mentions",
            "Masks say where the mentions are, so that scores are too high.",
            "Do not report the numbers as accuracy.",
        ),
    ),
    "torch/model/model.py": (
        Warned(
            "unknown head of model type '…'",
            "`MslmModel` projects all positions to the vocabulary, not only masked ones.",
            "Nothing: losses are the same, but take more memory and time.",
        ),
        Warned(
            "all mentions so far were masked",
            "Heads in one view are trained under a strategy that hides all mentions.",
            "Leave out `two_views=False`, or hide fewer mentions, such as `elm=0.5`.",
        ),
        Warned(
            "the loss is asked for gradients in evaluation mode",
            "A model is trained as `from_pretrained` left it, so dropout is off.",
            "Call `model.train()` before training.",
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
        "Each message says where, what was expected, what came, and what to do. None holds text of",
        "a corpus. Errors that a user can meet are classes of `mslm_data.errors`.",
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
        "Commands write warnings to stderr and go on. In Python they come by the logger",
        "`mslm_data` or, for what a program does itself, as `UserWarning`.",
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
