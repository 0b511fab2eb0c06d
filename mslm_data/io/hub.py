"""Downloads files from the Hugging Face Hub, and uploads files to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mslm_data import _optional
from mslm_data.errors import CallError, PushError

_REPOSITORY = re.compile(
    r"(?!.*(?:--|\.\.|\.git\Z))(?:\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII
)
"""The hub's rule for `OWNER/NAME` or `NAME`."""


class NotFetchedError(Exception):
    """The hub has no such repository, denies access, or cannot be reached.

    Its text completes "the hub ...", for messages.
    """


def is_repository_name(name: str) -> bool:
    """Return whether the hub may have a repository of this name. `../model` is a path."""
    return _REPOSITORY.fullmatch(name) is not None


def fetch_files(
    repo: str, files: Sequence[str], *, wanted_by: str, only_here: bool = False
) -> Path:
    """Download files of a repository into the cache of `huggingface_hub`, unless they are there.

    Files in subfolders are ignored: they are other formats of a model, such as ONNX.

    Args:
        repo: Repository id.
        files: Patterns for file names.
        wanted_by: Name of the feature that needs the files, for messages.
        only_here: Whether to use cached files only, without network. Default: False. Some files may
            then be missing.

    Returns:
        Folder of the files.

    Raises:
        NotFetchedError: The hub has no such repository, denies access, or cannot be reached.
        MissingExtraError: `huggingface_hub` is not installed.
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
    """Yield an `HfApi`, and convert its exceptions to `PushError`.

    Args:
        repo: Name of the repository, for messages.
        wanted_by: Name of the feature that needs the client, for messages.
        token: Access token. Default: None, the token stored by `hf auth login`.

    Raises:
        PushError: The upload was rejected, or the Hub is unreachable.
        MissingExtraError: `huggingface_hub` is not installed.
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
    """Check that a repository name is valid and the client is installed, without network.

    Args:
        repo: `OWNER/NAME` or `NAME`.
        wanted_by: Name of the feature that needs the client, for messages.

    Raises:
        CallError: The name is invalid.
        MissingExtraError: `huggingface_hub` is not installed.
    """
    _optional.load("huggingface_hub", wanted_by=wanted_by)
    if not is_repository_name(repo):
        raise CallError(
            f"repo: expected OWNER/NAME, each of letters, digits, '-', '_' and '.', got '{repo}'"
        )


def fetch_data_file(dataset: str, name: str, *, wanted_by: str) -> Path | None:
    """Download a file of a dataset into the hub's cache, None if it cannot be fetched.

    Raises:
        MissingExtraError: `huggingface_hub` is not installed.
    """
    hub = _optional.load("huggingface_hub", wanted_by=wanted_by)
    try:
        return Path(hub.hf_hub_download(dataset, name, repo_type="dataset"))
    except _failures(wanted_by):
        return None


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
    """Return the exception classes of `huggingface_hub`."""
    # Its own error derives from the error of its HTTP library, requests or httpx. Errors of this
    # library are passed through, so catch the base class.
    http_error = _optional.load("huggingface_hub.errors", wanted_by=wanted_by).HfHubHTTPError
    return (OSError, ValueError, *http_error.__bases__)
