"""A process that runs as long as the soak, like a training run or a notebook.

`python -m benchmarks.soak.reader` reads requests from stdin, a JSON object per line. It answers
each with a JSON object: the result, and the process' memory, open files, threads and children.
`Reader` is its client.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import select
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.inputs import ROOT
from benchmarks.soak.commands import PATIENCE_S, session
from benchmarks.watch import memory

# Client -------------------------------------------------------------------------------------------


class Reader:
    """Client that starts the process on demand, and again after it died.

    Attributes:
        starts: Number of processes started.
    """

    def __init__(self, errors: Path) -> None:
        """Prepare without starting a process.

        Args:
            errors: File for stderr of the processes.
        """
        self._errors = errors
        self._process: subprocess.Popen[str] | None = None
        self.starts = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer. Its key `fault`, if present, is a complaint."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin and process.stdout  # noqa: S101, PT018

        answered = ""
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            if select.select([process.stdout], [], [], PATIENCE_S)[0]:
                answered = process.stdout.readline()
        except BrokenPipeError:
            pass
        if answered:
            answer: dict[str, Any] = json.loads(answered)
            return answer

        code = process.poll()
        self._end()
        return {"fault": f"the process that reads {'hung' if code is None else f'died ({code})'}"}

    def _start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "benchmarks.soak.reader"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                text=True,
                start_new_session=True,
            )
        self.starts += 1

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None


# Server -------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = _answer(_REQUESTS[request.pop("do")], request)
        sys.stdout.write(json.dumps(answer | _holds()) + "\n")
        sys.stdout.flush()


def _answer(do: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Run a request. Expected errors are returned as `error`, all others as `fault`."""
    from mslm_data import MslmDataError

    try:
        answer: dict[str, Any] = do(**request)
    except MslmDataError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {"fault": f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"}
    return answer


def _epoch(folder: str, strategy: str, seed: int, epoch: int, batch_size: int) -> dict[str, Any]:
    """Load a folder, and read an epoch of all its splits."""
    import mslm_data as md

    shards = md.load(folder)
    digest = hashlib.sha256()
    rows = 0
    for name in shards.splits:
        split = shards[name]
        strategy_ = shards.strategy(strategy)
        for batch in md.Batches(split, strategy_, batch_size=batch_size, seed=seed, epoch=epoch):
            rows += len(batch["input_ids"])
            digest.update(batch["input_ids"].tobytes())
            digest.update(batch["labels"].tobytes())
    return {"rows": rows, "digest": digest.hexdigest()}


def _build(source: str, input: str, tokenizer: str, out: str, workers: int) -> dict[str, Any]:
    """Build a folder by `md.build` in this process."""
    import mslm_data as md

    shards = md.build(source, input=input, tokenizer=tokenizer, out=out, workers=workers)
    return {"rows": sum(len(shards[name]) for name in shards.splits)}


def _holds() -> dict[str, int]:
    """Return memory in KiB without file-backed pages, and numbers of files, threads, children."""
    gc.collect()
    pid = os.getpid()
    return {
        "kib": memory(pid),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "below": len(session(pid)) - 1,
    }


_REQUESTS = {"epoch": _epoch, "build": _build}

if __name__ == "__main__":
    main()
