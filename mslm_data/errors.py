"""Errors that a user can meet, one class for each cause.

Every message reads `where: expected, got; what to do` and never holds corpus text: a document's id,
a line number or an offset says where to look. A wrong argument of a Python call is a `ValueError`;
where a command takes the same argument, it is a `CallError`, which is both.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mslm_data.folders import cache_root
from mslm_data.log import plain


class MslmDataError(Exception):
    """Base of what this package raises when data, a pipeline or the environment is wrong.

    Catch it to catch all of them. A command prints the message and ends with exit code 1, or 2
    for a wrong call. `--debug` shows the traceback too.

    Ids, labels and file names in its message come from corpora: it is cleaned by `plain`.
    """

    def __init__(self, *words: object) -> None:
        super().__init__(
            *(plain(word, keep="\n") if isinstance(word, str) else word for word in words)
        )


class CallError(MslmDataError, ValueError):
    """Arguments of a call, or options of a command, are out of range or do not go together.

    Give the argument that the message names another value. Nothing was read or written. A wrong
    argument of a Python call that no command has is a plain `ValueError`.
    """


class PipelineError(MslmDataError):
    """A pipeline file, or a `--set` upon it, is wrong.

    The message names the file, the table and the option. `mslm-data recipes NAME` prints a
    shipped pipeline to compare with.
    """


class SourceError(MslmDataError):
    """An input is missing, unreadable, or not in the format that the pipeline names.

    The message names the file, and the line, row or byte where reading ended. Check `--input` and
    `use` of the table `[source]`. Documents that cannot be used do not raise it: they are set
    aside, with their reasons in `set_aside.jsonl`.
    """


class FetchError(SourceError):
    """A corpus could not be fetched from its public home, or is not the file that was expected.

    Run the same command again: files that arrived whole are kept. Without a network, or if the
    corpus has moved, fetch it elsewhere and pass it with `--input`.
    """


class AnnotateError(MslmDataError):
    """A concept model or term table is missing, damaged, or not the one that was asked for.

    Name the table or model with `--set annotate.OPTION=PATH`. The folder is not finished; other
    options of `[annotate]` need another `--out`.
    """


class TokenizerError(MslmDataError):
    """A tokenizer could not be loaded or lacks what masking needs.

    Pass a `tokenizer.json`, a `vocab.txt`, a folder or a hub id. Masking needs a mask token, and
    rows need the special tokens that begin and end them.
    """


class BuildError(MslmDataError):
    """A build cannot start, go on, or finish in this folder.

    If the build was interrupted, run the same command again. If the folder holds something else,
    choose another `--out`. If too many documents were lost, the message lists the reasons, each
    with the option that would help.
    """


class ShardError(MslmDataError):
    """A built folder is unfinished, damaged, or of a format this version does not read.

    Run the build's command again to finish an unfinished folder. `mslm-data verify DIR` finds all
    damage; a damaged folder is copied or built again.
    """


class PushError(MslmDataError):
    """A folder or model may not be uploaded, or could not be.

    Patients' text must not be shared, so the message is mostly right to refuse. For any other
    folder, log in to the hub and check that you may write there.
    """


class ExportError(MslmDataError):
    """An export cannot be written into this folder.

    Choose another `--out`, or remove the folder. An export that was interrupted leaves no folder
    behind, so the same command can be run again.
    """


class VocabularyError(MslmDataError):
    """A lexicon or score column that a strategy needs is missing, damaged, or of other shards.

    Make it with the command that the message names, such as `mslm-data vocab pmi DIR`, for the
    folder whose rows are masked.
    """


class MissingExtraError(MslmDataError):
    """An optional package is needed and not installed.

    Run the line that the message ends with.
    """


def system_message(error: OSError) -> str:
    """Return what the system refused, and the path if that is certain; "" for other errors.

    Libraries try texts as paths, which then stand in the error. So a path is named only where its
    folder exists, and nothing else that an error says. Of a full disk without a path the cache
    folder is named, where kernels are kept that numba compiles.
    """
    if error.errno is None:
        return ""
    said = os.strerror(error.errno)
    try:
        path = Path(os.fsdecode(error.filename))
        known = path.parent != Path() and path.parent.is_dir()
    except (OSError, TypeError, ValueError):
        known = False
    if not known and error.errno in (errno.ENOSPC, errno.EDQUOT):
        said = f"{said}, where --out or the cache folder {cache_root()} lies"
    return f"{error.filename}: {said}" if known else said
