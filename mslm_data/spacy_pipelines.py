"""What the two stages that use spaCy share: loading a pipeline, its digest, and documents in pieces it can take."""

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
"""Characters: what a parser or tagger is given at once. spaCy refuses 1,000,000 (its error E088) for their memory."""

_CUTS = ("\n\n", "\n", " ")


@cache
def load_pipeline(model: str, wanted_by: str, exclude: tuple[str, ...] = ()) -> Any:
    """Load a trained pipeline, once a process.

    Args:
        model: The name of an installed one, or its folder. Loading it runs code that it names.
        wanted_by: Who asks, as a user would say it ("annotator 'spacy'").
        exclude: Components that are not loaded.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: There is no such pipeline, or it does not fit the installed spaCy.
    """
    spacy = _optional.load("spacy", wanted_by=wanted_by)
    folder_of(model, wanted_by)
    try:
        return spacy.load(model, exclude=list(exclude))
    except (OSError, ValueError, ImportError) as error:
        raise AnnotateError(
            f"{wanted_by}: expected a pipeline that spaCy {spacy.__version__} loads, got {type(error).__name__} from "
            f"'{model}'; `python -m spacy validate` says what fits"
        ) from error


def folder_of(model: str, wanted_by: str) -> Path:
    """Return the folder of a pipeline without importing it.

    Raises:
        AnnotateError: There is none.
    """
    path = Path(model)
    if (path / "config.cfg").is_file():
        return path
    spec = importlib.util.find_spec(model) if model.isidentifier() else None
    places = spec.submodule_search_locations if spec else None
    if not places or not (Path(places[0]) / "meta.json").is_file():
        raise AnnotateError(
            f"{wanted_by}: expected an installed spaCy pipeline or its folder with a config.cfg, got '{model}'; "
            "install it with `python -m spacy download NAME` or pip, or name the folder"
        )
    return Path(places[0])


def digest_of(model: str, wanted_by: str) -> str:
    """Return a SHA-256 of spaCy's version and of every file of a pipeline: its name, version and weights.

    Raises:
        MissingExtraError: spaCy is not installed.
        AnnotateError: There is no such pipeline.
    """
    spacy = _optional.load("spacy", wanted_by=wanted_by)
    folder = folder_of(model, wanted_by)
    digest = hashlib.sha256(f"spacy {spacy.__version__}".encode())
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ):
        with path.open("rb") as file:
            of_file = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"\n{path.relative_to(folder).as_posix()} {of_file}".encode())
    return digest.hexdigest()


def pieces(
    text: str, placeholders: Sequence[Placeholder], *, limit: int = PIECE
) -> Iterator[tuple[int, int]]:
    """Cut a text into pieces of at most `limit` characters: at an empty line, else a line, else a space, else there.

    Args:
        text: Of a document.
        placeholders: Sorted; none is cut, so a piece that begins with a long one may be longer.
        limit: Characters.
    """
    start = 0
    while len(text) - start > limit:
        found = (text.rfind(cut, start + limit // 2, start + limit) + len(cut) for cut in _CUTS)
        end = next((place for place in found if place > start + limit // 2), start + limit)
        for first, last, *_ in placeholders:
            if first < end < last:
                end = first if first > start else last
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)
