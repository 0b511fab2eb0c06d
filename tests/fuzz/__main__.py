"""Coverage-guided fuzzing: `python -m tests.fuzz [TARGET ...] [--seconds N]`; needs `pip install .[fuzz]`.

Each target runs in its own process, for a minute by default. Findings are written to `out/fuzz/`.
`python -m tests.fuzz TARGET FILE` tries a finding again.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

OUT = Path("out") / "fuzz"


def main() -> int:
    """Fuzz the named targets in order, or all; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="targets (default all), or a target and files to try",
    )
    parser.add_argument("--seconds", type=int, default=60, help="seconds per target (default 60)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:  # atheris must be set up before our modules are imported
        fuzz(options.targets[0], options.seconds)
    from tests.fuzz.targets import TARGETS

    names = [name for name in options.targets if name in TARGETS]
    files = [Path(name) for name in options.targets if name not in TARGETS]
    if missing := [str(file) for file in files if not file.is_file()]:
        parser.error(f"expected some of {', '.join(TARGETS)}, or files; got {', '.join(missing)}")
    if files:
        return max(again(names[0], file) for file in files)
    return max([run(name, options.seconds) for name in names or TARGETS])


def run(name: str, seconds: int) -> int:
    """Fuzz one target in its own process, and print the result; return 1 if there is a finding."""
    command = [sys.executable, "-m", "tests.fuzz", name, "--here", "--seconds", str(seconds)]
    ended = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    log = ended.stdout.splitlines()
    branches = max((int(found) for found in re.findall(r"cov: (\d+)", ended.stdout)), default=0)
    done = next((line for line in reversed(log) if line.startswith("Done ")), "")
    if not ended.returncode and done:
        click.echo(f"{name}: {done.lower()}, {branches} branches")
        return 0
    click.echo("\n".join([*log[-60:], f"{name}: FOUND something, see above"]))
    return 1


def again(name: str, file: Path) -> int:
    """Try a finding again; print the traceback and return 1 if it still fails."""
    import traceback

    from tests.fuzz.targets import TARGETS

    with TemporaryDirectory() as temporary:
        TARGETS[name].lay_out(Path(temporary))
        try:
            click.echo(
                f"{file}: {'read' if TARGETS[name].try_one(Path(temporary), file.read_bytes()) else 'refused'}"
            )
        except Exception:  # noqa: BLE001 - any error is a finding
            traceback.print_exc()
            return 1
    return 0


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target; ends the process."""
    import atheris

    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        corpus, folder = Path(temporary) / "corpus", Path(temporary) / "folder"
        corpus.mkdir()
        folder.mkdir()
        # Modules imported in this block are instrumented, except those that numba compiles.
        with atheris.instrument_imports(
            include=["mslm_data", "tomllib", "csv", "json"], exclude=kernels()
        ):
            from tests.fuzz.mutations import MOST_BYTES, mutate, random_changes
            from tests.fuzz.targets import TARGETS

            target = TARGETS[name]
            target.lay_out(folder)
            for number, seed in enumerate(target.seeds()):
                (corpus / str(number)).write_bytes(seed)
                target.try_one(folder, seed)
        tokens = target.all_tokens

        def mutator(data: bytes, max_size: int, seed: int) -> bytes:
            if seed % 2:
                return bytes(atheris.Mutate(data, max_size))
            return mutate(data, random_changes(seed), tokens)[:max_size]

        arguments = [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={MOST_BYTES}",
            "-timeout=20",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={OUT}/{name}-",
            "-print_final_stats=1",
            str(corpus),
        ]

        def one(data: bytes) -> None:
            target.try_one(folder, data)

        atheris.Setup(arguments, one, custom_mutator=mutator)
        atheris.Fuzz()


def kernels() -> list[str]:
    """Return the modules that numba compiles, without importing them."""
    spec = importlib.util.find_spec("mslm_data")
    assert spec is not None
    return [
        f"mslm_data.kernels.{path.stem}"
        for folder in spec.submodule_search_locations or ()
        for path in Path(folder, "kernels").glob("*.py")
    ]


if __name__ == "__main__":
    sys.exit(main())
