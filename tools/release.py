"""Make a release: run the tests, build the distributions, write bills of materials, and publish.

`make release` is a dry run. It prints the commands to sign, tag, push and upload, and changes
nothing outside the checkout. `make publish` (`tools/release.py --publish`) runs them too, and stops
at the start if tree, changelog, CITATION.cff or README are not ready.

Output is written to `dist/`: source distribution, wheel, and two bills of materials (CycloneDX),
for the package alone and with all extras.
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
"""Suffix of a bill's file name -> extras of its installation."""
SHIPPED = ("pipelines/", "vocab/")
"""Folders copied to `mslm_data/_shipped/` in the wheel."""
CI_FILES = (".ci/",)
"""Tracked files excluded from the source distribution."""
METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
"""Files of the wheel's `dist-info` folder."""


class ReleaseError(Exception):
    """The release cannot be made. The message is the reason."""


def main(words: Sequence[str] | None = None) -> int:
    """Parse arguments, make the release and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--publish", action="store_true", help="sign, tag, push and upload the release"
    )
    parser.add_argument(
        "--skip-tests", action="store_true", help="skip the tests; not allowed with --publish"
    )
    options = parser.parse_args(words)
    if options.publish and options.skip_tests:
        parser.error("--publish: expected the tests to run; leave --skip-tests out")

    try:
        make(publish=options.publish, with_tests=not options.skip_tests)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: exit code {error.returncode} from {error.cmd}", file=sys.stderr)
        return 1
    return 0


def make(*, publish: bool, with_tests: bool) -> None:
    """Run all steps of a release.

    Args:
        publish: Whether to run the commands that sign, tag, push and upload, or only print them.
        with_tests: Whether to run the tests.

    Raises:
        ReleaseError: A check fails.
        subprocess.CalledProcessError: A program fails.
    """
    version = parse_version((ROOT / "mslm_data" / "_version.py").read_text(encoding="utf-8"))
    step(f"release {version}")
    problems = find_problems(version)
    for problem in problems:
        print(f"not ready: {problem}")
    if publish and problems:
        raise ReleaseError("expected a tree and a changelog that are ready, got the above")

    if with_tests:
        step("tests")
        run("make", "test")

    step("build, twice")
    files = build_distributions(DIST)

    step("check what was built")
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    check_contents(files)

    step("bills of materials")
    (wheel,) = (file for file in files if file.suffix == ".whl")
    bills = [
        write_bill(wheel, extras, version, DIST / f"{NAME}-{version}{ending}.cdx.json")
        for ending, extras in BILLS.items()
    ]

    step("publish" if publish else "to be done by `make publish`")
    for command in publish_commands(version, files, bills):
        if publish:
            run(*command)
        else:
            print(shlex.join(str(word) for word in command))
    names = ", ".join(bill.name for bill in bills)
    print(f"attach to the page of the release, with their signatures: {names}")


def step(title: str) -> None:
    """Print the title of a step."""
    print(f"\n== {title}", flush=True)


def run(*command: str | Path, **variables: str) -> None:
    """Run a program in the root of the checkout, with additional environment variables."""
    words = [str(word) for word in command]
    subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}, check=True)


def output(*command: str | Path) -> str:
    """Run a program in the root of the checkout, and return its output."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


# Checks -------------------------------------------------------------------------------------------


def parse_version(module: str) -> str:
    """Return the version in the text of `_version.py`."""
    match = re.search(r'^__version__ = "([^"]+)"$', module, re.MULTILINE)
    if match is None:
        raise ReleaseError('mslm_data/_version.py: expected __version__ = "…", found none')
    return match[1]


def find_problems(version: str) -> list[str]:
    """Return the reasons why the checkout cannot be published."""
    problems = []
    if output("git", "status", "--porcelain"):
        problems.append("the tree has changes; commit or remove them")
    if output("git", "tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} exists; raise mslm_data/_version.py")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    problems += changelog_problems(changelog, version)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    problems += citation_problems(citation, version)
    problems += link_problems((ROOT / "README.md").read_text(encoding="utf-8"))
    return problems


def changelog_problems(changelog: str, version: str) -> list[str]:
    """Return problems of the newest heading of the changelog."""
    match = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    heading = match[1] if match else ""
    if re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        return []
    return [
        f"CHANGELOG.md: expected '## {version} (YYYY-MM-DD)' as newest heading, got '## {heading}'"
    ]


def citation_problems(citation: str, version: str) -> list[str]:
    """Return problems of the text of `CITATION.cff`."""
    problems = []
    if not re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE):
        problems.append(f"CITATION.cff: expected 'version: {version}', got another or none")
    if not re.search(r'^date-released: "?\d{4}-\d\d-\d\d"?$', citation, re.MULTILINE):
        problems.append("CITATION.cff: expected 'date-released: YYYY-MM-DD', got none")
    return problems


def link_problems(readme: str) -> list[str]:
    """Return problems of links in the README. On a package index, relative links are broken."""
    target = r"(?!https?://|mailto:|#)\S"
    relative = re.findall(rf"\]\({target}|^\[[^]]+\]: {target}", readme, re.MULTILINE)
    if not relative:
        return []
    return [
        f"README.md: expected links that lead somewhere from a package index, got {len(relative)} "
        "to files beside it; write them with the address of the repository at the tag"
    ]


# Building -----------------------------------------------------------------------------------------


def build_distributions(into: Path) -> list[Path]:
    """Build the source distribution and the wheel, and return their paths.

    Both are built twice, the wheel once from the source distribution and once from the checkout,
    with the time of the last commit as file times.

    Raises:
        ReleaseError: The two builds differ.
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


def check_contents(files: Iterable[Path]) -> None:
    """Check that distributions contain exactly the tracked files.

    Raises:
        ReleaseError: Files are missing or unexpected; the message lists them.
    """
    tracked = output("git", "ls-files", "-z").split("\0")[:-1]
    for file in files:
        if file.suffix == ".whl":
            contents = set(zipfile.ZipFile(file).namelist())
            expected = expected_in_wheel(tracked, file.name)
        else:
            with tarfile.open(file) as archive:
                contents = {name.partition("/")[2] for name in archive.getnames()}
            expected = expected_in_source(tracked)
        if contents != expected:
            raise ReleaseError(
                f"{file.name}: expected the files that are tracked, got these as well: "
                f"{sorted(contents - expected)}, and lacked these: {sorted(expected - contents)}"
            )


def expected_in_wheel(tracked: Iterable[str], name: str) -> set[str]:
    """Return the expected files of a wheel: package, pipelines, samples and metadata.

    Args:
        tracked: Tracked files of the checkout.
        name: File name of the wheel.
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
    """Return the expected files of a source distribution: tracked files and metadata."""
    return {"PKG-INFO", *(file for file in tracked if not file.startswith(CI_FILES))}


# Bills of materials -------------------------------------------------------------------------------


def write_bill(wheel: Path, extras: Sequence[str], version: str, into: Path) -> Path:
    """Write and check the bill of materials of an installation.

    The wheel is installed into an empty environment with the versions of `tools/constraints.txt`.
    The bill is validated against the CycloneDX schema.

    Args:
        wheel: The wheel.
        extras: Extras to install.
        version: Version of the wheel.
        into: File to write.

    Returns:
        `into`.

    Raises:
        ReleaseError: The bill lacks an installed package or lists another.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False, symlinks=True)
        python = Path(folder) / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python)
        chosen = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        run(*pip, "install", "--quiet", "--constraint", "tools/constraints.txt", chosen)

        # cyclonedx-py needs a static version in pyproject.toml.
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        described = Path(folder) / "pyproject.toml"
        described.write_text(project.replace('dynamic = ["version"]', f'version = "{version}"'))
        tool = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
        about = ("--mc-type", "library", "--pyproject", described, "--output-file", into)
        run(*tool, *about, "--validate", python)

        listed = json.loads(output(*pip, "list", "--format", "json"))

    installed: dict[str, str] = {
        canonicalize_name(package["name"]): package["version"] for package in listed
    }
    text = into.read_text(encoding="utf-8")
    wrong = bill_problems(json.loads(text), installed, required(read_requirements(wheel), extras))
    if str(ROOT) in text or folder in text:
        wrong.append("a path of this machine stands in it")
    if wrong:
        raise ReleaseError(f"{into.name}: expected all that is installed; {'; '.join(wrong)}")
    print(f"{into.name}: {len(installed)} packages")
    return into


def read_requirements(wheel: Path) -> list[str]:
    """Return the `Requires-Dist` entries of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(archive.read(name))
    return stated.get_all("Requires-Dist") or []


def required(stated: Iterable[str], extras: Sequence[str]) -> list[Requirement]:
    """Return the requirements of an installation with some extras.

    Args:
        stated: `Requires-Dist` entries of the package.
        extras: Extras. Extras that they refer to, as in `mslm-data[hf]`, are included.
    """
    stated = list(stated)
    requirements: dict[str, Requirement] = {}
    to_do = ["", *extras]
    for extra in to_do:
        for requirement in map(Requirement, stated):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            if canonicalize_name(requirement.name) == NAME:
                to_do += sorted(requirement.extras - set(to_do))
            else:
                requirements[str(requirement)] = requirement
    return list(requirements.values())


def bill_problems(
    bill: Mapping[str, object], installed: Mapping[str, str], wanted: Iterable[Requirement]
) -> list[str]:
    """Return problems of a bill of materials.

    Args:
        bill: Parsed JSON of the bill.
        installed: Package -> version, including this package.
        wanted: Requirements of this package.
    """
    about = bill["metadata"]
    components = bill["components"]
    assert isinstance(about, dict)  # noqa: S101 - for the type checker; the bill was validated
    assert isinstance(components, list)  # noqa: S101
    named = {
        canonicalize_name(component["name"]): component.get("version")
        for component in [about["component"], *components]
    }

    missing = installed.items() - named.items()
    wrong = [f"{name} {version} is not named" for name, version in missing]
    wrong += [f"{name} is not installed" for name in named.keys() - installed.keys()]
    for requirement in wanted:
        version = named.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"'{requirement}' is required, got {version or 'nothing'}")
    return sorted(wrong)


# Publishing ---------------------------------------------------------------------------------------


def publish_commands(
    version: str, files: Sequence[Path], bills: Sequence[Path]
) -> list[tuple[str | Path, ...]]:
    """Return the commands that sign, tag, push and, at last, upload a release.

    `pypi-attestations` and `sigstore` sign with the identity of the user or CI job, without a key.
    `twine` uploads as a trusted publisher, or asks for credentials.
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
