"""The templates that draw rows, tables and charts: everything in them is escaped and cleaned."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from mslm_data.log import plain


@cache
def environment(*packages: str) -> jinja2.Environment:
    """Return the templates of this room, and those of other packages before them.

    Args:
        *packages: Names of packages with a folder `templates`.
    """
    loaders = [jinja2.PackageLoader(package) for package in (*packages, __package__)]
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    templates.filters["number"] = _number
    templates.filters["percent"] = lambda share, digits=1: f"{share:.{digits}%}"
    templates.filters["step"] = step_of
    return templates


def step_of(share: float) -> str:
    """Return the class of a share in `[0, 1]`, in steps of a hundredth.

    A page's policy allows no style in an element, so the style sheet has a class for each step.
    """
    return f"f{round(min(max(share, 0.0), 1.0) * 100)}"


def _number(value: float) -> str:
    """Return a count with its thousands marked, or anything else with 4 decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _clean(value: Any) -> Any:
    """Return what an expression of a template writes, without characters that cannot be seen."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return plain(value, keep="\n\t")
    return value
