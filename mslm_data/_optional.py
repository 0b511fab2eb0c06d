"""Imports optional packages. If one is missing, the error has the command to install it.

Packages are configured by environment variables before import: no telemetry, no version checks.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mslm_data.errors import MissingExtraError

_EXTRA_OF = {
    "datasets": "hub",
    "huggingface_hub": "hub",
    "ray": "ray",
    "rensa": "duplicates",
    "starlette": "look",
    "uvicorn": "look",
    "spacy": "mimic",
    "medcat": "mimic",
    "torch": "torch",
    "transformers": "hf",
    "wordfreq": "vocab",
}
"""Import name -> the extra in `pyproject.toml` that installs it."""
EXTRAS = tuple(dict.fromkeys(_EXTRA_OF.values()))
"""The extras with packages for users."""

_HUB = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
_ENVIRONMENT = {
    "datasets": _HUB,
    "huggingface_hub": _HUB,
    # MedCAT 2.9 looks for a newer version at import. All of its models are local.
    "medcat": {
        **_HUB,
        "MEDCAT_DISABLE_VERSION_CHECK": "true",
        "MEDCAT_USAGE_LOGS": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    },
    # Disabled usage reporting still reports that it is disabled. Under `uv run`, Ray would copy the
    # current folder to all nodes.
    "ray": {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "DO_NOT_TRACK": "1",
    },
    # Several workers use all cores already.
    "rensa": {"RAYON_NUM_THREADS": "1"},
    "transformers": _HUB,
}
"""Import name -> environment variables to set before the import, unless the user has set them."""


def load(name: str, *, wanted_by: str) -> ModuleType:
    """Import an optional package or a module of it.

    Args:
        name: Import name. Its first part is the package.
        wanted_by: Part of the program that needs it, for the message, such as "source 'hub'".

    Raises:
        MissingExtraError: The package is not installed.
    """
    package = name.partition(".")[0]
    for variable, value in _ENVIRONMENT.get(package, {}).items():
        if not os.environ.get(variable):
            os.environ[variable] = value
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, package):
            raise
        extra = _EXTRA_OF.get(package)
        what = f"'mslm-data[{extra}]'" if extra else package
        raise MissingExtraError(
            f"{wanted_by} needs the package {package}, which is not installed; "
            f"install it with: pip install {what}"
        ) from None


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress logs and progress bars of transformers within a `with` block."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    hub: Any = importlib.import_module("huggingface_hub.utils")
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    is_hub_quiet = hub.are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
        # Both calls also change those of huggingface_hub.
        set_hub_bars = hub.disable_progress_bars if is_hub_quiet else hub.enable_progress_bars
        set_hub_bars()
