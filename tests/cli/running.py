"""Running commands in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from mslm_data.cli import main


class Done(NamedTuple):
    """The exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


def run(*words: object) -> Done:
    """Run `mslm-data` with these arguments."""
    out, err = _Stream(), _Stream()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Done(code, out.text(), err.text())


class _Stream(io.TextIOWrapper):
    """A stream with a byte buffer, like the streams of a process."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", newline="", write_through=True)

    def text(self) -> str:
        return self.bytes.getvalue().decode()
