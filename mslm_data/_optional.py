"""Imports optional packages; a missing one gives one message, with the line that installs it.

Packages are told to stay quiet before they are imported: they send no telemetry, and do not look
for newer versions.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

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
    "pandas": "mimic",
    "torch": "torch",
    "transformers": "hf",
    "wordfreq": "vocab",
}
"""Import name -> the extra of `pyproject.toml` that brings it."""
EXTRAS = tuple(dict.fromkeys(_EXTRA_OF.values()))
"""The extras that bring something to users."""

_HUB = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
_ENVIRONMENT = {
    "datasets": _HUB,
    "huggingface_hub": _HUB,
    # MedCAT 2.9 asks the Python package index for its newest version while it is imported; what it
    # loads is here.
    "medcat": {
        **_HUB,
        "MEDCAT_DISABLE_VERSION_CHECK": "true",
        "MEDCAT_USAGE_LOGS": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    },
    # Usage reporting that is off still reports that it is; under `uv run`, Ray copies the current
    # folder to all nodes.
    "ray": {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "DO_NOT_TRACK": "1",
    },
    # Workers share the cores already.
    "rensa": {"RAYON_NUM_THREADS": "1"},
    "transformers": _HUB,
}
"""Import name -> environment variables that are set before the import, unless the user has set
them."""


def load(name: str, *, wanted_by: str) -> ModuleType:
    """Import an optional package, or a module of one.

    Args:
        name: The import name; its first part is a package that an extra brings, or a plug-in.
        wanted_by: The part of the program that needs it, in a user's words ("source 'hub'").

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
