"""Sorts input files into splits, by patterns of the pipeline or by what their names say.

No file is passed over in silence: `unread` gives the reason for each that is not read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import split_order
from mslm_data.errors import PipelineError, SourceError
from mslm_data.source.reading.files import ending, ends_with
from mslm_data.source.reading.walk import MadeFiles, every_file, is_hidden, plain_files
from mslm_data.source.table import SOURCES

_SPLIT_WORDS = {
    "train": r"train(?:ing)?",
    # "testa" is the development set of CoNLL-2003 and its kin; their test set is "testb".
    "validation": r"dev(?:el(?:op(?:ment)?)?)?|val(?:id(?:ation)?)?|testa",
    "test": r"test(?:b|ing)?|eval(?:uation)?",
}
"""Split -> the words that speak of it. They count as whole words: not in `gastrointestinal`."""
_SPLIT_WORD = re.compile("|".join(f"(?P<{split}>{of})" for split, of in _SPLIT_WORDS.items()))
_SPEAKS = re.compile(rf"(?:{'|'.join(_SPLIT_WORDS.values())})+(?:set|split|data|corpus|files?)?")
"""A word of a name that speaks of splits, such as `trainset`, or `traindev` of two."""
_OWN_NAMES = re.compile("|".join(_SPLIT_WORDS.values()))
"""Names of an input folder itself that speak of a split. Other names say where it lies."""
_WORD_BEGINS = (
    re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"),  # Training|Set, GENE|Test
    re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z]{2})(?=[a-z])"),  # NCBI|trainset
)
"""Places between two letters at which a word begins, as their case says. A capital before small
letters begins a word, or ends an acronym; nothing tells which, so names are read in both ways."""
_WORD = re.compile(r"[a-z]+")
_WITHIN = re.compile(
    r"(?P<train>train(?:ing)?|trn)|(?P<validation>devel(?:opment)?|dev|valid(?:ation)?|testa)"
    r"|(?P<test>test(?:b|ing)?|tst|eval)"
)
"""Words of splits that count within a word, as in `engtrain`, where another file has the same name
with the word of another split."""
_MAY_SPEAK = re.compile(r"[a-z]{1,5}(?P<word>train|trn|test|tst|devel|dev)")
"""A word that may be a corpus' short name and a split's, such as `nertest`."""
_ORDINARY = frozenset(
    re.findall(
        r"\w+",
        "strain restrain constrain retrain entrain detrain distrain quatrain attest brightest "
        "contest cutest detest fastest fattest fittest flattest greatest hottest latest lightest "
        "neatest protest quietest retest rightest shortest smartest softest strictest sweetest "
        "tightest wettest whitest",
    )
)
"""Other words that end like one."""
_FEW_FILES = 12
"""Files of a folder up to which a name is a corpus' or a split's; of more, names are documents'."""
_ABOUT = re.compile(
    r"(?:readme|licen[sc]e|copying|notice|changes|changelog|citation|authors|sources?)\b.*"
)
"""Names of files that say something of a corpus."""
_NAME_THE_SPLITS = (
    "say which files are which split with [source] splits, such as splits = { train = ['*train*'] }"
)
_LOOKED_AT = 20
"""Files of an ending that are looked into."""
_BINARY = (".parquet", ".arrow", ".feather")
"""Suffixes of tables that no reader of text can make anything of."""
_OF_NO_SPLIT = "its name speaks of no split, as others do; say which with [source] splits"
_OF_NO_DOCUMENT = "it belongs to no document that is read"
_MADE = "a build or `mslm-data annotate` made it"


class Candidate(NamedTuple):
    """A file that may be read.

    Attributes:
        path: The file.
        below: Its path below the input.
        folder: The name of the input, where that is a folder.
    """

    path: Path
    below: str
    folder: str = ""


class Unread(NamedTuple):
    """A file of the input that is not read: its path below the input, and why."""

    below: str
    reason: str


def parse_split(name: str) -> str | None:
    """Return the split that the name of a file or folder gives, None if it gives none.

    Raises:
        SourceError: The name gives several splits.
    """
    words = {
        word for begins in _WORD_BEGINS for word in _WORD.findall(begins.sub(" ", name).lower())
    }
    splits = {
        str(part.lastgroup)
        for word in words
        if _SPEAKS.fullmatch(word)
        for part in _SPLIT_WORD.finditer(word)
    }
    if len(splits) > 1:
        names = " and ".join(sorted(splits, key=split_order))
        raise SourceError(
            f"{name}: expected a name that speaks of one split, got {names}; {_NAME_THE_SPLITS}"
        )
    return splits.pop() if splits else None


def sort_by_split(
    inputs: Sequence[Path],
    *,
    suffixes: Sequence[str],
    splits: Mapping[str, Sequence[str]],
    holds: Callable[[Path], bool] | None = None,
    disowns: Callable[[Path], str] = lambda _: "",
) -> dict[str, list[Path]]:
    """Sort input files into splits.

    With `splits`, each split takes the files whose path below the input matches one of its
    patterns.

    Without, a file belongs to the split that its name speaks of, or else the name of the nearest
    folder below the input, or else the input's own if that is just a split's name. A name also
    speaks of a split by a word within a word, as `engtrain` does, where another file has the same
    name with another split's; where it may, and none has, that is refused. Where no file
    speaks of a split, all are `train`. Where some do, the others are left out, but not if they may
    be what is wanted: see `_check_left_out`.

    Args:
        inputs: Files, or folders that are searched through.
        suffixes: What file names may end with (`.gz` may follow). A text file that is named
            directly may end with anything.
        splits: Split -> patterns as of `fnmatch`.
        holds: Whether a file with another ending is of the format; it is read where its split has
            no other. None for formats that know their files by their endings.
        disowns: Why a file is surely of another form, "" where it may be of this one. It is left
            out where others are of the form: of its split, if its name speaks of one.

    Returns:
        Split -> files, sorted by path; train, validation and test first.

    Raises:
        SourceError: An input is missing, no file fits, or it cannot be told which split files are.
    """
    candidates = [*_candidates(inputs, suffixes)]
    usual = candidates if splits else _without_strays(candidates, disowns)
    sorted_out = assign(usual, splits=splits)
    if holds is not None:
        _add_by_content(sorted_out, _find_by_content(inputs, suffixes, holds, disowns), splits)
    if not sorted_out:
        # Nothing is better, so that the format says itself what is wrong with these.
        sorted_out = assign(candidates, splits=splits)
    if not sorted_out:
        names = ", ".join(path.name for path in inputs)
        expected = f"files ending with {', '.join(suffixes)}"
        if splits and ["*"] not in map(list, splits.values()):
            expected += " that [source] splits names"
        raise SourceError(
            f"{names}: expected {expected}, found none; check --input and "
            f"[source]{_other_sources(inputs, suffixes)}"
        )
    return sorted_out


def _without_strays(
    candidates: Iterable[Candidate], disowns: Callable[[Path], str]
) -> list[Candidate]:
    """Remove files of another format, if files of this format remain.

    For a file whose name gives a split, a file of this format must remain in that split.
    """
    every = [*candidates]
    strays = {
        candidate: _nearest(candidate.below)
        for candidate in every
        if candidate.folder and disowns(candidate.path)
    }
    splits = (
        {_nearest(candidate.below) for candidate in every if candidate not in strays}
        if strays
        else set()
    )
    return [
        candidate
        for candidate in every
        if candidate not in strays or (strays[candidate] and strays[candidate] not in splits)
    ]


def _add_by_content(
    sorted_out: dict[str, list[Path]],
    others: Iterable[Candidate],
    splits: Mapping[str, Sequence[str]],
) -> None:
    """Add files with unusual endings to the splits that have no other."""
    candidates = [*others]
    if not splits:
        _check_versions(candidates)
    if not sorted_out:
        sorted_out.update(assign(candidates, splits=splits))
        return
    more: dict[str, list[Path]] = {}
    for candidate in candidates:
        split = _match_patterns(candidate.below, splits) if splits else _nearest(candidate.below)
        if split and split not in sorted_out:
            more.setdefault(split, []).append(candidate.path)
    sorted_out |= {split: sorted(paths) for split, paths in more.items()}
    for split in sorted(sorted_out, key=split_order):
        sorted_out[split] = sorted_out.pop(split)


def _check_versions(candidates: Iterable[Candidate]) -> None:
    """Raise if several files of a folder, whose endings say nothing, are called like one split.

    They are probably versions of one corpus, as a corpus has one file a split.

    Raises:
        SourceError: Names two of them.
    """
    firsts: dict[tuple[str, str], Candidate] = {}
    for candidate in candidates:
        folder, _, name = candidate.below.rpartition("/")
        split = parse_split(name)
        if split is None:
            continue
        first = firsts.setdefault((folder, split), candidate)
        if first is not candidate:
            raise SourceError(
                f"split '{split}': expected one file, got {first.path} and {candidate.path}; if "
                "they are versions of one corpus, pass one of each split with --input, else "
                f"{_NAME_THE_SPLITS}"
            )


def _find_by_content(
    inputs: Sequence[Path],
    suffixes: Sequence[str],
    holds: Callable[[Path], bool],
    disowns: Callable[[Path], str],
) -> Iterator[Candidate]:
    """Give the files below input folders that end with anything else and are of the format.

    The first files of an ending say whether those of this ending are, so that few are looked into.
    """
    for root in filter(Path.is_dir, inputs):
        by_ending: dict[str, list[Path]] = {}
        for path in plain_files(root):
            if not ends_with(path, suffixes):
                by_ending.setdefault(ending(path), []).append(path)
        for paths in by_ending.values():
            filled = [path for path in paths if path.stat().st_size]
            if any(map(holds, filled[:_LOOKED_AT])):
                for path in itertools.filterfalse(disowns, filled):
                    yield Candidate(path, path.relative_to(root).as_posix(), root.resolve().name)


def assign(
    candidates: Iterable[Candidate], *, splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Sort files into splits by the names that go with them, as `sort_by_split` does.

    Args:
        candidates: The files.
        splits: Split -> patterns as of `fnmatch`; if empty, the names alone decide.

    Returns:
        Split -> paths, each once, sorted; empty where no path fits.

    Raises:
        SourceError: A file fits several splits, or none where it may be wanted.
    """
    by_split: dict[str, set[Path]] = {}
    rest: dict[Path, Candidate] = {}
    candidates = [*candidates]
    for candidate in candidates:
        path, below, folder = candidate
        split = (
            _match_patterns(below, splits) if splits else _nearest(below) or _input_split(folder)
        )
        if split:
            by_split.setdefault(split, set()).add(path)
        else:
            rest[path] = candidate

    if not splits:
        for path, split in _pair_names(candidates).items():
            if rest.pop(path, None):
                by_split.setdefault(split, set()).add(path)
        if len(candidates) <= _FEW_FILES:
            _check_embedded_words(rest.values())

    if rest and not by_split and not splits:
        by_split["train"] = {*rest}
    elif rest and not splits:
        _check_left_out([*rest.values()], by_split)
    return {split: sorted(by_split[split]) for split in sorted(by_split, key=split_order)}


def _pair_names(candidates: Iterable[Candidate]) -> dict[Path, str]:
    """Return the splits of files whose names are equal but for the words of splits within them.

    So `engtrain.bio` and `engtest.bio` speak of splits, while `contest.txt` alone does not.
    """
    alike: dict[tuple[str, str], dict[str, list[Path]]] = {}
    for candidate in candidates:
        below = candidate.below.lower()
        folder = below.rpartition("/")[0]
        for word in _WITHIN.finditer(below, len(folder)):
            around = (below[: word.start()], below[word.end() :])
            splits = alike.setdefault(around, {})
            splits.setdefault(str(word.lastgroup), []).append(candidate.path)
    return {
        path: split
        for splits in alike.values()
        if len(splits) > 1
        for split, paths in splits.items()
        for path in paths
    }


def _check_embedded_words(rest: Iterable[Candidate]) -> None:
    """Raise if the name of a file that speaks of no split may hold the word of one.

    Raises:
        SourceError: It may, as in `nertest.bio` beside `corpus.bio`.
    """
    for candidate in rest:
        name = Path(candidate.below).name.lower()
        for word in _WORD.findall(name):
            match = _MAY_SPEAK.fullmatch(word)
            if match and word not in _ORDINARY:
                raise SourceError(
                    f"{candidate.below}: expected a name that speaks of a split or of none, got "
                    f"one that holds the word '{match['word']}'; {_NAME_THE_SPLITS}"
                )


def _match_patterns(below: str, splits: Mapping[str, Sequence[str]]) -> str | None:
    """Return the split whose patterns a path below the input matches."""
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


def _nearest(below: str) -> str | None:
    """Return the split that a file's name speaks of, or else the nearest of its folders.

    Raises:
        SourceError: The file speaks of another split than its folder.
    """
    *folders, name = Path(below).parts
    own_split = parse_split(name)
    folder_split = next(
        (split for folder in reversed(folders) if (split := parse_split(folder))), None
    )
    if own_split and folder_split and own_split != folder_split:
        raise SourceError(
            f"{below}: the file name says {own_split} and its folder says {folder_split}; "
            f"{_NAME_THE_SPLITS}"
        )
    return own_split or folder_split


def _check_left_out(rest: Sequence[Candidate], named: Mapping[str, Collection[Path]]) -> None:
    """Raise if files that speak of no split, as others do, may be what is wanted.

    So they may if a user has named one of them, if nothing else is to train on, or if they are more
    than the files that speak of a split. Files about the corpus do not count.
    """
    others = [
        candidate for candidate in rest if not _ABOUT.fullmatch(Path(candidate.below).name.lower())
    ]
    if not others:
        return

    num_named = sum(map(len, named.values()))
    first = next((candidate for candidate in others if not candidate.folder), None)
    if first or "train" not in named or len(others) > num_named:
        first = first or others[0]
        (split, paths), *_ = named.items()
        raise SourceError(
            f"{first.below}: expected a name that speaks of a split, as {min(paths).name} speaks "
            f"of {split}, got {len(others)} file(s) whose names speak of none; {_NAME_THE_SPLITS}"
        )


def _input_split(folder: str) -> str | None:
    """Return the split that an input folder's own name says, None where it says anything else."""
    return parse_split(folder) if _OWN_NAMES.fullmatch(folder.lower()) else None


def _candidates(inputs: Sequence[Path], suffixes: Sequence[str]) -> Iterator[Candidate]:
    """Give each input file that may be of the format."""
    for root in inputs:
        if root.is_file():
            if root.name.endswith(_BINARY) and not ends_with(root, suffixes):
                raise SourceError(
                    f"{root}: expected a file ending with {', '.join(suffixes)}, got a binary "
                    f"table; check [source] use{_other_sources([root], suffixes)}"
                )
            yield Candidate(root, root.name)
        elif root.is_dir():
            for path in plain_files(root):
                if ends_with(path, suffixes):
                    below = path.relative_to(root).as_posix()
                    yield Candidate(path, below, root.resolve().name)
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
    """Raise if the files of a split, as names sorted them, end differently.

    They are probably two forms of one set, which would be read twice. Files that a user names one
    by one are wanted.

    Args:
        inputs: Files, or folders that were searched through.
        files: Split -> files.
        suffixes: What file names of the format may end with, in one form or another.
        by_pattern: Whether the source has an option `pattern` that says which files it reads.

    Raises:
        SourceError: Names both.
    """
    for split, paths in files.items():
        firsts: dict[str, Path] = {}
        for path in paths:
            if path not in inputs:
                firsts.setdefault(_form(path, suffixes), path)
        if len(firsts) > 1:
            (form, first), (_, second), *_ = firsts.items()
            advice = (
                "say which files are which split with [source] splits, such as splits = "
                f"{{ {split} = ['*{form}'] }}"
            )
            if by_pattern:
                advice = f"say which files are read with [source] pattern, such as '*{form}'"
            raise SourceError(
                f"split '{split}': expected files of one form, got {first} and {second}; if they "
                f"are the same documents, pass one of them with --input, else {advice}"
            )


def _form(path: Path, suffixes: Sequence[str]) -> str:
    """Return what a file's name ends with, `.gz` included."""
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
    """Return the files below folders of the input that are not read, each with the reason.

    Args:
        inputs: Files, or folders that were searched through.
        read: The files that are read, with those that belong to others.
        suffixes: What file names of the format may end with.
        splits: Split -> patterns as of `fnmatch`; empty where names decided.
        pattern: What the names of files must fit; see `fits`.
        disowns: As of `sort_by_split`.
        apart_from: A folder whose files are not looked at.
    """
    read_paths = {path.resolve() for path in read}
    excluded = apart_from.resolve() if apart_from else None
    result = []
    for root in inputs:
        made_files = MadeFiles(root)
        for path in every_file(root) if root.is_dir() else ():
            place = path.resolve()
            if place not in read_paths and (excluded is None or not place.is_relative_to(excluded)):
                below = path.relative_to(root).as_posix()
                why = "" if made_files.has(path) else _why_unread(below, suffixes, splits, pattern)
                if why in (_OF_NO_DOCUMENT, _OF_NO_SPLIT):
                    why = disowns(path) or why
                result.append(Unread(below, why or _MADE))
    return result


def _why_unread(
    below: str, suffixes: Sequence[str], splits: Mapping[str, Sequence[str]], pattern: str
) -> str:
    path = Path(below)
    if is_hidden(path):
        return "hidden"
    if not ends_with(path, suffixes):
        return (
            f"its name does not end with {', '.join(suffixes)}; --input reads a file that it names "
            "itself, whatever its ending"
        )
    if not fits(path, pattern):
        return f"its name does not fit [source] pattern, '{pattern}'"
    if splits:
        return "no pattern of [source] splits fits it"
    if _nearest(below) is None:
        return _OF_NO_SPLIT
    return _OF_NO_DOCUMENT


def fits(path: Path, pattern: str) -> bool:
    """Return whether a file's name fits a pattern as of `fnmatch`, with its `.gz` or without."""
    return any(fnmatch(name, pattern) for name in (path.name, path.name.removesuffix(".gz")))


def _other_sources(inputs: Sequence[Path], suffixes: Sequence[str]) -> str:
    """Return a hint at other sources that read the files there, "" for none.

    Only for error messages, as it imports the readers of all formats.
    """
    files = [path for root in inputs for path in ([root] if root.is_file() else plain_files(root))]
    hints = []
    for name in SOURCES.names():
        with suppress(PipelineError):  # a plug-in that cannot be imported
            suffixes_there = set(SOURCES.load(name).suffixes) - set(suffixes)
            present = sorted(
                suffix for suffix in suffixes_there if any(ends_with(p, suffix) for p in files)
            )
            if present:
                hints.append(f"source '{name}' reads {', '.join(present)}")
    return f"; of the files there, {' and '.join(hints)}" if hints else ""
