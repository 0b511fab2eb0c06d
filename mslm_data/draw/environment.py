"""The environment of the templates, which escapes and cleans every value."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from mslm_data.log import plain


@cache
def environment(*packages: str) -> jinja2.Environment:
    """Return the environment with the templates of this room, below those of other packages.

    Args:
        *packages: Packages with a folder `templates`, in order of precedence.
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
    """Return the CSS class of a share in `[0, 1]`, in steps of 0.01.

    The page's content security policy forbids inline styles, so the style sheet has a class per
    step.
    """
    return f"f{round(min(max(share, 0.0), 1.0) * 100)}"


def _number(value: float) -> str:
    """Format a count with thousands separators, and other numbers with 4 decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _clean(value: Any) -> Any:
    """Remove invisible characters from a value that a template writes."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return plain(value, keep="\n\t")
    return value
