"""Tables of names: a literal dict of `name -> "module:attribute"`, imported on use, with "did you mean".

A name may carry a version (`joint.v1`); the bare name means the newest of its versions.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from mslm_data.errors import PipelineError

T = TypeVar("T")


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known word, else `; known: a, b, c`."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(known))}"


def from_options(
    cls: type[T], options: Mapping[str, Any], *, where: str, also: Collection[str] = ()
) -> T:
    """Make an options type from a table of a pipeline file, strictly.

    Args:
        cls: A dataclass; its `__post_init__` may raise ValueError.
        options: Field name -> value, as TOML gives them.
        where: What to name in an error, such as `pipeline 'x', [source]`.
        also: Further names that the same table may have, for "did you mean".

    Raises:
        PipelineError: An unknown field, a wrong type, or a value that the type refuses.
    """
    fields = [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    for name in options:
        if name not in fields:
            raise PipelineError(
                f"{where}: unknown option '{name}'{did_you_mean(name, [*fields, *also])}"
            )
    try:
        return msgspec.convert(dict(options), cls)
    except msgspec.ValidationError as error:
        message = re.sub(r" - at `\$\.?(.*)`$", r" for option '\1'", str(error))
        raise PipelineError(f"{where}: {message[:1].lower()}{message[1:]}") from None


class Registry:
    """A literal table of what can be named in a pipeline or a call."""

    def __init__(self, kind: str, table: Mapping[str, str]) -> None:
        """Keep the table; nothing is imported before a name is used.

        Args:
            kind: What the names are, for messages ("strategy").
            table: Name, with its version if it has one -> "module:attribute".
        """
        self.kind = kind
        self._table = dict(table)

    def names(self) -> list[str]:
        """Return every registered name, sorted."""
        return sorted(self._table)

    def resolve(self, name: str) -> str:
        """Return the full name: `joint` -> `joint.v2`, the newest; a full name stays.

        Raises:
            PipelineError: No such name.
        """
        if name in self._table:
            return name
        versions = [full for full in self._table if re.fullmatch(re.escape(name) + r"\.v\d+", full)]
        if versions:
            return max(versions, key=lambda full: int(full.rsplit(".v", 1)[1]))
        bare = {full.rsplit(".v", 1)[0] for full in self._table}
        raise PipelineError(f"unknown {self.kind} '{name}'{did_you_mean(name, bare)}")

    def load(self, name: str) -> Any:
        """Import and return what a name stands for."""
        module, attribute = self._table[self.resolve(name)].split(":")
        return getattr(importlib.import_module(module), attribute)

    def make(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        where: str | None = None,
        also: Collection[str] = (),
    ) -> Any:
        """Make the named thing from its options; see `from_options` for what is checked."""
        return from_options(
            self.load(name), options, where=where or f"{self.kind} '{name}'", also=also
        )
