"""Make a release: check it, build it, describe it, and say how it is published.

`make release` tries all of it and changes nothing outside of the checkout: commands that sign, tag,
push or upload are printed. `make publish` runs them as well, by `tools/release.py --publish`, and
stops before anything else if the tree or the changelog is not ready.

The files lie in `dist/` afterwards: the package as source and as a wheel, and for each way of
installing it a bill of materials (CycloneDX) that names all that the installation brings.
"""

from __future__ import annotations

import argparse
import email
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
NAME = "mslm-data"

BILLS = {"": (), "-all": ("all",)}
"""Ending of a bill's name -> the extras of the installation that it describes."""
SHIPPED = ("pipelines/", "vocab/")
"""Folders that the wheel has below `mslm_data/_shipped/`."""
OF_CI = (".ci/",)
"""Tracked files that the source distribution leaves out."""
METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
"""Files of the wheel's `dist-info` folder."""


class ReleaseError(Exception):
    """A release that cannot be made; the message says why."""


def main(words: Sequence[str] | None = None) -> int:
    """Make a release, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--publish", action="store_true", help="sign, tag, push and upload the release"
    )
    parser.add_argument(
        "--skip-tests", action="store_true", help="leave the tests out; only without --publish"
    )
    given = parser.parse_args(words)
    if given.publish and given.skip_tests:
        parser.error("--publish: expected the tests to run; leave --skip-tests out")

    try:
        make(publish=given.publish, with_tests=not given.skip_tests)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: exit code {error.returncode} from {error.cmd}", file=sys.stderr)
        return 1
    return 0


def make(*, publish: bool, with_tests: bool) -> None:
    """Do all steps of a release.

    Args:
        publish: Whether the steps outside of the checkout are done, or only printed.
        with_tests: Whether the tests are run.

    Raises:
        ReleaseError: A check failed.
        subprocess.CalledProcessError: A program failed.
    """
    version = version_of((ROOT / "mslm_data" / "_version.py").read_text(encoding="utf-8"))
    step(f"release {version}")
    problems = unready(version)
    for problem in problems:
        print(f"not ready: {problem}")
    if publish and problems:
        raise ReleaseError("expected a tree and a changelog that are ready, got the above")

    if with_tests:
        step("tests")
        run("make", "test")

    step("build, twice")
    files = built(DIST)

    step("check what was built")
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    refuse_other_contents(files)

    step("bills of materials")
    (wheel,) = (file for file in files if file.suffix == ".whl")
    bills = [
        bill_of(wheel, extras, version, DIST / f"{NAME}-{version}{ending}.cdx.json")
        for ending, extras in BILLS.items()
    ]

    step("publish" if publish else "to be done by `make publish`")
    for command in outside(version, files, bills):
        if publish:
            run(*command)
        else:
            print(shlex.join(str(word) for word in command))
    names = ", ".join(bill.name for bill in bills)
    print(f"attach to the page of the release, with their signatures: {names}")


def step(title: str) -> None:
    """Print which step begins."""
    print(f"\n== {title}", flush=True)


def run(*command: str | Path, **variables: str) -> None:
    """Run a program in the root of the checkout, with further environment variables."""
    words = [str(word) for word in command]
    subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}, check=True)


def output(*command: str | Path) -> str:
    """Run a program in the root of the checkout, and return what it prints."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


# Whether it is ready ------------------------------------------------------------------------------


def version_of(module: str) -> str:
    """Return the version that the text of `_version.py` says."""
    match = re.search(r'^__version__ = "([^"]+)"$', module, re.MULTILINE)
    if match is None:
        raise ReleaseError('mslm_data/_version.py: expected __version__ = "…", found none')
    return match[1]


def unready(version: str) -> list[str]:
    """Return what keeps the checkout from being released."""
    problems = []
    if output("git", "status", "--porcelain"):
        problems.append("the tree has changes; commit or remove them")
    if output("git", "tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} exists; raise mslm_data/_version.py")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    problems += heading_problem(changelog, version)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    problems += citation_problem(citation, version)
    problems += links_problem((ROOT / "README.md").read_text(encoding="utf-8"))
    return problems


def heading_problem(changelog: str, version: str) -> list[str]:
    """Return what is wrong with the newest heading of the changelog, nothing if it is right."""
    match = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    heading = match[1] if match else ""
    if re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        return []
    return [
        f"CHANGELOG.md: expected '## {version} (YYYY-MM-DD)' as newest heading, got '## {heading}'"
    ]


def citation_problem(citation: str, version: str) -> list[str]:
    """Return what is wrong with the text of `CITATION.cff`, nothing if it is right."""
    problems = []
    if not re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE):
        problems.append(f"CITATION.cff: expected 'version: {version}', got another or none")
    if not re.search(r'^date-released: "?\d{4}-\d\d-\d\d"?$', citation, re.MULTILINE):
        problems.append("CITATION.cff: expected 'date-released: YYYY-MM-DD', got none")
    return problems


def links_problem(readme: str) -> list[str]:
    """Return what is wrong with the links of the README, which a package index shows too."""
    target = r"(?!https?://|mailto:|#)\S"
    relative = re.findall(rf"\]\({target}|^\[[^]]+\]: {target}", readme, re.MULTILINE)
    if not relative:
        return []
    return [
        f"README.md: expected links that lead somewhere from a package index, got {len(relative)} "
        "to files beside it; write them with the address of the repository at the tag"
    ]


# Building -----------------------------------------------------------------------------------------


def built(into: Path) -> list[Path]:
    """Build the source distribution and the wheel, and return them.

    Both are built twice, the wheel from the source distribution and from the checkout, and must be
    equal bytes. Times in them are those of the last commit.

    Raises:
        ReleaseError: The bytes differ.
    """
    shutil.rmtree(into, ignore_errors=True)
    time = output("git", "log", "-1", "--format=%ct").strip()
    build = (sys.executable, "-m", "build", "--no-isolation")
    with tempfile.TemporaryDirectory() as again:
        run(*build, "--outdir", into, SOURCE_DATE_EPOCH=time)
        run(*build, "--sdist", "--wheel", "--outdir", again, SOURCE_DATE_EPOCH=time)

        files = sorted(into.iterdir())
        for file in files:
            if file.read_bytes() != (Path(again) / file.name).read_bytes():
                raise ReleaseError(f"{file.name}: expected equal bytes from two builds, got others")
    return files


def refuse_other_contents(files: Iterable[Path]) -> None:
    """Check that both distributions hold what is tracked here, and nothing else.

    Raises:
        ReleaseError: Names what is missing, and what should not be there.
    """
    tracked = output("git", "ls-files", "-z").split("\0")[:-1]
    for file in files:
        if file.suffix == ".whl":
            found = set(zipfile.ZipFile(file).namelist())
            expected = expected_in_wheel(tracked, file.name)
        else:
            with tarfile.open(file) as archive:
                found = {name.partition("/")[2] for name in archive.getnames()}
            expected = expected_in_source(tracked)
        if found != expected:
            raise ReleaseError(
                f"{file.name}: expected the files that are tracked, got these as well: "
                f"{sorted(found - expected)}, and lacked these: {sorted(expected - found)}"
            )


def expected_in_wheel(tracked: Iterable[str], name: str) -> set[str]:
    """Return the files of a wheel: the package, its pipelines and samples, and its metadata.

    Args:
        tracked: The files of the checkout.
        name: The name of the wheel.
    """
    info = "-".join(name.split("-")[:2]) + ".dist-info"
    expected = {f"{info}/{file}" for file in METADATA}
    for file in tracked:
        if file.startswith("mslm_data/"):
            expected.add(file)
        elif file.startswith(SHIPPED):
            expected.add(f"mslm_data/_shipped/{file}")
    return expected


def expected_in_source(tracked: Iterable[str]) -> set[str]:
    """Return the files of a source distribution: all that are tracked, and its metadata."""
    return {"PKG-INFO", *(file for file in tracked if not file.startswith(OF_CI))}


# Bills of materials -------------------------------------------------------------------------------


def bill_of(wheel: Path, extras: Sequence[str], version: str, into: Path) -> Path:
    """Write a bill of what installing the wheel brings, and check it.

    The wheel is installed into an empty environment, with the versions of
    `tools/constraints.txt`. The bill is validated against the schema of CycloneDX.

    Args:
        wheel: The wheel.
        extras: The extras that are installed.
        version: Of the wheel.
        into: The file of the bill.

    Raises:
        ReleaseError: The bill lacks a package, or names one that is not there.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False, symlinks=True)
        python = Path(folder) / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python)
        chosen = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        run(*pip, "install", "--quiet", "--constraint", "tools/constraints.txt", chosen)

        # The tool reads the package's own name and version from a file that has both.
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        described = Path(folder) / "pyproject.toml"
        described.write_text(project.replace('dynamic = ["version"]', f'version = "{version}"'))
        tool = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
        about = ("--mc-type", "library", "--pyproject", described, "--output-file", into)
        run(*tool, *about, "--validate", python)

        listed = json.loads(output(*pip, "list", "--format", "json"))

    installed: dict[str, str] = {canonicalize_name(one["name"]): one["version"] for one in listed}
    text = into.read_text(encoding="utf-8")
    wrong = differences(json.loads(text), installed, required(metadata_of(wheel), extras))
    if str(ROOT) in text or folder in text:
        wrong.append("a path of this machine stands in it")
    if wrong:
        raise ReleaseError(f"{into.name}: expected all that is installed; {'; '.join(wrong)}")
    print(f"{into.name}: {len(installed)} packages")
    return into


def metadata_of(wheel: Path) -> list[str]:
    """Return the requirements that a wheel states."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(archive.read(name))
    return stated.get_all("Requires-Dist") or []


def required(stated: Iterable[str], extras: Sequence[str]) -> list[Requirement]:
    """Return the requirements of an installation with some extras.

    Args:
        stated: All requirements of the package.
        extras: Extras; those that they consist of count too.
    """
    stated = list(stated)
    found: dict[str, Requirement] = {}
    to_do = ["", *extras]
    for extra in to_do:
        for one in map(Requirement, stated):
            if one.marker is not None and not one.marker.evaluate({"extra": extra}):
                continue
            if canonicalize_name(one.name) == NAME:
                to_do += sorted(one.extras - set(to_do))
            else:
                found[str(one)] = one
    return list(found.values())


def differences(
    bill: Mapping[str, object], installed: Mapping[str, str], wanted: Iterable[Requirement]
) -> list[str]:
    """Return what is wrong with a bill.

    Args:
        bill: What its JSON says.
        installed: Package -> version, the package itself included.
        wanted: The package's own requirements.
    """
    about = bill["metadata"]
    components = bill["components"]
    assert isinstance(about, dict)  # noqa: S101 - for the type checker; the bill was validated
    assert isinstance(components, list)  # noqa: S101
    named = {
        canonicalize_name(one["name"]): one.get("version")
        for one in [about["component"], *components]
    }

    missing = installed.items() - named.items()
    wrong = [f"{name} {version} is not named" for name, version in missing]
    wrong += [f"{name} is not installed" for name in named.keys() - installed.keys()]
    for one in wanted:
        version = named.get(canonicalize_name(one.name))
        if version is None or not one.specifier.contains(version, prereleases=True):
            wrong.append(f"'{one}' is required, got {version or 'nothing'}")
    return sorted(wrong)


# Outside of the checkout --------------------------------------------------------------------------


def outside(
    version: str, files: Sequence[Path], bills: Sequence[Path]
) -> list[tuple[str | Path, ...]]:
    """Return the commands that sign, tag, push and upload a release; the upload is the last.

    `pypi-attestations` and `sigstore` sign with the identity of the person or the job that runs
    them, without a key to keep. `twine` uploads as the job that the index trusts, or asks.
    """
    python = sys.executable
    attestations = [file.with_name(f"{file.name}.publish.attestation") for file in files]
    tag = f"v{version}"
    return [
        ("git", "tag", "--sign", tag, "--message", f"{NAME} {version}"),
        ("git", "push", "origin", tag),
        (python, "-m", "pypi_attestations", "sign", *files),
        (python, "-m", "sigstore", "sign", *bills),
        (python, "-m", "twine", "upload", "--attestations", *files, *attestations),
    ]


if __name__ == "__main__":
    sys.exit(main())
