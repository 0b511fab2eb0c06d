"""Asks the Hugging Face hub to take files, and says what to do where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mslm_data import _optional
from mslm_data.errors import PushError


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
    refused = _optional.load("huggingface_hub.errors", wanted_by=wanted_by).HfHubHTTPError
    try:
        yield hub.HfApi(token=token)
    # The bases of the hub's error are those of its network library.
    except (OSError, ValueError, *refused.__bases__) as error:
        raise PushError(
            f"{repo}: expected to upload to the hub, got {type(error).__name__}; check that you "
            "are logged in (`hf auth login`), may write there, and have a network"
        ) from None
