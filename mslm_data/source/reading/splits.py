"""Assigns input files to splits, by patterns of the pipeline or by the names of files and folders.

`unread` lists every file that is not read, with the reason.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import split_order
from mslm_data.errors import SourceError
from mslm_data.source.reading.files import ending, ends_with
from mslm_data.source.reading.walk import every_file, is_hidden, is_output, plain_files
from mslm_data.source.table import SOURCES

_SPLIT_WORDS = {
    "train": r"train(?:ing)?|trn",
    # In CoNLL-2003, "testa" is the development set and "testb" the test set.
    "validation": r"dev(?:el(?:op(?:ment)?)?)?|val(?:id(?:ation)?)?|testa",
    # SemEval and GermEval are names of shared tasks.
    "test": r"test(?:b|ing)?|tst|(?-i:(?<![a-z]))eval(?:uation)?",
}
"""Split -> its words in names. Only whole words count: `gastrointestinal` has none."""
_SPLIT_WORD = re.compile(
    "|".join(f"(?P<{split}>(?i:{word}))" for split, word in _SPLIT_WORDS.items())
)
# Words end at other characters than letters and at changes of case: Training|Set, GENE|Test,
# NCBI|trainset. The last of several capitals may belong to either word.
_CHANGES = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Z]{2})(?=[a-z])"
_SPEAKS = re.compile(
    rf"(?:(?<![A-Za-z])|{_CHANGES})(?i:(?:{'|'.join(_SPLIT_WORDS.values())})+"
    rf"(?:set|split|data|corpus|files?)?)(?:(?![A-Za-z])|{_CHANGES})"
)
"""A word made of split words, such as `trainset`; `traindev` names two splits."""
_OWN_NAMES = re.compile("|".join(_SPLIT_WORDS.values()))
"""Names of an input folder that give a split. Longer names may only say where the folder is."""
_WITHIN = re.compile(
    r"[a-z](?:(?P<train>train|trn)|(?P<validation>devel|dev)|(?P<test>test|tst))(?![a-z])"
)
"""A split word at the end of a longer word, such as `engtrain` and `contest`: nobody can tell."""
_NAME_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[A-Za-z]+\Z")
_LONGEST_NAME = 6
"""Maximum number of words in a name that is no title."""
_FEW_FILES = 12
"""Maximum number of files whose names a message lists, and of files that are asked about for a
split word within a word. In larger folders names are documents."""
_ABOUT = re.compile(
    r"(?:readme|licen[sc]e|copying|notice|changes|changelog|citation|authors|sources?)\b.*"
)
"""Names of files that describe a corpus."""
_LOOKED_AT = 20
"""Maximum number of files of a suffix whose content is tested."""
_BINARY = (".parquet", ".arrow", ".feather")
"""Suffixes of binary tables, which readers of text cannot read."""
_OF_NO_SPLIT = "its name has no split, unlike other names; assign it with [source] splits"
_OF_NO_DOCUMENT = "it belongs to no document that is read"
_MADE = "a build made it"


class Candidate(NamedTuple):
    """A file that may be read.

    Attributes:
        path: The file.
        below: Path below the input.
        folder: Name of the input if it is a folder, else "".
        above: Folders by which the input differs from other inputs, the nearest last.
        title: The word with a split word in the names of all files, which says nothing, as
            `SeeDev`. In folders it says nothing either, unless it is "", for several words or a
            split word alone. None if the file's name may give the split.
    """

    path: Path
    below: str
    folder: str = ""
    above: tuple[str, ...] = ()
    title: str | None = None

    @property
    def root(self) -> str:
        """Path of the input folder, with a slash at its end."""
        return str(self.path).removesuffix(self.below)


class _Input(NamedTuple):
    """An input, with the names that may give the split of its files.

    Attributes:
        root: The file or folder.
        folder: See `Candidate`.
        above: See `Candidate`.
    """

    root: Path
    folder: str
    above: tuple[str, ...]

    def candidate(self, path: Path) -> Candidate:
        """Return a file of the input."""
        below = path.name if path == self.root else path.relative_to(self.root).as_posix()
        return Candidate(path, below, self.folder, self.above)


class Unread(NamedTuple):
    """An input file that is not read: its path below the input, and the reason."""

    below: str
    reason: str


def _splits_in(name: str) -> list[str]:
    """Return the splits in the name of a file or folder.

    A long name is a title. Its split is its first or last word: `12_obama-to-test-new-waters.txt`
    has none.
    """
    words = list(_NAME_WORD.finditer(name.removesuffix(".gz").partition(".")[0]))
    inner = range(words[0].end(), words[-1].start()) if len(words) > _LONGEST_NAME else range(0)
    splits = {
        str(part.lastgroup)
        for word in _SPEAKS.finditer(name)
        if word.start() not in inner
        for part in _SPLIT_WORD.finditer(word[0])
    }
    return sorted(splits, key=split_order)


def parse_split(name: str) -> str | None:
    """Return the split in the name of a file or folder, None if there is none.

    Raises:
        SourceError: The name has several splits.
    """
    splits = _splits_in(name)
    if len(splits) > 1:
        raise SourceError(
            f"{name}: expected one split in the name, got {' and '.join(splits)}; "
            f"{_advise({splits[0]: [f'*{name}*']})}"
        )
    return splits[0] if splits else None


def keep_only(paths: Iterable[Path]) -> str:
    """Return the advice to read some files only, with a line to copy if they are few."""
    patterns: dict[str, list[str]] = {}
    for path in paths:
        splits = _splits_in(path.name)
        patterns.setdefault(splits[0] if len(splits) == 1 else "train", []).append(f"*{path.name}")
    if sum(map(len, patterns.values())) > _FEW_FILES:
        return "leave it out with [source] splits"
    return f"leave it out: {_advise(patterns)}"


def _advise(patterns: Mapping[str, Collection[str]]) -> str:
    """Return the advice to set `splits`, with a line to copy."""
    in_order = sorted(patterns, key=split_order)
    listed = ", ".join(f"{split} = {sorted(patterns[split])}" for split in in_order)
    return f"assign files to splits with [source] splits, such as splits = {{ {listed} }}"


def sort_by_split(
    inputs: Sequence[Path],
    *,
    suffixes: Sequence[str],
    splits: Mapping[str, Sequence[str]],
    pattern: str = "*",
    holds: Callable[[Path], bool] | None = None,
    disowns: Callable[[Path], str] = lambda _: "",
) -> dict[str, list[Path]]:
    """Assign input files to splits.

    With `splits`, each split takes the files whose path below the input matches one of its
    patterns.

    Without `splits`, the split is taken from the first of these that names one:

    1. the file name, such as `train.tsv`;
    2. the nearest folder below the input whose name has one;
    3. the nearest of the folders in which several inputs differ, as in `--input x/train-set/a
       --input x/test-set/a`;
    4. the name of the input folder, if it is just a split, such as `dev`.

    If no file has a split, all are `train`. If only some have, the others are ignored, unless they
    are likely to be wanted: see `_check_left_out`. A split word within a longer word, as in
    `engtrain`, is a question. A split word in all file names says nothing if folders name several
    splits, as for `train/SeeDev-1.txt` and `dev/SeeDev-2.txt`.

    Args:
        inputs: Files, or folders to search.
        suffixes: Suffixes of the format's files (`.gz` may follow). A text file given directly may
            have any suffix.
        splits: Split -> patterns, as for `fnmatch`.
        pattern: Pattern of file names in folders, see `fits`. Other files are ignored, whatever
            their names say. Default: all names.
        holds: Whether a file with another suffix is in the format. Such files are read for splits
            that have no others. None for formats that are recognised by suffix only.
        disowns: Returns why a file is certainly in another format, "" otherwise. Such a file is
            ignored if its split, or the input if its name has no split, has other files.

    Returns:
        Split -> files, sorted by path; train, validation and test first.

    Raises:
        SourceError: An input is missing, no file matches, or the split of a file is ambiguous.
    """
    candidates = [*find_candidates(inputs, suffixes, pattern)]
    if not splits:
        candidates = [*_without_titles(candidates)]

    by_content = [*_find_by_content(inputs, suffixes, holds, disowns)] if holds else []

    # Patterns are the user's decision, so they are not questioned by content.
    usual = candidates if splits else _without_strays(candidates, by_content, disowns)
    sorted_out = assign(usual, splits=splits)

    # Files with other suffixes are read for splits that have no other files.
    others = [
        candidate
        for candidate in by_content
        if not sorted_out or (_find_split(candidate, splits) or "") not in {"", *sorted_out}
    ]
    if others:
        united = {**sorted_out, **assign(others, splits=splits)}
        sorted_out = {split: united[split] for split in sorted(united, key=split_order)}
    if not sorted_out:
        # All files are in another format. Keep them, so that the reader explains what is wrong.
        sorted_out = assign(candidates, splits=splits)
    if not sorted_out:
        names = ", ".join(path.name for path in inputs)
        expected = f"files ending with {', '.join(suffixes)}"
        if pattern != "*":
            expected += f" that fit [source] pattern '{pattern}'"
        if splits and ["*"] not in map(list, splits.values()):
            expected += " that [source] splits names"
        raise SourceError(
            f"{names}: expected {expected}, found none; check --input and "
            f"[source]{_other_sources(inputs, suffixes)}"
        )
    return sorted_out


def _without_strays(
    candidates: Iterable[Candidate],
    by_content: Iterable[Candidate],
    disowns: Callable[[Path], str],
) -> list[Candidate]:
    """Remove files of another format, if files of this format remain.

    A file whose name gives a split is only removed if that split has a file of this format. A file
    whose split is that of the input folder is only removed if this folder has such a file.
    """
    every = [*candidates]
    strays = {candidate for candidate in every if candidate.folder and disowns(candidate.path)}
    if not strays:
        return every

    ours = [candidate for candidate in every if candidate not in strays]
    splits = {_nearest(candidate) for candidate in ours}
    roots = {candidate.root for candidate in (*ours, *by_content)}

    def is_alone(stray: Candidate) -> bool:
        split = _nearest(stray)
        if split is None:
            return _find_split(stray, {}) is not None and stray.root not in roots
        return split not in splits

    return [candidate for candidate in every if candidate not in strays or is_alone(candidate)]


def _without_titles(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Mark the names of files if all have the same split word, but folders name several splits.

    Raises:
        SourceError: All names have a word such as `SeeDev`, and no folder decides what it means.
    """
    named = [file for file in candidates if not _is_about(file)]
    if len(named) < 2:
        return candidates
    own = _splits_in(Path(named[0].below).name)
    if not own or any(_splits_in(Path(file.below).name) != own for file in named):
        return candidates

    words = {_find_title(Path(file.below).name) for file in named}
    title = words.pop() if len(words) == 1 else ""
    titled = [file._replace(title=title) for file in candidates]
    by_folder = {_nearest(file) or _find_above(file) for file in titled if not _is_about(file)}
    if len(by_folder) > 1 and None not in by_folder:
        return titled
    split = own[0]
    if own != ["train"] and by_folder != {split} and title:
        raise SourceError(
            f"{named[0].below}: cannot tell whether a part of the name, as in the names of all "
            f"{len(named)} files, is a split; set [source] splits = {{ {split} = ['*'] }} if it "
            "is, else splits = { train = ['*'] }"
        )
    return candidates


def _is_about(candidate: Candidate) -> bool:
    """Return whether a file describes a corpus."""
    return _ABOUT.fullmatch(Path(candidate.below).name.lower()) is not None


def _find_title(name: str) -> str:
    """Return the word of a name that ends with a split word, as `SeeDev`; "" for a split word."""
    word = _SPEAKS.search(name)
    before = _LETTERS.search(name[: word.start()]) if word else None
    return before[0] + word[0] if word and before else ""


def _find_by_content(
    inputs: Sequence[Path],
    suffixes: Sequence[str],
    holds: Callable[[Path], bool],
    disowns: Callable[[Path], str],
) -> Iterator[Candidate]:
    """Yield files below input folders that have another suffix but are in the format.

    Tests only the first files of each suffix, and takes all or none of that suffix.
    """
    for given in _compare(inputs):
        if not given.root.is_dir():
            continue
        # A folder may have thousands of other files, so test the first few of each suffix.
        by_ending: dict[str, list[Path]] = {}
        for path in plain_files(given.root):
            if not ends_with(path, suffixes):
                by_ending.setdefault(ending(path), []).append(path)
        for paths in by_ending.values():
            filled = [path for path in paths if path.stat().st_size]
            if any(map(holds, filled[:_LOOKED_AT])):
                yield from map(given.candidate, itertools.filterfalse(disowns, filled))


def assign(
    candidates: Iterable[Candidate], *, splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Assign files to splits by patterns or names; see `sort_by_split`.

    Args:
        candidates: The files.
        splits: Split -> patterns, as for `fnmatch`; if empty, names decide.

    Returns:
        Split -> distinct paths, sorted; empty if no path matches.

    Raises:
        SourceError: A file matches several splits, or no split although it is likely to be wanted.
    """
    by_split: dict[str, set[Path]] = {}
    unassigned: dict[Path, Candidate] = {}
    candidates = [*candidates]
    for candidate in candidates:
        split = _find_split(candidate, splits)
        if split:
            by_split.setdefault(split, set()).add(candidate.path)
        else:
            unassigned[candidate.path] = candidate

    if unassigned and not splits:
        if len(candidates) > 1:
            _check_embedded_words([*unassigned.values()], candidates)
        if by_split:
            _check_left_out([*unassigned.values()], by_split)
        else:
            by_split["train"] = {*unassigned}
    return {split: sorted(by_split[split]) for split in sorted(by_split, key=split_order)}


def _check_embedded_words(unassigned: Sequence[Candidate], candidates: Sequence[Candidate]) -> None:
    """Raise if the name of a file without a split may contain one, as `nertest.bio`.

    Raises:
        SourceError: Names the file, and a split for each of the candidates.
    """
    words = {file: _WITHIN.search(Path(file.below).name.lower()) for file in unassigned}
    unclear = [file for file, word in words.items() if word]
    if not unclear or len(candidates) > _FEW_FILES:
        return

    patterns: dict[str, set[str]] = {}
    for file in candidates:
        word = words.get(file)
        split = str(word.lastgroup) if word else _find_split(file, {}) or "train"
        patterns.setdefault(split, set()).add(file.below)
    raise SourceError(
        f"{unclear[0].below}: cannot tell whether the end of a word in the name is a split; "
        f"{_advise(patterns)}"
    )


def _find_split(candidate: Candidate, splits: Mapping[str, Sequence[str]]) -> str | None:
    """Return the split of a file by patterns, or else by its own name; None if there is none."""
    if splits:
        return _match_patterns(candidate.below, splits)
    if split := _nearest(candidate):
        return split
    if split := _find_above(candidate):
        return split
    # A longer name of the only input may only say where it is.
    folder = candidate.folder
    return parse_split(folder) if _OWN_NAMES.fullmatch(folder.lower()) else None


def _match_patterns(below: str, splits: Mapping[str, Sequence[str]]) -> str | None:
    """Return the split whose patterns match a path below the input, None if there is none."""
    matching = [
        split
        for split, patterns in splits.items()
        if any(fnmatch(below, pattern) for pattern in patterns)
    ]
    if len(matching) > 1:
        raise SourceError(
            f"{below}: expected one split, got {' and '.join(matching)}; change the patterns of "
            "[source] splits"
        )
    return matching[0] if matching else None


def _find_above(candidate: Candidate) -> str | None:
    """Return the split in the nearest of the folders in which inputs differ."""
    for name in reversed(candidate.above):
        if split := parse_split(_without(name, candidate.title)):
            return split
    return None


def _without(name: str, title: str | None) -> str:
    """Remove a title from the name of a folder."""
    return name.replace(title, "") if title else name


def _nearest(candidate: Candidate) -> str | None:
    """Return the split in a file's name, or else in the name of the nearest folder.

    Raises:
        SourceError: The name has several splits, or the names of file and folder contradict.
    """
    below = candidate.below
    *folders, name = Path(below).parts
    own = None if candidate.title is not None else parse_split(name)
    folders = [_without(folder, candidate.title) for folder in folders]
    folder = next((folder for folder in reversed(folders) if _splits_in(folder)), "")
    if own is None:
        return parse_split(folder)
    if folder and own not in _splits_in(folder):
        folder_split = parse_split(folder)
        patterns = {str(folder_split): [f"*{folder}/*"]}
        raise SourceError(
            f"{below}: the file name says {own} and its folder says {folder_split}; "
            f"{_advise(patterns)}"
        )
    return own


def _check_left_out(
    unassigned: Sequence[Candidate], by_split: Mapping[str, Collection[Path]]
) -> None:
    """Raise if files without a split in their names are likely to be wanted.

    They are if one was given with `--input`, if there is no training file otherwise, or if they
    outnumber the files with a split. Files that describe the corpus, such as a README, do not
    count.

    Raises:
        SourceError: Names one of the files.
    """
    others = [candidate for candidate in unassigned if not _is_about(candidate)]
    if not others:
        return

    num_assigned = sum(map(len, by_split.values()))
    given = next((candidate for candidate in others if not candidate.folder), None)
    if given or "train" not in by_split or len(others) > num_assigned:
        first = given or others[0]
        (split, paths), *_ = by_split.items()
        patterns = {split: [f"*{min(paths).name}"]}
        wanted = [first]
        if num_assigned + len(others) <= _FEW_FILES:
            patterns = {name: [f"*{path.name}" for path in by_split[name]] for name in by_split}
            wanted = others
        patterns.setdefault("train", []).extend(file.below for file in wanted)
        raise SourceError(
            f"{first.below}: expected a split in the name, as {split} in {min(paths).name}, got "
            f"{len(others)} file(s) without one; {_advise(patterns)}"
        )


def _compare(inputs: Sequence[Path]) -> list[_Input]:
    """Return the inputs, each with the folders in which it differs from the others."""
    folders = [root.resolve() if root.is_dir() else root.resolve().parent for root in inputs]
    if not folders:  # the source finds its files elsewhere
        return []
    top = os.path.commonpath(folders)
    return [
        _Input(root, folder.name if root.is_dir() else "", folder.relative_to(top).parts)
        for root, folder in zip(inputs, folders, strict=True)
    ]


def find_candidates(
    inputs: Sequence[Path], suffixes: Sequence[str], pattern: str = "*"
) -> Iterator[Candidate]:
    """Yield each input file that may be in the format; see `sort_by_split`."""
    for given in _compare(inputs):
        root = given.root
        if root.is_file():
            if root.name.endswith(_BINARY) and not ends_with(root, suffixes):
                raise SourceError(
                    f"{root}: expected a file ending with {', '.join(suffixes)}, got a binary "
                    f"table; check [source] use{_other_sources([root], suffixes)}"
                )
            yield given.candidate(root)
        elif root.is_dir():
            for path in plain_files(root):
                if ends_with(path, suffixes) and fits(path, pattern):
                    yield given.candidate(path)
        else:
            raise SourceError(
                f"{root}: expected a file or a folder, found nothing there; check --input"
            )


def check_one_form(
    inputs: Sequence[Path],
    files: Mapping[str, Sequence[Path]],
    *,
    suffixes: Sequence[str],
    by_pattern: bool = False,
) -> None:
    """Raise if the files of a split have different suffixes.

    They are probably the same documents in two forms, which would be read twice. Files given
    directly with `--input` are accepted.

    Args:
        inputs: Files, or folders that were searched.
        files: Split -> files.
        suffixes: Suffixes of the format's files.
        by_pattern: Whether the source has the option `pattern`, to select files by name.

    Raises:
        SourceError: Names a file of each form.
    """
    for split, paths in files.items():
        firsts: dict[str, Path] = {}
        for path in paths:
            if path not in inputs:
                firsts.setdefault(_form(path, suffixes), path)
        if len(firsts) > 1:
            (form, first), (_, second), *_ = firsts.items()
            advice = (
                "assign files to splits with [source] splits, such as splits = "
                f"{{ {split} = ['*{form}'] }}"
            )
            if by_pattern:
                advice = f"select files with [source] pattern, such as '*{form}'"
            raise SourceError(
                f"split '{split}': expected files of one form, got {first} and {second}; if they "
                f"are the same documents, pass one of them with --input, else {advice}"
            )


def _form(path: Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a file, including `.gz`."""
    plain = path.name.removesuffix(".gz")
    form = next((suffix for suffix in suffixes if plain.endswith(suffix)), "")
    return (form or Path(plain).suffix) + path.name[len(plain) :]


def unread(
    inputs: Sequence[Path],
    read: Iterable[Path],
    *,
    suffixes: Sequence[str],
    splits: Mapping[str, Sequence[str]],
    pattern: str = "*",
    disowns: Callable[[Path], str] = lambda _: "",
    apart_from: Path | None = None,
) -> list[Unread]:
    """List the files below input folders that are not read, each with the reason.

    Args:
        inputs: Files, or folders that were searched.
        read: Files that are read, including annotations of other files.
        suffixes: Suffixes of the format's files.
        splits: Split -> patterns, as for `fnmatch`; empty if names decide.
        pattern: Pattern of file names; see `fits`.
        disowns: See `sort_by_split`.
        apart_from: A folder to skip, such as the output folder.
    """
    as_given = set(read)

    @cache
    def resolved() -> set[Path]:
        return {path.resolve() for path in as_given}

    excluded = apart_from.resolve() if apart_from else None
    read_files = []
    left = []
    for given in _compare(inputs):
        if not given.root.is_dir():
            continue
        built = {given.root: False}
        for path in every_file(given.root):
            candidate = given.candidate(path)
            # Most files are read, under the same path; resolving links takes longer than the rest.
            if path in as_given or path.resolve() in resolved():
                read_files.append(candidate)
            elif excluded is None or not path.resolve().is_relative_to(excluded):
                left.append((candidate, is_output(path.parent, built)))

    @cache
    def names_have_splits() -> bool:
        return any(map(_names_split, read_files))

    result = []
    for candidate, is_made in left:
        reason = _MADE if is_made else _why_not_candidate(candidate, suffixes, splits, pattern)
        reason = reason or disowns(candidate.path)
        if not reason:
            has_split = bool(splits) or _names_split(candidate)
            reason = _OF_NO_DOCUMENT if has_split or not names_have_splits() else _OF_NO_SPLIT
        result.append(Unread(candidate.below, reason))
    return result


def _names_split(candidate: Candidate) -> bool:
    """Return whether a file's name or folder gives a split, or several."""
    try:
        return _find_split(candidate, {}) is not None
    except SourceError:  # files that are not assigned to splits may have names of several
        return True


def _why_not_candidate(
    candidate: Candidate,
    suffixes: Sequence[str],
    splits: Mapping[str, Sequence[str]],
    pattern: str,
) -> str:
    """Return why a file's name rules it out, "" if it does not."""
    path = Path(candidate.below)
    if is_hidden(path):
        return "hidden"
    if not ends_with(path, suffixes):
        return (
            f"its name does not end with {', '.join(suffixes)}; --input reads a file that it names "
            "itself, whatever its ending"
        )
    if not fits(path, pattern):
        return f"its name does not fit [source] pattern, '{pattern}'"
    if splits and not _find_split(candidate, splits):
        return "no pattern of [source] splits fits it"
    return ""


def fits(path: Path, pattern: str) -> bool:
    """Return whether a file's name matches an `fnmatch` pattern, with or without its `.gz`."""
    return any(fnmatch(name, pattern) for name in (path.name, path.name.removesuffix(".gz")))


def _other_sources(inputs: Sequence[Path], suffixes: Sequence[str]) -> str:
    """Return a hint at sources that read other files of the input, "" if there are none.

    Imports the readers of all formats, so it is called for error messages only.
    """
    files = [path for root in inputs for path in ([root] if root.is_file() else plain_files(root))]
    hints = []
    for name in SOURCES.names():
        suffixes_there = set(SOURCES.load(name).suffixes) - set(suffixes)
        present = sorted(
            suffix for suffix in suffixes_there if any(ends_with(p, suffix) for p in files)
        )
        if present:
            hints.append(f"source '{name}' reads {', '.join(present)}")
    return f"; of the files there, {' and '.join(hints)}" if hints else ""
