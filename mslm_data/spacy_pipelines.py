"""Loads and hashes spaCy pipelines, and splits texts to the length that they accept."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mslm_data import _optional
from mslm_data.data.document import Placeholder
from mslm_data.errors import AnnotateError
from mslm_data.io.files import hash_file

PIECE = 100_000
"""Maximum number of characters parsed at once; more need too much memory.

spaCy's own limit is 1,000,000 (error E088).
"""

StageName: TypeAlias = Literal["annotate", "segment"]
"""The stages that use pipelines, each with an option `model`."""
_WANTED_BY = {"annotate": "annotator 'spacy'", "segment": "segmenter 'spacy'"}

_CUTS = ("\n\n", "\n", " ")
"""Preferred ends of a piece, best first."""


@cache
def load_pipeline(model: str, stage: StageName, exclude: tuple[str, ...] = ()) -> Any:
    """Load a trained pipeline. Cached per process, until `digest_pipeline` is called.

    Args:
        model: Name of an installed pipeline, or its folder. Loading may execute code of the
            pipeline.
        stage: The stage that needs it, for error messages.
        exclude: Components to skip.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: The pipeline is missing, or incompatible with the installed spaCy.
    """
    spacy = _optional.load("spacy", wanted_by=_WANTED_BY[stage])
    folder = _find_folder(model, stage)
    # By a name, spaCy would prefer an installed package to the folder.
    source = folder if folder == Path(model) else model
    try:
        return spacy.load(source, exclude=list(exclude))
    except (OSError, ValueError, ImportError) as error:
        raise AnnotateError(
            f"{_WANTED_BY[stage]}: spaCy {spacy.__version__} cannot load '{model}' "
            f"({type(error).__name__}); `python -m spacy validate` lists compatible versions"
        ) from error


def _find_folder(model: str, stage: StageName) -> Path:
    """Find the folder of a pipeline without importing it.

    Raises:
        AnnotateError: The pipeline is missing, or none is named.
    """
    if not model:
        raise AnnotateError(
            f"{_WANTED_BY[stage]}: no model given; set its option model to an installed pipeline "
            f"or a folder, such as --set {stage}.model=MODEL"
        )
    path = Path(model)
    if (path / "config.cfg").is_file():
        return path
    spec = importlib.util.find_spec(model) if model.isidentifier() else None
    locations = spec.submodule_search_locations if spec else None
    if not locations or not (Path(locations[0]) / "meta.json").is_file():
        raise AnnotateError(
            f"{_WANTED_BY[stage]}: no spaCy pipeline '{model}' is installed, and no folder of that "
            "name has a config.cfg; install it with `python -m spacy download NAME` or pip, or "
            "pass its folder"
        )
    return Path(locations[0])


def digest_pipeline(model: str, stage: StageName) -> str:
    """Return the SHA-256 of spaCy's version and all files of a pipeline.

    Clears the cache of `load_pipeline`, so that the pipeline loaded next has the files hashed here.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: The pipeline is missing.
    """
    load_pipeline.cache_clear()
    spacy = _optional.load("spacy", wanted_by=_WANTED_BY[stage])
    folder = _find_folder(model, stage)
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    digest = hashlib.sha256(f"spacy {spacy.__version__}".encode())
    for path in sorted(files):
        digest.update(f"\n{path.relative_to(folder).as_posix()} {hash_file(path)}".encode())
    return digest.hexdigest()


def pieces(
    text: str, placeholders: Sequence[Placeholder], *, limit: int = PIECE
) -> Iterator[tuple[int, int]]:
    """Split a text into pieces of at most `limit` characters.

    A piece ends after an empty line in its second half; otherwise after a line break, a space, or
    at the limit.

    Args:
        text: Text of a document.
        placeholders: Placeholders, sorted. They are not split, so a piece that starts with a long
            one may exceed the limit.
        limit: Maximum number of characters.

    Yields:
        Start and end of each piece.
    """
    start = 0
    while len(text) - start > limit:
        # `rfind` returns -1 if the separator is missing, which is never beyond the middle.
        middle = start + limit // 2
        ends = (text.rfind(cut, middle, start + limit) + len(cut) for cut in _CUTS)
        end = next((candidate for candidate in ends if candidate > middle), start + limit)

        # Do not split placeholders: end before one, or after it if the piece starts with it.
        for first, last, *_ in placeholders:
            if first < end < last:
                end = first if first > start else last

        yield start, end
        start = end

    if start < len(text):
        yield start, len(text)
