"""Loads and digests spaCy pipelines, and cuts texts to the length that they accept."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mslm_data import _optional
from mslm_data.data.document import Placeholder
from mslm_data.errors import AnnotateError

PIECE = 100_000
"""Characters that a parser or tagger is given at once. spaCy refuses 1,000,000 (its error E088)
for their memory."""

_CUTS = ("\n\n", "\n", " ")


@cache
def load_pipeline(model: str, wanted_by: str, exclude: tuple[str, ...] = ()) -> Any:
    """Load a trained pipeline; cached per process until a pipeline is digested again.

    Args:
        model: The name of an installed one, or its folder. Loading it runs code that it names.
        wanted_by: The part of the program that needs it, in a user's words ("annotator 'spacy'").
        exclude: Components that are not loaded.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: The pipeline is missing, or does not fit the installed spaCy.
    """
    spacy = _optional.load("spacy", wanted_by=wanted_by)
    pipeline_folder(model, wanted_by)
    try:
        return spacy.load(model, exclude=list(exclude))
    except (OSError, ValueError, ImportError) as error:
        raise AnnotateError(
            f"{wanted_by}: spaCy {spacy.__version__} cannot load '{model}' "
            f"({type(error).__name__}); `python -m spacy validate` lists compatible versions"
        ) from error


def pipeline_folder(model: str, wanted_by: str) -> Path:
    """Find the folder of a pipeline without importing it.

    Raises:
        AnnotateError: The pipeline is missing.
    """
    path = Path(model)
    if (path / "config.cfg").is_file():
        return path
    spec = importlib.util.find_spec(model) if model.isidentifier() else None
    places = spec.submodule_search_locations if spec else None
    if not places or not (Path(places[0]) / "meta.json").is_file():
        raise AnnotateError(
            f"{wanted_by}: no spaCy pipeline '{model}' is installed, and no folder of that name "
            "has a config.cfg; install it with `python -m spacy download NAME` or pip, or pass its "
            "folder"
        )
    return Path(places[0])


def digest_pipeline(model: str, wanted_by: str) -> str:
    """Return the SHA-256 of spaCy's version and all files of a pipeline.

    What is loaded afterwards is what was digested: pipelines that this process has loaded before
    may come from other files, and are forgotten.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: The pipeline is missing.
    """
    load_pipeline.cache_clear()
    spacy = _optional.load("spacy", wanted_by=wanted_by)
    folder = pipeline_folder(model, wanted_by)
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    digest = hashlib.sha256(f"spacy {spacy.__version__}".encode())
    for path in sorted(files):
        with path.open("rb") as file:
            content_digest = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"\n{path.relative_to(folder).as_posix()} {content_digest}".encode())
    return digest.hexdigest()


def pieces(
    text: str, placeholders: Sequence[Placeholder], *, limit: int = PIECE
) -> Iterator[tuple[int, int]]:
    """Cut a text into pieces of at most `limit` characters.

    A piece ends at an empty line if there is one in its second half, else at a line's end, else at
    a space, else at the limit.

    Args:
        text: The text of a document.
        placeholders: Sorted; they are never cut, so a piece that begins with a long one may be
            longer.
        limit: Characters.
    """
    start = 0
    while len(text) - start > limit:
        # `rfind` gives -1 for a cut that is missing, which is never behind the middle.
        middle = start + limit // 2
        found = (text.rfind(cut, middle, start + limit) + len(cut) for cut in _CUTS)
        end = next((place for place in found if place > middle), start + limit)

        for first, last, *_ in placeholders:
            if first < end < last:
                end = first if first > start else last

        yield start, end
        start = end

    if start < len(text):
        yield start, len(text)
