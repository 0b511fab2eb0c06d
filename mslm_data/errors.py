"""Errors that a user can meet, one class for each cause.

Every message reads `where: expected, got; what to do` and never holds corpus text: a document's id,
a line number or an offset says where to look. A wrong argument of a Python call is a `ValueError`;
where a command takes the same argument, it is a `CallError`, which is both.
"""

from __future__ import annotations

import os
from pathlib import Path

from mslm_data.log import plain


class MslmDataError(Exception):
    """Base of what this package raises when data, a pipeline or the environment is wrong.

    Ids, labels and file names in its message come from corpora: it is cleaned by `plain`.
    """

    def __init__(self, *words: object) -> None:
        super().__init__(
            *(plain(word, keep="\n") if isinstance(word, str) else word for word in words)
        )


class CallError(MslmDataError, ValueError):
    """Arguments of a call, or options of a command, are out of range or do not go together."""


class PipelineError(MslmDataError):
    """A pipeline file, or a `--set` upon it, is wrong."""


class SourceError(MslmDataError):
    """An input is missing, unreadable, or not in the format that the pipeline names."""


class FetchError(SourceError):
    """A corpus could not be fetched from its public home, or is not the file that was expected."""


class AnnotateError(MslmDataError):
    """A concept model or term table is missing, damaged, or not the one that was asked for."""


class TokenizerError(MslmDataError):
    """A tokenizer could not be loaded or lacks what masking needs."""


class BuildError(MslmDataError):
    """A build cannot start, go on, or finish in this folder."""


class ShardError(MslmDataError):
    """A built folder is unfinished, damaged, or of a format this version does not read."""


class PushError(MslmDataError):
    """A folder or model may not be uploaded, or could not be."""


class ExportError(MslmDataError):
    """An export cannot be written into this folder."""


class VocabularyError(MslmDataError):
    """A lexicon or score column that a strategy needs is missing, damaged, or of other shards."""


class MissingExtraError(MslmDataError):
    """An optional package is needed and not installed."""


def of_the_system(error: OSError) -> str:
    """Return what the system refused, and the path if that is certain; "" for other errors.

    Libraries try texts as paths, which then stand in the error. So a path is named only where its
    folder exists, and nothing else that an error says.
    """
    if error.errno is None:
        return ""
    said = os.strerror(error.errno)
    try:
        path = Path(os.fsdecode(error.filename))
        known = path.parent != Path() and path.parent.is_dir()
    except (OSError, TypeError, ValueError):
        known = False
    return f"{error.filename}: {said}" if known else said
