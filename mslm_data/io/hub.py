"""Fetches files from the Hugging Face hub, and asks it to take files.

Whatever fails there becomes one error of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mslm_data import _optional
from mslm_data.errors import CallError, PushError


class NotFetchedError(Exception):
    """The hub has no such repository, denies access, or cannot be reached.

    Its text completes "the hub ...", for messages.
    """


def fetch_files(
    repo: str, files: Sequence[str], *, wanted_by: str, only_here: bool = False
) -> Path:
    """Return the folder of the hub's cache with a repository's files, which are fetched if need be.

    Files in folders of the repository are left out: they are other forms of a model.

    Args:
        repo: Its id.
        files: Patterns of the files' names.
        wanted_by: The part of the program that needs them, in a user's words.
        only_here: Whether the hub is not asked; the folder may then lack files.

    Raises:
        NotFetchedError: The hub has no such repository, denies access, or cannot be reached.
        MissingExtraError: The hub's client is not installed.
    """
    hub = _optional.load("huggingface_hub", wanted_by=wanted_by)
    try:
        folder = hub.snapshot_download(
            repo,
            allow_patterns=list(files),
            ignore_patterns=["*/*"],
            local_files_only=only_here,
        )
    except _failures(wanted_by) as error:
        raise NotFetchedError(_explain(error, wanted_by)) from None
    return Path(folder)


@contextmanager
def uploading(repo: str, *, wanted_by: str, token: str | bool | None = None) -> Iterator[Any]:
    """Give the hub's client, whose errors become one that helps.

    Args:
        repo: What is uploaded to, for the message.
        wanted_by: The part of the program that needs the client, in a user's words.
        token: Of the user; None takes the one that `hf auth login` has stored.

    Raises:
        PushError: The hub refused, or could not be asked.
        MissingExtraError: The hub's client is not installed.
    """
    hub = _optional.load("huggingface_hub", wanted_by=wanted_by)
    try:
        yield hub.HfApi(token=token)
    except _failures(wanted_by) as error:
        raise PushError(
            f"{repo}: expected to upload to the hub, got {type(error).__name__}; check that you "
            "are logged in (`hf auth login`), may write there, and have a network"
        ) from None


def check_repository_name(repo: str, *, wanted_by: str) -> None:
    """Refuse a text that cannot name a repository, before the hub is asked.

    Args:
        repo: `OWNER/NAME`, or `NAME` alone.
        wanted_by: The part of the program that needs the client, in a user's words.

    Raises:
        CallError: It cannot.
        MissingExtraError: The hub's client is not installed.
    """
    hub = _optional.load("huggingface_hub", wanted_by=wanted_by)
    try:
        hub.utils.validate_repo_id(repo)
    except hub.errors.HFValidationError:
        raise CallError(
            f"repo: expected OWNER/NAME, each of letters, digits, '-', '_' and '.', got '{repo}'"
        ) from None


def _explain(error: Exception, wanted_by: str) -> str:
    """Return a message that completes "the hub ..."."""
    errors = _optional.load("huggingface_hub.errors", wanted_by=wanted_by)
    if isinstance(error, errors.GatedRepoError):
        return "denies access; request it on the repository's page and log in (`hf auth login`)"
    # The hub answers alike for a private repository and for one that does not exist.
    if isinstance(error, errors.RepositoryNotFoundError):
        return "has no such repository, or none that you may read (`hf auth login`)"
    return f"cannot be reached ({type(error).__name__})"


def _failures(wanted_by: str) -> tuple[type[Exception], ...]:
    """Return what the hub's client raises.

    It lets errors of the library that it sends requests with through; they are subclasses of the
    bases of its own error.
    """
    refused = _optional.load("huggingface_hub.errors", wanted_by=wanted_by).HfHubHTTPError
    return (OSError, ValueError, *refused.__bases__)
