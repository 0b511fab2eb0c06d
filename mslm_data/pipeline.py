"""Pipeline files: a dataset to build as TOML, with a table per stage.

    name = "blurb/ncbi-disease"
    [about]             title, homepage, licence, citation, languages and tags of the corpus
    [source]            use = "conll", and options of that source; max_loss, decontaminate,
                        duplicates, duplicate_similarity, sample
    [[source.fetch]]    split, url, sha256: download for builds without --input
    [annotate]          use = "gold", labels, rename, context, leave_out_context, and options of
                        that annotator
    [segment]           use = "given"
    [encode]            tokenizer, max_tokens, split, join, keep_text …
    [shard]             unit_bytes

These options decide the bytes of the folder. Options of the command line, such as the paths of
inputs and outputs and the number of workers, do not.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from mslm_data.data.context import FLAGS
from mslm_data.errors import PipelineError
from mslm_data.io import resources
from mslm_data.registry import Help, declared_options, did_you_mean, from_options

STAGES = ("about", "source", "annotate", "segment", "encode", "shard")
"""The tables of a pipeline file."""
FILES = ("model_pack", "model", "table", "types")
"""Options of annotators and segmenters that are paths of files."""
NOT_TOML = (ValueError, RecursionError)
"""Errors of `tomllib`: its own is a ValueError, as is an integer that is too long."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_LICENCE_ID = re.compile(r"[a-z0-9][a-z0-9.-]*")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_PATIENTS = ("i2b2", "notes")
"""Sources whose text is protected as patients' text by default."""


KEPT_WHOLE = ("validation", "test")
"""Evaluation splits, whose documents are never removed as duplicates or contaminated."""
Duplicates = Literal["ask", "keep", "count", "drop"]
DUPLICATE_SIMILARITY = 0.8
"""Default of `duplicate_similarity`: minimum Jaccard similarity of near copies."""
MAX_LOSS = 0.05
"""Default of `max_loss`: maximum share of lost documents or mentions."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The name and options of a source or segmenter."""

    use: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """A file of a corpus at its public home."""

    url: Annotated[str, Help("URL of the file, http or https.")]
    sha256: Annotated[str, Help("SHA-256 of the downloaded file.")]
    split: Annotated[str, Help('Split of the file; "" for an archive with a file per split.')] = ""
    unpack: Annotated[bool, Help("Whether the file is a tar or zip archive.")] = False

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise ValueError("expected sha256 as 64 lower-case hexadecimal digits")
        # The split is the name of a folder for the file.
        if self.split and not _FOLDER_NAME.fullmatch(self.split):
            raise ValueError(
                f"expected split as a name of letters, digits, '.', '_' and '-', got '{self.split}'"
            )


@dataclass(frozen=True, kw_only=True)
class About:
    """Description of the corpus for its dataset card."""

    title: Annotated[str, Help("Name of the corpus.")] = ""
    homepage: Annotated[str, Help("URL of the corpus.")] = ""
    licence: Annotated[str, Help("Licence or terms of use, in words.")] = ""
    licence_id: Annotated[
        str, Help("Identifier of the licence on the hub, such as `cc-by-4.0`.")
    ] = ""
    citation: Annotated[str, Help("Publication to cite.")] = ""
    language: Annotated[tuple[str, ...], Help('Language codes, such as `["en"]`.')] = ()
    tags: Annotated[tuple[str, ...], Help("Tags for searching on the hub.")] = ()
    protected: Annotated[
        bool,
        Help(
            "Whether the corpus is patients' text, which is shown only with `--show-text` and not "
            "pushed. Default: true for the sources `notes` and `i2b2`, otherwise false."
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
        """Return the values for the manifest, without newer options that are not set.

        So folders of pipelines without these options keep the same bytes.
        """
        values = dataclasses.asdict(self)
        later = ("licence_id", "language", "tags")
        return {name: value for name, value in values.items() if value or name not in later}


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of `[source]` that all sources share."""

    max_loss: Annotated[
        float,
        Help(
            "Maximum share of a split's documents that may be set aside, and of its mentions that "
            "may be left out, without losses by rules of the pipeline. It decides whether the "
            "build succeeds, but not its bytes."
        ),
    ] = MAX_LOSS
    decontaminate: Annotated[
        tuple[str, ...],
        Help(
            "Built folders or their splits, such as test sets. Training documents that share text "
            "with them are set aside. The manifest has their digests instead of paths."
        ),
    ] = ()
    duplicates: Annotated[
        Duplicates,
        Help(
            'Treatment of copied documents: "ask" stops the build if most texts of a file or a '
            'split stand elsewhere too, "keep" accepts them, "count" counts copies by their words, '
            '"drop" sets them aside in training splits.'
        ),
    ] = "ask"
    on_crash: Annotated[
        Literal["stop", "skip"],
        Help(
            'What happens when a document kills the process that annotates it: "stop" names the '
            'document, "skip" sets it aside.'
        ),
    ] = "stop"
    duplicate_similarity: Annotated[
        float, Help("Minimum similarity of copies, above 0; 1 for equal words only.")
    ] = DUPLICATE_SIMILARITY
    sample: Annotated[
        str, Help("Folder of the shipped sample corpus in `vocab/`. Default: no sample.")
    ] = ""
    fetch: Annotated[
        tuple[Fetch, ...], Help("Files of the corpus to download. Default: none.")
    ] = ()

    def __post_init__(self) -> None:
        for name in ("max_loss", "duplicate_similarity"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name}: expected a number from 0 to 1, got {getattr(self, name):g}"
                )
        if not self.duplicate_similarity:
            raise ValueError("duplicate_similarity: expected a number above 0, got 0")
        if "" in self.decontaminate:
            raise ValueError("decontaminate: expected built folders, got an empty path")


@dataclass(frozen=True, kw_only=True)
class AnnotateOptions:
    """Options of `[annotate]`: the annotator, and the choice of mentions."""

    use: Annotated[str, Help('Name of the annotator; "gold" keeps the source\'s mentions.')] = (
        "gold"
    )
    options: Annotated[Mapping[str, Any], Help("Options of the annotator.")] = field(
        default_factory=dict
    )
    sample: Annotated[
        Mapping[str, str],
        Help("Option -> shipped file in `vocab/` that replaces it with `--sample`."),
    ] = field(default_factory=dict)
    labels: Annotated[
        tuple[str, ...],
        Help(
            "Labels to keep, in the order of the manifest. Mentions with other labels are left out "
            "and counted. Default: all labels, sorted."
        ),
    ] = ()
    rename: Annotated[
        Mapping[str, str], Help("Label of the source -> new label, applied before `labels`.")
    ] = field(default_factory=dict)
    context: Annotated[
        bool,
        Help(
            "Whether to flag mentions as negated, uncertain, hypothetical, historical or of the "
            "family, by rules for English clinical text."
        ),
    ] = False
    leave_out_context: Annotated[
        tuple[str, ...], Help("Flags of mentions to leave out and count.")
    ] = ()

    def uses(self) -> list[str]:
        """Return the names of the annotator and of all members of an ensemble."""
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


OF_EVERY_SOURCE = (
    "max_loss",
    "duplicates",
    "duplicate_similarity",
    "decontaminate",
    "on_crash",
)
"""Options of `[source]` that all sources share, besides those of shipped pipelines."""
SHARED = tuple(name for name in AnnotateOptions.__annotations__ if name != "options")
"""Options of `[annotate]` that all annotators share."""
OF_EVERY_ANNOTATOR = tuple(name for name in SHARED if name not in ("use", "sample"))
"""Options of `[annotate]` that all annotators share, besides those of shipped pipelines."""
_OF_ANY_USE = {"annotate": {"use", *OF_EVERY_ANNOTATOR}, "segment": {"use"}}
"""Stage -> options that are kept when `use` changes to another annotator or segmenter."""


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """Options of `[encode]`: how text becomes tokens."""

    tokenizer: Annotated[
        str, Help("A `tokenizer.json`, a `vocab.txt`, a Hugging Face folder or a hub id.")
    ] = ""
    max_tokens: Annotated[
        int,
        Help(
            "Maximum number of tokens per row, with special tokens. Default: 512, or 128 with "
            '`split = "paper"`.'
        ),
    ] = 0
    split: Annotated[
        Literal["mention", "paper"],
        Help(
            'Where to cut longer sequences: "mention" never inside a mention that fits into a row, '
            '"paper" before the first word that does not fit, as in Abaho et al. 2024.'
        ),
    ] = "mention"
    join: Annotated[
        Literal["none", "document"],
        Help(
            'Rows: "document" joins consecutive sentences of a document up to `max_tokens`, "none" '
            "makes a row per sentence."
        ),
    ] = "none"
    lowercase: Annotated[
        bool | None,
        Help("Whether a `vocab.txt` is uncased. Default: decided by the vocabulary."),
    ] = None
    keep_text: Annotated[
        bool, Help("Whether to store the text and character offsets of each row.")
    ] = False

    def __post_init__(self) -> None:
        if not self.max_tokens:
            object.__setattr__(self, "max_tokens", 128 if self.split == "paper" else 512)
        if not 8 <= self.max_tokens <= 1 << 20:
            raise ValueError(f"expected max_tokens between 8 and {1 << 20}, got {self.max_tokens}")


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """Options of `[shard]`: how rows are divided into files."""

    unit_bytes: Annotated[int, Help("Approximate bytes of input per shard.")] = 64 << 20

    def __post_init__(self) -> None:
        if self.unit_bytes < 1:
            raise ValueError(f"expected unit_bytes of at least 1, got {self.unit_bytes}")


@dataclass(frozen=True, kw_only=True)
class Pipeline(SourceOptions):
    """A dataset to build. The fields of `SourceOptions` are those of its table `[source]`."""

    name: Annotated[str, Help("Name of the dataset, such as `blurb/ncbi-disease`.")]
    about: About
    source: Stage
    annotate: AnnotateOptions
    segment: Stage
    encode: EncodeOptions
    shard: ShardOptions

    @property
    def has_doc_labels(self) -> bool:
        """Whether rows have the column `doc_label`: the source has an option of this name."""
        return bool(self.source.options.get("doc_label"))

    def sampled(self) -> Pipeline:
        """Return the pipeline for the shipped sample.

        Its annotator uses the shipped files, and its card describes the sample instead of the
        corpus.
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
        """Return the stages to load before a worker gets documents, as JSON."""
        annotator = {"use": self.annotate.use, "options": dict(self.annotate.options)}
        stages = {
            "source": self.source.use,
            "annotate": annotator,
            "segment": self.segment.use,
            "decontaminate": [str(Path(folder).absolute()) for folder in self.decontaminate],
        }
        return msgspec.json.encode(stages).decode()

    def effective(self) -> dict[str, Any]:
        """Return all options that can change the bytes of a folder, as plain values.

        Paths of the tokenizer and of models are left out, because the manifest has their digests.
        """
        stages = ("source", "annotate", "segment", "encode", "shard")
        tables = {stage: dataclasses.asdict(getattr(self, stage)) for stage in stages}
        del tables["encode"]["tokenizer"]
        del tables["annotate"]["sample"]

        # Leave out unused newer options, so that older folders keep the same bytes.
        for name in ("context", "leave_out_context"):
            if not tables["annotate"][name]:
                del tables["annotate"][name]

        if self.duplicates in ("count", "drop"):
            tables["source"]["duplicates"] = self.duplicates
            tables["source"]["duplicate_similarity"] = self.duplicate_similarity

        # The manifest records digests of these files.
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
    """Read a pipeline from its shipped name, a path ending in `.toml`, or tables.

    Args:
        source: `blurb/ncbi-disease`, `my.toml`, or the tables of such a file with a `name`, which
            are not changed.
        sets: Assignments `stage.option=value` that override the file. The value is TOML, otherwise
            a string.
        options: The same as a mapping from `stage.option` to the value, which may be a path.

    Raises:
        PipelineError: The pipeline is unknown or not TOML, a table or option is unknown, or a value
            is wrong.
    """
    if isinstance(source, Mapping):
        name, tables = _copy_tables(source)
    else:
        name, tables = _read_tables(str(source))

    assignments = [_assignment(text) for text in sets]
    assignments += [
        _Assignment(option, value, f"option '{option}'")
        for option, value in (options or {}).items()
    ]
    _assign(tables, assignments)
    return from_tables(tables, name=name)


def _copy_tables(tables: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a pipeline given as tables, and a copy of the tables."""
    if "name" not in tables:
        raise PipelineError('pipeline: the tables have no name; add "name": "mine"')
    name = _text(tables["name"], where="pipeline, name")
    return name, _as_toml(tables)


def _read_tables(name_or_path: str) -> tuple[str, dict[str, Any]]:
    """Return the name and tables of a shipped pipeline or a file."""
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
    """Apply assignments `stage.option=value` to a pipeline's tables in place, and return them.

    If another annotator or segmenter is chosen, options of the previous one are removed.

    Raises:
        PipelineError: An assignment is malformed, or its stage is unknown.
    """
    _assign(tables, [_assignment(text) for text in sets])
    return tables


def from_tables(tables: Mapping[str, Any], *, name: str) -> Pipeline:
    """Make a pipeline from the tables of a file.

    Raises:
        PipelineError: A table or option is unknown, or a value is wrong.
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

    # Tables of sources and annotators have options of their own beside the shared ones.
    shared_source, source = _separate(tables["source"], SourceOptions)
    shared_annotate, annotator = _separate(tables["annotate"], AnnotateOptions)
    return Pipeline(
        name=name,
        about=from_options(
            About,
            {"protected": source.get("use") in _OF_PATIENTS, **tables["about"]},
            where=f"{where}, [about]",
        ),
        source=_stage(source, where=f"{where}, [source]", default=None),
        annotate=from_options(
            AnnotateOptions,
            {**shared_annotate, "options": annotator},
            where=f"{where}, [annotate]",
        ),
        segment=_stage(tables["segment"], where=f"{where}, [segment]", default="given"),
        encode=from_options(EncodeOptions, tables["encode"], where=f"{where}, [encode]"),
        shard=from_options(ShardOptions, tables["shard"], where=f"{where}, [shard]"),
        **vars(from_options(SourceOptions, shared_source, where=f"{where}, [source]")),
    )


def _table(value: Any, *, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PipelineError(f"{where}: expected a table, got {type(value).__name__}")
    return dict(value)


def _text(value: Any, *, where: str) -> str:
    if not isinstance(value, str):
        raise PipelineError(f"{where}: expected text, got {type(value).__name__}")
    return value


def _separate(table: Mapping[str, Any], kind: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the options that `kind` declares from others, those of one source or annotator."""
    names = {option.name for option in declared_options(kind)} - {"options"}
    declared = {name: value for name, value in table.items() if name in names}
    return declared, {name: value for name, value in table.items() if name not in names}


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
    """An option that overrides the tables of a pipeline.

    Attributes:
        path: `stage.option`, or deeper.
        value: A TOML value, or a path.
        where: Prefix of errors.
    """

    path: str
    value: Any
    where: str


def _assignment(text: str) -> _Assignment:
    """Parse `stage.option=value`."""
    path, equals, value = text.partition("=")
    path = path.strip()
    stage, _, option = path.partition(".")
    if not (equals and stage and option):
        raise PipelineError(f"--set: expected stage.option=value, got '{text}'")

    return _Assignment(path, parse_value(value), f"--set {path}")


def parse_value(text: str) -> Any:
    """Parse a value as TOML; return it as a string if it is not TOML."""
    try:
        tables = tomllib.loads(f"value = {text}")
    except NOT_TOML:
        return text
    # A value with a line end may contain further assignments: it is a string.
    return tables["value"] if len(tables) == 1 else text


def _assign(tables: dict[str, Any], assignments: Sequence[_Assignment]) -> None:
    """Apply assignments in order, after removing options of another annotator or segmenter."""
    # First, because an option of the new annotator may be set before its `use`.
    for path, value, _ in assignments:
        stage, _, option = path.partition(".")
        if stage in _OF_ANY_USE and option == "use":
            _drop_foreign_options(tables, stage, value)

    for path, value, where in assignments:
        _put(tables, path, value, where=where)


def _drop_foreign_options(tables: dict[str, Any], stage: str, use: Any) -> None:
    """Remove the options of the previous annotator or segmenter when `use` changes."""
    table = tables.get(stage)
    if isinstance(table, dict) and "use" in table and table["use"] != use:
        for name in table.keys() - _OF_ANY_USE[stage]:
            del table[name]


def _put(tables: dict[str, Any], path: str, value: Any, *, where: str) -> None:
    """Set an option at `stage.option` or deeper."""
    stage, _, option = path.partition(".")
    if stage not in STAGES:
        raise PipelineError(f"{where}: unknown stage '{stage}'{did_you_mean(stage, STAGES)}")
    if not option:
        raise PipelineError(f"{where}: expected stage.option, got a stage alone")

    # Create missing tables on the path.
    *parents, last = option.split(".")
    table = tables
    for parent in (stage, *parents):
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise PipelineError(f"{where}: '{parent}' is a value, not a table")
    table[last] = _as_toml(value)


def _as_toml(value: Any) -> Any:
    """Copy a value of Python as a value of TOML: paths become strings, and tuples lists."""
    if isinstance(value, Mapping):
        return {name: _as_toml(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_toml(inner) for inner in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
