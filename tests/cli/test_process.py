"""Exit codes and messages of commands: system errors, signals and closed pipes."""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from mslm_data.builds import verify
from mslm_data.cli import main, process
from mslm_data.errors import SourceError, system_message
from tests import made
from tests.cli.running import run

PYTHON = (sys.executable, "-m", "mslm_data")


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.fixture
def verify_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `verify` raise an exception."""

    def patch(error: BaseException) -> None:
        monkeypatch.setattr(verify, "verify", failing(error))

    return patch


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space, then"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permissions"),
        (errno.EPERM, "permissions"),
        (errno.EROFS, "choose another place"),
        (errno.EIO, "connection"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "close other programs"),
        (errno.ENOMEM, "--workers"),
        (errno.ENOENT, ""),
    ],
)
def test_main__system_error_is_one_message(
    number: int, advice: str, tmp_path: Path, verify_raises: Callable[[BaseException], None]
) -> None:
    file = tmp_path / "manifest.json"
    verify_raises(OSError(number, os.strerror(number), str(file)))

    done = run("verify", tmp_path)

    assert done.code == 1
    assert done.err.startswith(f"error: {file}: {os.strerror(number)}")
    assert advice in done.err
    assert done.err.endswith("run the same command again\n") is bool(advice)
    assert (done.out, done.err.count("\n")) == ("", 1)
    with pytest.raises(OSError, match="manifest"):
        run("--debug", "verify", tmp_path)


def test_main__full_disk_without_a_path_names_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))

    done = run("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "more")

    assert (done.code, done.out) == (1, "")
    assert (
        done.err == "error: No space left on device, on the disk of --out or of the cache folder "
        f"{tmp_path / 'cache'}; free some space, then run the same command again\n"
    )


@pytest.mark.parametrize("out", ["out", "shards/out"])
def test_build__names_the_folder_that_cannot_be_made(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "mkdir", denied)

    done = run("build", "--source", "blurb/bc2gm", "--sample", "--out", out)

    assert done.code == 1
    assert done.err.startswith(f"error: {tmp_path / Path(out).parts[0]}: Permission denied; change")


class Panic(BaseException):
    """An exception like the panics of Rust libraries."""


@pytest.mark.parametrize(
    "kind", [OSError, EOFError, KeyError, Panic, SystemExit, RecursionError, MemoryError]
)
def test_main__unexpected_error_is_named_without_its_text(
    kind: type[BaseException], tmp_path: Path, verify_raises: Callable[[BaseException], None]
) -> None:
    verify_raises(kind("Zebulonkanarie"))

    done = run("verify", tmp_path)

    expected = f"error: {kind.__name__} in test_process.py:"
    assert done.code == 1
    assert ("error: out of memory; " if kind is MemoryError else expected) in done.err
    assert ("which should not happen" in done.err) == (kind is not MemoryError)
    assert "Zebulonkanarie" not in done.err
    with pytest.raises((kind, click.Abort)):
        run("--debug", "verify", tmp_path)


def test_system_message__names_paths_and_no_text(tmp_path: Path) -> None:
    texts = ("Zebulonkanarie", "fever / chills", "a" * 9000, "a\0b", f"{tmp_path}-not/there", None)

    named = system_message(OSError(errno.ENOENT, "gone", str(tmp_path / "x.csv")))

    assert named == f"{tmp_path / 'x.csv'}: No such file or directory"
    assert {system_message(OSError(errno.ENOENT, "gone", text)) for text in texts} == {
        "No such file or directory"
    }
    assert system_message(OSError("Zebulonkanarie")) == ""


def test_main__reports_a_deleted_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    done = run("build", "--source", "blurb/bc2gm", "--sample", "--out", "out")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: the current folder was removed")


def test_main__names_the_unreadable_tokenizer_of_a_folder(ncbi: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(ncbi, tmp_path / "built")
    tokenizer = folder / "tokenizer.json"

    tokenizer.write_text("{")
    damaged = run("inspect", folder)
    tokenizer.unlink()
    missing = run("inspect", folder)
    tokenizer.mkdir()
    unreadable = run("inspect", folder)

    assert (damaged.code, missing.code, unreadable.code) == (1, 1, 1)
    assert f"error: {tokenizer}: expected a tokenizer of the tokenizers library" in damaged.err
    assert f"error: {tokenizer}: the tokenizer is missing" in missing.err
    assert f"error: {tokenizer}: Is a directory" in unreadable.err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_explain_end__interruption_is_no_error(error: BaseException) -> None:
    assert process.explain_end(error) == (130, "interrupted; run the same command again to resume")


def test_explain_end__finds_sigterm_in_the_causes_of_an_error() -> None:
    error = SourceError("x: expected a file, got none")
    error.__context__ = click.Abort()
    error.__context__.__cause__ = process.Terminated()

    assert process.explain_end(error)[0] == 143


def test_explain_end__broken_pipe_between_processes_is_an_error() -> None:
    code, message = process.explain_end(BrokenPipeError(errno.EPIPE, "Broken pipe"))

    assert (code, message) == (1, "error: Broken pipe")


SIGNALS = pytest.mark.parametrize(
    ("sent", "raised"),
    [(signal.SIGINT, process.Interrupted), (signal.SIGTERM, process.Terminated)],
)


@SIGNALS
def test_raise_on_signals__restores_the_handlers_of_the_process(
    sent: signal.Signals, raised: type[BaseException]
) -> None:
    before = signal.getsignal(sent)

    with pytest.raises(raised), process.raise_on_signals():
        signal.raise_signal(sent)

    assert signal.getsignal(sent) is before


@SIGNALS
def test_raise_on_signals__keeps_ignored_signals_ignored(
    sent: signal.Signals, raised: type[BaseException]
) -> None:
    before = signal.signal(sent, signal.SIG_IGN)
    try:
        with process.raise_on_signals():
            signal.raise_signal(sent)
    finally:
        signal.signal(sent, before)


@SIGNALS
def test_raise_on_signals__runs_cleanup_after_the_first_signal(
    sent: signal.Signals, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned_up = False

    with process.raise_on_signals():
        try:
            signal.raise_signal(sent)
        except raised:
            for impatient in (signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(impatient)
            cleaned_up = True
        monkeypatch.setattr(time, "monotonic", lambda: float("inf"))
        with pytest.raises(raised):  # As the first exception was lost.
            signal.raise_signal(sent)

    assert cleaned_up


def in_callback(call: Callable[[], object]) -> None:
    """Call a function in a C callback, like a kernel compiler. Python drops exceptions there."""
    ctypes.CFUNCTYPE(None)(call)()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@SIGNALS
def test_raise_on_signals__raises_the_interruption_instead_of_an_error_it_caused(
    sent: signal.Signals, raised: type[BaseException]
) -> None:
    def work() -> None:
        with process.raise_on_signals():
            in_callback(lambda: signal.raise_signal(sent))
            raise AttributeError("half made")

    with pytest.raises(raised):
        work()


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_main__tolerates_closed_streams(closed: str, tmp_path: Path) -> None:
    """A file opened later would get the number of the closed stream."""
    code = (
        "import os, sys\n"
        "from mslm_data import __main__\n"
        "__main__._open_closed_streams()\n"
        f"opened = os.open({str(tmp_path / 'file')!r}, os.O_CREAT)\n"
        "streams = [sys.stdin, sys.stdout, sys.stderr]\n"
        "fine = opened > 2 and [stream.fileno() for stream in streams] == [0, 1, 2]\n"
        "sys.stderr.isatty()\n"
        "print('x', file=sys.stderr)\n"
        "os._exit(0 if fine else 1)\n"
    )

    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code],
        check=False,
        capture_output=True,
    )

    assert done.returncode == 0


def program(*prelude: str, words: Sequence[str], path: str = "") -> tuple[int, str, str]:
    """Run Python code and then the command, like its console script.

    Args:
        prelude: The code.
        words: Arguments of the command.
        path: Folder to search first for modules.

    Returns:
        Exit code, stdout and stderr.
    """
    lines = ["import signal, sys", *prelude, "from mslm_data.__main__ import main"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, "sys.exit(main())"]), *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([path, *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_main__interrupt_in_generated_code_has_its_exit_code() -> None:
    # Python itself would end such a process by the signal.
    ended = program(
        "from mslm_data.io import resources",
        "sent = {'signal': signal}",
        "resources.pipeline_names = lambda: exec('signal.raise_signal(signal.SIGINT)', sent)",
        words=["recipes"],
    )

    assert ended == (130, "", "\ninterrupted; run the same command again to resume\n")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_main__is_quiet_before_the_command_begins(sent: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(f"import signal\nsignal.raise_signal({int(sent)})\n")

    assert program(words=["--version"], path=str(tmp_path)) == (128 + sent, "", "")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_main__is_quiet_after_the_command_has_ended(sent: signal.Signals) -> None:
    code, out, err = program(
        f"import atexit; atexit.register(signal.raise_signal, {int(sent)})", words=["--version"]
    )

    assert (code, err) == (128 + sent, "")
    assert out.startswith("mslm-data, version ")


@pytest.mark.parametrize("words", [("recipes", "mimic"), ("--help",)])
def test_main__is_quiet_when_the_reader_is_gone(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)

    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [*PYTHON, *words], stdout=nobody, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (done.returncode, done.stderr) == (141, "")


def test_main__drops_errors_when_stderr_is_closed() -> None:
    read, write = os.pipe()
    os.close(read)

    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [*PYTHON, "recipes", "--nothing"], stdout=subprocess.PIPE, stderr=nobody, check=False
        )

    assert (done.returncode, done.stdout) == (2, b"")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built folder with label characters outside ISO-8859-1, one of them beyond 16 bits."""
    out = tmp_path_factory.mktemp("foreign")
    (out / "in").mkdir()
    (out / "in" / "train.tsv").write_text("café\tB-疾患🩺\nis\tO\n\n", encoding="utf-8")
    made.built(out / "built", out / "in")
    return out / "built"


def encoded(encoding: str, monkeypatch: pytest.MonkeyPatch, *words: object) -> bytes:
    """Return the output of a command to a stream of an encoding, which is restored."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)

    assert main([str(word) for word in words]) == 0
    assert (stream.encoding, stream.errors) == (encoding, "strict")
    return stream.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("encoding", "written", "label"),
    [("iso8859-1", "iso8859-1", "\\u75be\\u60a3\\U0001fa7a"), ("ascii", "utf-8", "疾患🩺")],
)
def test_main__escapes_characters_missing_in_the_encoding(
    foreign: Path, encoding: str, written: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = encoded(encoding, monkeypatch, "inspect", foreign).decode(written)

    assert f"}}{label}" in shown


def test_main__json_is_complete_in_any_encoding(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = encoded("iso8859-1", monkeypatch, "inspect", foreign, "--json")

    assert json.loads(shown)["rows"][0]["mentions"][0]["label"] == "疾患🩺"


def test_main__help_works_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = encoded("iso8859-1", monkeypatch, "vocab", "pmi", "--help")

    assert b"--min-count K[,K\\u2026]" in shown
