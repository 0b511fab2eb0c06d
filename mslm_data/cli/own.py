"""Imports the user's own code by `module:name`, and explains its errors.

Only the command line can name code. Files cannot, because they may come from others.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from mslm_data.errors import PipelineError, place_of, system_message

_ABOUT_CODE = (ImportError, AttributeError, NameError, SyntaxError, TypeError)
"""Exceptions whose message is about code. Those of others may contain text."""


def import_own(name: str, *, where: str) -> Callable[..., Any]:
    """Import a function or class by `module:name`, also from the working directory.

    As for a script, the directory stays the first of the path, because own code may import its
    neighbours later, when it is called.

    Args:
        name: Module and name.
        where: Prefix of errors, such as `strategy 'mine:half'`.

    Raises:
        PipelineError: The module or name does not exist, cannot be imported, or is not callable.
    """
    if sys.path[:1] != [os.getcwd()]:
        sys.path.insert(0, os.getcwd())

    try:
        own = pkgutil.resolve_name(name)
    except Exception as error:  # the user's code may raise anything
        got = str(error) if isinstance(error, _ABOUT_CODE) else f"in {place_of(error)}"
        raise PipelineError(
            f"{where}: expected `module:name` of a function or class that can be imported from "
            f"here, got {type(error).__name__}: {got}"
        ) from error
    if not callable(own):
        raise PipelineError(f"{where}: expected a function or class, got {type(own).__name__}")
    return own  # type: ignore[no-any-return]


def describe_own_error(error: Exception, own: Callable[..., Any]) -> str:
    """Return an error of own code in one line: its class, its place, and its message if safe.

    The place is the last line in the file of the function, also if a library raised the error.
    """
    module = sys.modules.get(own.__module__)
    place = place_of(error, of_file=getattr(module, "__file__", None))
    message = str(error) if isinstance(error, _ABOUT_CODE) else ""
    if isinstance(error, OSError):
        message = system_message(error)
    described = f"{type(error).__name__} in {place}"
    return f"{described}: {message}" if message else described
