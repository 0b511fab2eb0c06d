"""Pipeline files: one buildable dataset as TOML, one table per stage.

    name = "blurb/ncbi-disease"
    [about]             title, homepage, licence, citation, language and tags of the corpus
    [source]            use = "conll", and that source's options; max_loss = what may be lost;
                        decontaminate = folders whose text is removed from training;
                        duplicates = what becomes of copies, duplicate_similarity;
                        sample = its shipped sample
    [[source.fetch]]    split, url, sha256: where it comes from without --input
    [annotate]          use = "gold", labels, rename, and that annotator's options; context and
                        leave_out_context: what is negated, historical …
    [segment]           use = "given"
    [encode]            tokenizer, max_tokens, split, join, keep_text …
    [shard]             unit_bytes

Everything here changes the bytes of what is built; where inputs and outputs lie, and how many work
on it, does not and stands on the command line.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from mslm_data.data.context import FLAGS
from mslm_data.errors import PipelineError
from mslm_data.io import resources
from mslm_data.registry import Help, did_you_mean, from_options

STAGES = ("about", "source", "annotate", "segment", "encode", "shard")
"""The tables of a pipeline file."""
FILES = ("model_pack", "model", "table", "types")
"""Options of annotators and segmenters that name files."""
NOT_TOML = (ValueError, RecursionError)
"""Errors that `tomllib` raises: its own error is a ValueError, and so is what an endless number
gives."""
SHARED = ("use", "sample", "labels", "rename", "context", "leave_out_context")
"""Options of `[annotate]` that all annotators share."""
_OF_ANY_USE = {"annotate": {*SHARED} - {"sample"}, "segment": {"use"}}
"""Stage -> its options that stay if `use` names another annotator or segmenter."""
OF_EVERY_SOURCE = ("max_loss", "duplicates", "duplicate_similarity", "decontaminate")
"""Options of `[source]` that all sources share; fields of `Pipeline`."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_LICENCE_ID = re.compile(r"[a-z0-9][a-z0-9.-]*")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_PATIENTS = ("i2b2", "notes")
"""The sources whose text is patients' if nobody says otherwise."""


KEPT_WHOLE = ("validation", "test")
"""Splits that nobody trains on: no document leaves them for being in another place too."""
Duplicates = Literal["keep", "count", "drop"]
DUPLICATE_SIMILARITY = 0.8
"""Share of the shingles of two documents that both have, from which they are near copies."""
MAX_LOSS = 0.05
"""Share of the documents, or of the mentions, whose loss may still be an accident of the corpus."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Name what does the work of a stage, with the options of its own."""

    use: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Name one file of a corpus at its public home."""

    url: Annotated[str, Help("Its address, http or https.")]
    sha256: Annotated[str, Help("The digest of the file as it comes.")]
    split: Annotated[
        str, Help('The split that it is; "" for an archive, whose files are named by split.')
    ] = ""
    unpack: Annotated[bool, Help("Whether it is a tar or zip archive.")] = False

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise ValueError("expected sha256 as 64 lower-case hexadecimal digits")
        # The file is put into a folder of this name.
        if self.split and not _FOLDER_NAME.fullmatch(self.split):
            raise ValueError(
                f"expected split as a name of letters, digits, '.', '_' and '-', got '{self.split}'"
            )


@dataclass(frozen=True, kw_only=True)
class About:
    """Describe the corpus, for its dataset card."""

    title: Annotated[str, Help("Its name.")] = ""
    homepage: Annotated[str, Help("Its address.")] = ""
    licence: Annotated[str, Help("Under which terms it may be used, in words.")] = ""
    licence_id: Annotated[
        str, Help("The hub's identifier of the licence, such as `cc-by-4.0`, if it has one.")
    ] = ""
    citation: Annotated[str, Help("What to cite.")] = ""
    language: Annotated[tuple[str, ...], Help('Codes of its languages, such as `["en"]`.')] = ()
    tags: Annotated[tuple[str, ...], Help("Words that it is found by on the hub.")] = ()
    protected: Annotated[
        bool,
        Help(
            "Whether it is patients' text, which is shown only with `--show-text` and not pushed. "
            "Notes, and what i2b2 and n2c2 give, are protected unless the file says otherwise."
        ),
    ] = False

    def __post_init__(self) -> None:
        for code in self.language:
            if not _LANGUAGE.fullmatch(code):
                raise ValueError(
                    f'language: expected codes of two or three letters such as "en", got {code!r}'
                )
        if self.licence_id and not _LICENCE_ID.fullmatch(self.licence_id):
            raise ValueError(
                "licence_id: expected an identifier of small letters such as "
                f'"cc-by-4.0", got {self.licence_id!r}'
            )

    def record(self) -> dict[str, Any]:
        """Return what the manifest says; folders of files without the later options lack them."""
        values = dataclasses.asdict(self)
        later = ("licence_id", "language", "tags")
        return {name: value for name, value in values.items() if value or name not in later}


@dataclass(frozen=True, kw_only=True)
class AnnotateOptions:
    """Decide where mentions come from, and which of them become the shards' mentions."""

    use: Annotated[str, Help('The annotator: "gold" for the source\'s own mentions.')] = "gold"
    options: Annotated[Mapping[str, Any], Help("That annotator's own options.")] = field(
        default_factory=dict
    )
    sample: Annotated[
        Mapping[str, str],
        Help("Option -> shipped file below `vocab/` that it names for `--sample`."),
    ] = field(default_factory=dict)
    labels: Annotated[
        tuple[str, ...],
        Help(
            "Labels in the order of the manifest; a mention of another is set aside and counted. "
            "Empty: all that occur, sorted, which reads the source twice."
        ),
    ] = ()
    rename: Annotated[
        Mapping[str, str], Help("The source's label -> ours, before `labels` is looked at.")
    ] = field(default_factory=dict)
    context: Annotated[
        bool,
        Help(
            "Give each mention flags that say whether it is negated, uncertain, hypothetical, "
            "historical or of the family, by rules for English clinical text."
        ),
    ] = False
    leave_out_context: Annotated[
        tuple[str, ...], Help("Flags whose mentions are left out and counted.")
    ] = ()

    def uses(self) -> list[str]:
        """Return the name of the annotator, and of each member of an ensemble."""
        members = [member.get("use") for member in _list_members(self.options)]
        return [self.use, *(use for use in members if isinstance(use, str))]

    def __post_init__(self) -> None:
        for flag in self.leave_out_context:
            if flag not in FLAGS:
                raise ValueError(
                    f"leave_out_context: expected some of {', '.join(FLAGS)}, got '{flag}'"
                    f"{did_you_mean(flag, FLAGS)}"
                )
        twice = [label for label, count in Counter(self.labels).items() if count > 1]
        if twice:
            raise ValueError(f"labels: expected different labels, got '{twice[0]}' more than once")
        if "" in self.labels:
            raise ValueError("labels: expected names of labels, got an empty one")
        nameless = [label for label, ours in self.rename.items() if not ours]
        if nameless:
            raise ValueError(
                f"rename: the new name of '{nameless[0]}' is empty; to leave out its mentions, "
                "list the other labels in labels"
            )


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """Decide how text becomes tokens."""

    tokenizer: Annotated[
        str, Help("A `tokenizer.json`, a `vocab.txt`, a Hugging Face folder or a hub id.")
    ] = ""
    max_tokens: Annotated[
        int,
        Help('Longest row, special tokens included; 512, or with "paper" the 128 of its inputs.'),
    ] = 0
    split: Annotated[
        Literal["mention", "paper"],
        Help(
            'How a longer sequence is cut: "mention" never inside a mention that fits, "paper" as '
            "the inputs of Abaho et al. 2024 were cut, before the word that would overflow."
        ),
    ] = "mention"
    join: Annotated[
        Literal["none", "document"],
        Help(
            '"document" joins consecutive sentences of a document into rows of at most '
            '`max_tokens`; "none" gives each sentence a row of its own.'
        ),
    ] = "none"
    lowercase: Annotated[
        bool | None, Help("For a `vocab.txt` only; None looks at the vocabulary.")
    ] = None
    keep_text: Annotated[bool, Help("Store each row's text and character offsets too.")] = False

    def __post_init__(self) -> None:
        if not self.max_tokens:
            object.__setattr__(self, "max_tokens", 128 if self.split == "paper" else 512)
        if not 8 <= self.max_tokens <= 1 << 20:
            raise ValueError(f"expected max_tokens between 8 and {1 << 20}, got {self.max_tokens}")


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """Decide how rows are divided into files."""

    unit_bytes: Annotated[int, Help("About how many bytes of input become one shard.")] = 64 << 20

    def __post_init__(self) -> None:
        if self.unit_bytes < 1:
            raise ValueError(f"expected unit_bytes of at least 1, got {self.unit_bytes}")


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Describe one dataset that can be built."""

    name: Annotated[str, Help("Such as `blurb/ncbi-disease`.")]
    about: About
    source: Stage
    annotate: AnnotateOptions
    segment: Stage
    encode: EncodeOptions
    shard: ShardOptions
    max_loss: Annotated[
        float,
        Help(
            "Greatest share of a split's documents that may be set aside, and of its mentions that "
            "may be left out without a rule of the pipeline that asks for it. It decides whether a "
            "folder is finished, and no byte of it."
        ),
    ] = MAX_LOSS
    decontaminate: Annotated[
        tuple[str, ...],
        Help(
            "Built folders or splits of them, such as test sets. Training documents that share "
            "text with them are set aside. The manifest has their digests in place of their paths."
        ),
    ] = ()
    duplicates: Annotated[
        Duplicates,
        Help(
            'What becomes of documents that are copies of others: "keep" does not look for them, '
            '"count" counts them, "drop" sets them aside in training splits.'
        ),
    ] = "keep"
    duplicate_similarity: Annotated[
        float, Help("How similar copies are, above 0; 1 for equal words alone.")
    ] = DUPLICATE_SIMILARITY
    sample: Annotated[
        str, Help('Folder of the shipped sample corpus below `vocab/`, "" where there is none.')
    ] = ""
    fetch: Annotated[
        tuple[Fetch, ...], Help("The corpus at its public home, empty where it has none.")
    ] = ()

    @property
    def has_doc_labels(self) -> bool:
        """Return whether built rows get the column `doc_label`, the label of their document.

        They do if the option `doc_label` of the source names where such labels stand.
        """
        return bool(self.source.options.get("doc_label"))

    def sampled(self) -> Pipeline:
        """Return the pipeline of the shipped sample, which is text that was written for it.

        Its annotator has the files that it needs, and its card claims nothing of the corpus.
        """
        files = {
            name: str(resources.path("vocab", file)) for name, file in self.annotate.sample.items()
        }
        annotate = dataclasses.replace(self.annotate, options={**files, **self.annotate.options})
        title = f"Sample text in the form of: {self.about.title}" if self.about.title else ""
        about = dataclasses.replace(
            self.about,
            title=title,
            homepage="",
            licence="CC0 1.0",
            licence_id="cc0-1.0",
            citation="",
        )
        return dataclasses.replace(self, annotate=annotate, about=about)

    def to_preload(self) -> str:
        """Return what a process needs to load its stages before it gets documents, as JSON."""
        annotator = {"use": self.annotate.use, "options": dict(self.annotate.options)}
        stages = {
            "source": self.source.use,
            "annotate": annotator,
            "segment": self.segment.use,
            "decontaminate": [str(Path(folder).absolute()) for folder in self.decontaminate],
        }
        return msgspec.json.encode(stages).decode()

    def effective(self) -> dict[str, Any]:
        """Return everything that can change the bytes of what is built, as plain values for JSON.

        The tokenizer and models are left out: the manifest holds their digests, which say more than
            paths.
        """
        stages = ("source", "annotate", "segment", "encode", "shard")
        tables = {stage: dataclasses.asdict(getattr(self, stage)) for stage in stages}
        del tables["encode"]["tokenizer"]
        del tables["annotate"]["sample"]

        # Folders of pipelines without these options are the same with versions that lack them.
        for name in ("context", "leave_out_context"):
            if not tables["annotate"][name]:
                del tables["annotate"][name]

        if self.duplicates != "keep":
            tables["source"]["duplicates"] = self.duplicates
            tables["source"]["duplicate_similarity"] = self.duplicate_similarity

        for name in FILES:
            tables["annotate"]["options"].pop(name, None)
            tables["segment"]["options"].pop(name, None)
            for member in _list_members(tables["annotate"]["options"]):
                member.pop(name, None)
        return tables


def read(
    source: str | Path | Mapping[str, Any],
    *,
    sets: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read a shipped pipeline by its name, a file by its path ending in `.toml`, or its tables.

    Args:
        source: `blurb/ncbi-disease`, `my.toml`, or what such a file would give, with a `name`. The
            tables are not changed.
        sets: Assignments `stage.option=value` on top of the file; the value is TOML, or else a bare
            string.
        options: The same as a mapping of `stage.option` to a value, which may be a path.

    Raises:
        PipelineError: No such pipeline, bad TOML, an unknown table or option, a wrong value.
    """
    if isinstance(source, Mapping):
        name, tables = _given(source)
    else:
        name, tables = _read_tables(str(source))

    wanted = [_assignment(text) for text in sets]
    wanted += [
        _Assignment(option, value, f"option '{option}'")
        for option, value in (options or {}).items()
    ]
    _assign(tables, wanted)
    return from_tables(tables, name=name)


def _given(tables: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a pipeline that is given as tables, and a copy of them."""
    if "name" not in tables:
        raise PipelineError('pipeline: the tables have no name; add "name": "mine"')
    name = _text(tables["name"], where="pipeline, name")
    return name, copy.deepcopy(dict(tables))


def _read_tables(name_or_path: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the tables of a shipped pipeline or of a file."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if not path.is_file():
            raise PipelineError(
                f"{path}: expected a pipeline file, found none; "
                "`mslm-data recipes` lists shipped ones"
            )
        name = path.stem
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise PipelineError(f"{path}: expected UTF-8 text") from None
        except OSError as error:
            raise PipelineError(
                f"{path}: expected a file that can be read, got {error.strerror}"
            ) from None
    else:
        name = name_or_path
        text = resources.pipeline_text(name)

    try:
        return name, tomllib.loads(text)
    except NOT_TOML as error:
        raise PipelineError(f"pipeline '{name}': not TOML: {error}") from None


def with_sets(tables: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Apply assignments `stage.option=value` to a pipeline's tables, in place, and return them.

    Where another annotator or segmenter is named, the tables lose the options of the one before.

    Raises:
        PipelineError: Not an assignment, or not to a stage.
    """
    _assign(tables, [_assignment(text) for text in sets])
    return tables


def from_tables(tables: Mapping[str, Any], *, name: str) -> Pipeline:
    """Make a pipeline from the tables of its file.

    Raises:
        PipelineError: An unknown table or option, or a wrong value.
    """
    where = f"pipeline '{name}'"
    known = ["name", *STAGES]
    for table in tables:
        if table not in known:
            raise PipelineError(f"{where}: unknown table [{table}]{did_you_mean(table, known)}")

    name = _text(tables.get("name", name), where=f"{where}, name")
    if "\0" in name or any(0xD800 <= ord(letter) < 0xE000 for letter in name):
        raise PipelineError(f"{where}, name: expected text, got invalid characters")
    tables = {stage: _table(tables.get(stage, {}), where=f"{where}, [{stage}]") for stage in STAGES}

    source = tables["source"]
    of_every_source = _take_shared_source_options(source, where=where)
    return Pipeline(
        name=name,
        about=from_options(
            About,
            {"protected": source.get("use") in _OF_PATIENTS, **tables["about"]},
            where=f"{where}, [about]",
        ),
        source=_stage(source, where=f"{where}, [source]", default=None),
        annotate=_annotate(tables["annotate"], where=f"{where}, [annotate]"),
        segment=_stage(tables["segment"], where=f"{where}, [segment]", default="given"),
        encode=from_options(EncodeOptions, tables["encode"], where=f"{where}, [encode]"),
        shard=from_options(ShardOptions, tables["shard"], where=f"{where}, [shard]"),
        **of_every_source,
    )


def _take_shared_source_options(table: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Take out of `[source]` what is not an option of one source, as fields of `Pipeline`.

    Args:
        table: What stays there are the options of the source.
        where: What an error names first.

    Raises:
        PipelineError: A wrong value.
    """

    def of(name: str) -> str:
        return f"{where}, [source] {name}"

    duplicates = table.pop("duplicates", "keep")
    if duplicates not in get_args(Duplicates):
        raise PipelineError(
            f"{of('duplicates')}: expected one of {', '.join(get_args(Duplicates))}, "
            f"got {duplicates!r}"
        )

    similarity = table.pop("duplicate_similarity", DUPLICATE_SIMILARITY)
    similarity = _share(similarity, where=of("duplicate_similarity"))
    if not similarity:
        raise PipelineError(f"{of('duplicate_similarity')}: expected a number above 0, got 0")

    fetch = table.pop("fetch", [])
    if not isinstance(fetch, list):
        raise PipelineError(
            f"{where}: expected [[source.fetch]] tables, got {type(fetch).__name__}"
        )
    of_fetch = f"{where}, [[source.fetch]]"
    entries = [_table(entry, where=of_fetch) for entry in fetch]

    return {
        "sample": _text(table.pop("sample", ""), where=of("sample")),
        "max_loss": _share(table.pop("max_loss", MAX_LOSS), where=of("max_loss")),
        "decontaminate": _paths(table.pop("decontaminate", []), where=of("decontaminate")),
        "duplicates": duplicates,
        "duplicate_similarity": similarity,
        "fetch": tuple(from_options(Fetch, entry, where=of_fetch) for entry in entries),
    }


def _table(value: Any, *, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PipelineError(f"{where}: expected a table, got {type(value).__name__}")
    return dict(value)


def _text(value: Any, *, where: str) -> str:
    if not isinstance(value, str):
        raise PipelineError(f"{where}: expected text, got {type(value).__name__}")
    return value


def _paths(value: Any, *, where: str) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple)
    if not is_list or not all(path and isinstance(path, str | os.PathLike) for path in value):
        raise PipelineError(f"{where}: expected a list of built folders, got {value!r}")
    return tuple(map(os.fspath, value))


def _share(value: Any, *, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PipelineError(f"{where}: expected a number from 0 to 1, got {value!r}")
    return float(value)


def _annotate(table: Mapping[str, Any], *, where: str) -> AnnotateOptions:
    """Tell the options of one annotator from those that all annotators have."""
    ours = {name: value for name, value in table.items() if name in SHARED}
    options = {name: value for name, value in table.items() if name not in ours}
    return from_options(AnnotateOptions, ours | {"options": options}, where=where)


def _list_members(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of an ensemble, `[annotate.annotators.NAME]`."""
    members = options.get("annotators")
    if not isinstance(members, dict):
        return []
    return [member for member in members.values() if isinstance(member, dict)]


def _stage(table: Mapping[str, Any], *, where: str, default: str | None) -> Stage:
    options = dict(table)
    use = options.pop("use", default)
    if not isinstance(use, str):
        raise PipelineError(f'{where}: expected use = "NAME", got none')
    return Stage(use=use, options=options)


class _Assignment(NamedTuple):
    """An option that a caller sets on top of a pipeline's tables.

    Attributes:
        path: `stage.option`, or deeper.
        value: As TOML has it, or a path.
        where: What an error names first.
    """

    path: str
    value: Any
    where: str


def _assignment(text: str) -> _Assignment:
    """Read one `stage.option=value`."""
    path, equals, value = text.partition("=")
    path = path.strip()
    stage, _, option = path.partition(".")
    if not (equals and stage and option):
        raise PipelineError(f"--set: expected stage.option=value, got '{text}'")

    return _Assignment(path, parse_value(value), f"--set {path}")


def parse_value(text: str) -> Any:
    """Return the value of an assignment: TOML, or else a bare string."""
    try:
        tables = tomllib.loads(f"value = {text}")
    except NOT_TOML:
        return text
    # Behind the end of a line TOML would begin another assignment.
    return tables["value"] if len(tables) == 1 else text


def _assign(tables: dict[str, Any], assignments: Sequence[_Assignment]) -> None:
    """Apply assignments in their order, after options that they make void are gone."""
    for path, value, _ in assignments:
        stage, _, option = path.partition(".")
        if stage in _OF_ANY_USE and option == "use":
            _drop_foreign_options(tables, stage, value)

    for path, value, where in assignments:
        _put(tables, path, value, where=where)


def _drop_foreign_options(tables: dict[str, Any], stage: str, use: Any) -> None:
    """Remove from a stage's table what only the annotator or segmenter before `use` knows."""
    table = tables.get(stage)
    if isinstance(table, dict) and "use" in table and table["use"] != use:
        for name in table.keys() - _OF_ANY_USE[stage]:
            del table[name]


def _put(tables: dict[str, Any], path: str, value: Any, *, where: str) -> None:
    """Set the option at a path, `stage.option` or deeper."""
    stage, _, option = path.partition(".")
    if stage not in STAGES:
        raise PipelineError(f"{where}: unknown stage '{stage}'{did_you_mean(stage, STAGES)}")
    if not option:
        raise PipelineError(f"{where}: expected stage.option, got a stage alone")

    *parents, last = option.split(".")
    table = tables
    for parent in (stage, *parents):
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise PipelineError(f"{where}: '{parent}' is a value, not a table")
    table[last] = os.fspath(value) if isinstance(value, os.PathLike) else value
