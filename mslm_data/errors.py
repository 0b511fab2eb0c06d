"""Errors for users, a class per kind of cause.

Messages are of the form `where: expected, got; what to do`, and never contain corpus text: document
ids, line numbers and offsets say where to look. Wrong arguments of Python calls raise `ValueError`.
If a command has the same option, they raise `CallError`, which is a `ValueError` too.
"""

from __future__ import annotations

import errno
import os
import traceback
from pathlib import Path

from mslm_data.folders import cache_root
from mslm_data.log import plain

_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space of your quota",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.EFAULT: "check whether an input file was cut short",
    errno.EIO: "check the disk and its connection",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs, or ask for fewer --workers",
}
"""Advice for errors of the system. Other errors are reported in the system's words only."""


class MslmDataError(Exception):
    """Base class of errors in data, pipelines and the environment.

    Commands print the message and end with exit code 1, or 2 for wrong usage. `--debug` adds the
    traceback.

    Messages contain ids, labels and file names of corpora, so special characters are escaped by
    `plain`.
    """

    def __init__(self, *words: object) -> None:
        super().__init__(
            *(plain(word, keep="\n") if isinstance(word, str) else word for word in words)
        )


class CallError(MslmDataError, ValueError):
    """Arguments of a call or options of a command are out of range, or cannot be combined.

    Change the argument named in the message. Nothing was read or written. Arguments without an
    option of a command raise a plain `ValueError`.
    """


class PipelineError(MslmDataError):
    """A pipeline file or an option of it is wrong.

    The message names the file, the table and the option. `mslm-data recipes NAME` prints a shipped
    pipeline to compare with.
    """


class SourceError(MslmDataError):
    """An input is missing, unreadable, or has another format than the pipeline's source.

    The message names the file, and the line, row or byte of the error. Check `--input` and `use` in
    `[source]`. Single unusable documents are not errors: they are set aside, with reasons in
    `set_aside.jsonl`.
    """


class FetchError(SourceError):
    """A corpus could not be downloaded, or is not the expected file.

    Run the same command again; complete files are kept. Without a network, or if the corpus has
    moved, download it elsewhere and pass it with `--input`.
    """


class AnnotateError(MslmDataError):
    """A concept model or term table is missing, damaged, or differs from the expected one.

    Name the model or table with `--set annotate.OPTION=PATH`. The folder is unfinished; to change
    other options of `[annotate]`, use another `--out`.
    """


class TokenizerError(MslmDataError):
    """A tokenizer cannot be loaded, or has no mask token or other special tokens.

    Pass a `tokenizer.json`, a `vocab.txt`, a folder or a hub id. Masking needs a mask token, and
    rows need special tokens at their beginning and end.
    """


class BuildError(MslmDataError):
    """A build cannot start, continue or finish in this folder.

    After an interruption, run the same command again. If the folder has other content, choose
    another `--out`. If too many documents were lost, the message lists the reasons with the options
    that help.
    """


class ShardError(MslmDataError):
    """A built folder is unfinished, damaged, or of a format that this version cannot read.

    To finish an unfinished folder, run the build's command again. To find all damage, run
    `mslm-data verify DIR`; copy or build a damaged folder again.
    """


class PushError(MslmDataError):
    """A folder or model cannot be uploaded, or must not be.

    Patients' text must not be shared. For other folders, log in to the hub, and check that you may
    write to the repository.
    """


class ExportError(MslmDataError):
    """An export cannot be written to this folder.

    Choose another `--out`, or remove the folder. An interrupted export leaves no folder, so run the
    same command again.
    """


class VocabularyError(MslmDataError):
    """A lexicon or score column of a strategy is missing, damaged, or of another folder.

    Make it with the command in the message, such as `mslm-data vocab pmi DIR`, for the folder to
    mask.
    """


class MissingExtraError(MslmDataError):
    """A required optional package is not installed.

    Run the command at the end of the message.
    """


def system_message(error: OSError) -> str:
    """Return the system's message for an error, with its path if that is safe; "" for other errors.

    Libraries may treat text as a path, which the error then contains. So the path is included only
    if its folder exists. If the disk is full and the path is unknown, the cache folder is named
    too, because compiled kernels are written there.
    """
    if error.errno is None:
        return ""
    message = os.strerror(error.errno)
    # A library's error may contain text instead of a path, which can even be invalid as a path.
    try:
        path = Path(os.fsdecode(error.filename))
        known = path.parent != Path() and path.parent.is_dir()
    except (OSError, TypeError, ValueError):
        known = False
    if not known and error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"{message}, on the disk of --out or of the cache folder {cache_root()}"
    return f"{error.filename}: {message}" if known else message


def explain_system_error(error: OSError) -> str:
    """Return the system's message for an error with advice, if any helps; "" for other errors."""
    message = system_message(error)
    advice = _ADVICE.get(error.errno or 0)
    return f"{message}; {advice}, then run the same command again" if advice else message


def place_of(error: BaseException, *, of_file: str | None = None) -> str:
    """Return the file and line that raised an exception, such as `reader.py:12`; "" if unknown.

    Args:
        error: The exception.
        of_file: Path of a file whose last line in the traceback is returned, if it has one.
    """
    every = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in every if frame.filename == of_file] or every
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
