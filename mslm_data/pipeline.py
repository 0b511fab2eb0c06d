"""Pipeline files: a dataset to build as TOML, with a table per stage.

    name = "blurb/ncbi-disease"
    [about]             title, homepage, licence, citation, languages and tags of the corpus
    [source]            use = "conll", and options of that source; max_loss, decontaminate,
                        duplicates, duplicate_similarity, sample
    [[source.fetch]]    split, url, sha256: download for builds without --input
    [annotate]          use = "gold", labels, rename, context, leave_out_context, min_term_share,
                        and options of that annotator
    [segment]           use = "given"
    [encode]            tokenizer, max_tokens, split, join, keep_text …
    [shard]             input_bytes

These options decide the bytes of the folder. Options of the command line, such as the paths of
inputs and outputs and the number of workers, do not.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from mslm_data.data.context import Flag
from mslm_data.errors import PipelineError
from mslm_data.io import resources, toml
from mslm_data.registry import Option, Options, did_you_mean, from_options, list_options

FILES = ("model_pack", "model", "table", "types")
"""Options of annotators and segmenters that are paths of files."""
CONSENT = "sha256"
"""Option of annotators that names a model whose code may run; never taken from a file."""
NOT_TOML = (ValueError, RecursionError)
"""Errors of `tomllib`: its own is a ValueError, as is an integer that is too long."""
KEPT_WHOLE = ("validation", "test")
"""Evaluation splits: no document is removed as duplicate, as contaminated or for few terms."""
_OF_PATIENTS = ("i2b2", "notes", "omop")
"""Sources whose text is protected as patients' text by default."""
_OF_SHIPPED = ("use", "options", "sample", "fetch")
"""Options of a stage that only shipped pipelines set, and its name and own options."""


class Stage(Options, frozen=True, kw_only=True):
    """A stage with a choice of programs, such as sources.

    In a file, `options` stand in the stage's table, beside the options that all programs share.
    """

    use: Annotated[str, Meta(description="Name of the program.")]
    options: Annotated[Mapping[str, Any], Meta(description="Options of the program.")] = field(
        default_factory=dict
    )


class Fetch(Options, frozen=True, kw_only=True):
    """A file of a corpus at its public home."""

    url: Annotated[str, Meta(description="URL of the file, http or https.")]
    sha256: Annotated[
        str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the downloaded file.")
    ]
    # The split is the name of a folder for the file.
    split: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?\Z",
            description='Split of the file; "" for an archive with a file per split.',
        ),
    ] = ""
    unpack: Annotated[bool, Meta(description="Whether the file is a tar or zip archive.")] = False


class About(Options, frozen=True, kw_only=True):
    """Description of the corpus for its dataset card."""

    title: Annotated[str, Meta(description="Name of the corpus.")] = ""
    homepage: Annotated[str, Meta(description="URL of the corpus.")] = ""
    licence: Annotated[str, Meta(description="Licence or terms of use, in words.")] = ""
    licence_id: Annotated[
        str,
        Meta(
            pattern=r"^([a-z0-9][a-z0-9.-]*)?\Z",
            description="Identifier of the licence on the hub, such as `cc-by-4.0`.",
        ),
    ] = ""
    citation: Annotated[str, Meta(description="Publication to cite.")] = ""
    language: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[a-z]{2,3}\Z")], ...],
        Meta(description='Language codes, such as `["en"]`.'),
    ] = ()
    tags: Annotated[tuple[str, ...], Meta(description="Tags for searching on the hub.")] = ()
    protected: Annotated[
        bool,
        Meta(
            description="Whether the corpus is patients' text, which is shown only with "
            "`--show-text` and not pushed. Default: true for the sources `notes`, `omop` and "
            "`i2b2`, otherwise false."
        ),
    ] = False


class SourceOptions(Stage, frozen=True, kw_only=True):
    """Options of `[source]` that all sources share."""

    max_loss: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Maximum share of a split's documents that may be set aside, and of its "
            "mentions that may be left out, without losses by rules of the pipeline. It decides "
            "whether the build succeeds, but not its bytes.",
        ),
    ] = 0.05
    decontaminate: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            description="Built folders or their splits, such as test sets. Training documents that "
            "share text with them are set aside. The manifest has their digests instead of paths."
        ),
    ] = ()
    duplicates: Annotated[
        Literal["ask", "keep", "count", "drop"],
        Meta(
            description='Treatment of copied documents: "ask" stops the build if most texts of a '
            'file or a split stand elsewhere too, "keep" accepts them, "count" counts copies by '
            'their words, "drop" sets them aside in training splits.'
        ),
    ] = "ask"
    on_crash: Annotated[
        Literal["stop", "skip"],
        Meta(
            description='What happens when a document kills the process that annotates it: "stop" '
            'names the document, "skip" sets it aside.'
        ),
    ] = "stop"
    duplicate_similarity: Annotated[
        float,
        Meta(gt=0, le=1, description="Minimum similarity of copies; 1 for equal words only."),
    ] = 0.8
    sample: Annotated[
        str,
        Meta(
            pattern=r"^(\w[\w.-]*(/\w[\w.-]*)*)?\Z",
            description="Folder of the shipped sample corpus in `vocab/`. Default: no sample.",
        ),
    ] = ""
    fetch: Annotated[
        tuple[Fetch, ...], Meta(description="Files of the corpus to download. Default: none.")
    ] = ()


class AnnotateOptions(Stage, frozen=True, kw_only=True):
    """Options of `[annotate]`: the annotator, and the choice of mentions."""

    use: Annotated[
        str, Meta(description='Name of the annotator; "gold" keeps the source\'s mentions.')
    ] = "gold"
    sample: Annotated[
        Mapping[str, Any],
        Meta(
            description="Annotator of the sample, `use` and its options, whose files are below "
            "`vocab/`. It replaces an annotator without options. Default: none."
        ),
    ] = field(default_factory=dict)
    labels: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            description="Labels to keep, in the order of the manifest. Mentions with other labels "
            "are left out and counted. Default: all labels, sorted."
        ),
    ] = ()
    rename: Annotated[
        Mapping[str, Annotated[str, Meta(min_length=1)]],
        Meta(description="Label of the source -> new label, applied before `labels`."),
    ] = field(default_factory=dict)
    context: Annotated[
        bool,
        Meta(
            description="Whether to flag mentions as negated, uncertain, hypothetical, historical "
            "or of the family, by rules for English clinical text."
        ),
    ] = False
    leave_out_context: Annotated[
        tuple[Flag, ...], Meta(description="Flags of mentions to leave out and count.")
    ] = ()
    min_term_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Minimum share of a document's tokens in mentions. Training documents with "
            "a smaller share are set aside.",
        ),
    ] = 0.0

    @property
    def wants_context(self) -> bool:
        """Whether any option needs the context of mentions."""
        return self.context or bool(self.leave_out_context)

    def uses(self) -> list[str]:
        """Return the names of the annotator and of all members of an ensemble."""
        members = [member.get("use") for member in _list_members(self.options)]
        return [self.use, *(use for use in members if isinstance(use, str))]

    def __post_init__(self) -> None:
        twice = [label for label, count in Counter(self.labels).items() if count > 1]
        if twice:
            raise ValueError(f"labels: expected different labels, got '{twice[0]}' more than once")


class SegmentOptions(Stage, frozen=True, kw_only=True):
    """Options of `[segment]`: the segmenter."""

    use: Annotated[str, Meta(description="Name of the segmenter.")] = "given"


class EncodeOptions(Options, frozen=True, kw_only=True):
    """Options of `[encode]`: how text becomes tokens."""

    tokenizer: Annotated[
        str,
        Meta(description="A `tokenizer.json`, a `vocab.txt`, a Hugging Face folder or a hub id."),
    ] = ""
    max_tokens: Annotated[
        int,
        Meta(
            ge=8,
            le=1 << 20,
            description="Maximum number of tokens per row, with special tokens. Default: 512, or "
            '128 with `split = "paper"`.',
        ),
    ] = 0
    split: Annotated[
        Literal["mention", "paper"],
        Meta(
            description='Where to cut longer sequences: "mention" never inside a mention that fits '
            'into a row, "paper" before the first word that does not fit, as in Abaho et al. 2024.'
        ),
    ] = "mention"
    join: Annotated[
        Literal["none", "document"],
        Meta(
            description='Rows: "document" joins consecutive sentences of a document up to '
            '`max_tokens`, "none" makes a row per sentence.'
        ),
    ] = "none"
    lowercase: Annotated[
        bool | None,
        Meta(description="Whether a `vocab.txt` is uncased. Default: decided by the vocabulary."),
    ] = None
    eos: Annotated[
        bool,
        Meta(
            description="Whether a document ends with the tokenizer's end-of-text token, by which "
            "a decoder learns to stop. Nothing is added if the tokenizer ends each row with it."
        ),
    ] = False
    keep_text: Annotated[
        bool, Meta(description="Whether to store the text and character offsets of each row.")
    ] = False

    def __post_init__(self) -> None:
        if not self.max_tokens:
            force_setattr(self, "max_tokens", 128 if self.split == "paper" else 512)


class ShardOptions(Options, frozen=True, kw_only=True):
    """Options of `[shard]`: how rows are divided into files."""

    input_bytes: Annotated[int, Meta(ge=1, description="Approximate bytes of input per shard.")] = (
        64 << 20
    )


STAGES: dict[str, type[Options]] = {
    "about": About,
    "source": SourceOptions,
    "annotate": AnnotateOptions,
    "segment": SegmentOptions,
    "encode": EncodeOptions,
    "shard": ShardOptions,
}
"""Table of a pipeline file -> its options."""


class Pipeline(Options, frozen=True, kw_only=True):
    """A dataset to build."""

    # Keys contain the name as UTF-8, which has no surrogates.
    name: Annotated[
        str,
        Meta(
            pattern=r"^[^\x00\ud800-\udfff]*$",
            description="Name of the dataset, such as `blurb/ncbi-disease`.",
        ),
    ]
    about: About
    source: SourceOptions
    annotate: AnnotateOptions
    segment: SegmentOptions
    encode: EncodeOptions
    shard: ShardOptions

    @property
    def has_doc_labels(self) -> bool:
        """Whether rows have the column `doc_label`: the source has an option of this name."""
        return bool(self.source.options.get("doc_label"))

    def sampled(self) -> Pipeline:
        """Return the pipeline for the shipped sample.

        Its card describes the sample instead of the corpus. Its annotator is that of the sample,
        unless another one or an option was chosen.
        """
        annotate = self.annotate
        if annotate.sample and not annotate.options:
            options = dict(annotate.sample)
            use = options.pop("use", annotate.use)
            for name in options.keys() & set(FILES):
                options[name] = str(resources.path("vocab", options[name]))
            annotate = replace(annotate, use=use, options=options)

        title = f"Sample text in the form of: {self.about.title}" if self.about.title else ""
        about = replace(
            self.about,
            title=title,
            homepage="",
            licence="CC0 1.0",
            licence_id="cc0-1.0",
            citation="",
        )
        return replace(self, annotate=annotate, about=about)

    def effective(self) -> dict[str, Any]:
        """Return all options that can change the bytes of a folder, as plain values.

        Paths of the tokenizer, of models and of other folders, and the consent to load a model are
        left out, because the manifest has their digests.
        """
        tables: dict[str, Any] = msgspec.to_builtins(self)
        del tables["name"], tables["about"], tables["encode"]["tokenizer"]
        for name in ("max_loss", "on_crash", "decontaminate", "sample", "fetch"):
            del tables["source"][name]
        if tables["source"]["duplicates"] == "ask":
            tables["source"]["duplicates"] = "keep"  # the answer makes the same rows
        del tables["annotate"]["sample"]

        own_options = [tables["annotate"]["options"], tables["segment"]["options"]]
        for options in (*own_options, *_list_members(own_options[0])):
            for name in (*FILES, CONSENT):
                options.pop(name, None)
        return tables

    def to_toml(self) -> str:
        """Return the pipeline as a file, which `read` reads to an equal pipeline."""
        tables = msgspec.to_builtins(self)
        for table in tables.values():
            if isinstance(table, dict):
                table.update(table.pop("options", {}))
        return toml.dump(tables)


def read(
    source: str | Path | Mapping[str, Any],
    *,
    sets: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read a pipeline from its shipped name, a path ending in `.toml`, or tables.

    If another annotator or segmenter is chosen by `sets` or `options`, the options of the previous
    one are removed.

    Args:
        source: `blurb/ncbi-disease`, `my.toml`, or the tables of such a file with a `name`, which
            are not changed.
        sets: Assignments `stage.option=value`, or `name=value`, that override the file. The value
            is TOML, otherwise a string.
        options: The same as a mapping from `stage.option` to the value, which may be a path.

    Raises:
        PipelineError: The pipeline is unknown or not TOML, a table or option is unknown, or a value
            is wrong.
    """
    tables = _as_toml(source) if isinstance(source, Mapping) else _read_file(str(source))
    if "name" not in tables:
        raise PipelineError('pipeline: the tables have no name; add "name": "mine"')
    where = f"pipeline '{tables['name']}'" if isinstance(tables["name"], str) else "pipeline"

    assignments = [_assignment(text) for text in sets]
    assignments += [(path, value, f"option '{path}'") for path, value in (options or {}).items()]
    # Other programs first, because an option of the new one may be set before its `use`.
    for path, value, _ in assignments:
        if path in ("annotate.use", "segment.use"):
            _drop_foreign_options(tables, path.removesuffix(".use"), value)
    for path, value, origin in assignments:
        _put(tables, path, value, where=origin)

    for table in tables:
        known = ["name", *STAGES]
        if table not in known:
            raise PipelineError(f"{where}: unknown table [{table}]{did_you_mean(table, known)}")

    stages: dict[str, Any] = {}
    for stage, kind in STAGES.items():
        table = tables.get(stage, {})
        if not isinstance(table, dict):
            raise PipelineError(f"{where}, [{stage}]: expected a table, got {type(table).__name__}")
        if stage == "about":
            table = {"protected": _use(tables.get("source")) in _OF_PATIENTS, **table}
        if issubclass(kind, Stage):
            table = _with_own_options(table, kind)
        stages[stage] = from_options(kind, table, where=f"{where}, [{stage}]")
    return from_options(Pipeline, {"name": tables["name"], **stages}, where=where)


def shared_options(stage: str) -> list[Option]:
    """Return the options that all programs of a stage share, besides those of shipped pipelines."""
    return [option for option in list_options(STAGES[stage]) if option.name not in _OF_SHIPPED]


def _read_file(name_or_path: str) -> dict[str, Any]:
    """Return the tables of a shipped pipeline or a file, with a name."""
    is_path = name_or_path.endswith(".toml")
    name = Path(name_or_path).stem if is_path else name_or_path
    try:
        text = Path(name_or_path).read_text("utf-8") if is_path else resources.pipeline_text(name)
        tables = {"name": name, **tomllib.loads(text)}
    except NOT_TOML as error:
        raise PipelineError(f"pipeline '{name}': not TOML: {error}") from None
    except OSError as error:
        raise PipelineError(
            f"{name_or_path}: expected a pipeline file, found none ({error.strerror}); "
            "`mslm-data recipes` lists shipped ones"
        ) from None
    check_consent(name_or_path, tables)
    return tables


def check_consent(path: str, tables: Mapping[str, Any]) -> None:
    """Check that a file does not consent to run the code of a model, which only its user can.

    Args:
        path: The file, for messages.
        tables: Its tables.

    Raises:
        PipelineError: An annotator has the option `CONSENT`.
    """
    if _has_consent(tables.get("annotate")):
        raise PipelineError(
            f"{path}, [annotate]: expected no {CONSENT}: it consents to run the code of a model, "
            f"so it is given by the command (--set annotate.{CONSENT}=DIGEST) or the call "
            "(options), by someone who trusts the model; remove it from the file"
        )


def _has_consent(table: Any) -> bool:
    """Return whether a table, or one within it, has the option `CONSENT`."""
    if not isinstance(table, dict):
        return False
    return bool(table.get(CONSENT)) or any(map(_has_consent, table.values()))


def _with_own_options(table: Mapping[str, Any], kind: type[Options]) -> dict[str, Any]:
    """Move the options of one source, annotator or segmenter to `options`."""
    shared = set(kind.__struct_fields__) - {"options"}
    own = {name: value for name, value in table.items() if name not in shared}
    return {**{name: table[name] for name in table if name in shared}, "options": own}


def _list_members(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of an ensemble, `[annotate.annotators.NAME]`."""
    members = options.get("annotators")
    if not isinstance(members, dict):
        return []
    return [member for member in members.values() if isinstance(member, dict)]


def _assignment(text: str) -> tuple[str, Any, str]:
    """Parse `stage.option=value` to the path, the value, and the prefix of errors."""
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals:
        raise PipelineError(f"--set: expected stage.option=value, got '{text}'")
    return path, parse_value(value), f"--set {path}"


def parse_value(text: str) -> Any:
    """Parse a value as TOML; return it as a string if it is not TOML."""
    try:
        tables = tomllib.loads(f"value = {text}")
    except NOT_TOML:
        return text
    # A value with a line end may contain further assignments: it is a string.
    return tables["value"] if len(tables) == 1 else text


def _use(table: Any) -> Any:
    return table.get("use") if isinstance(table, dict) else None


def _drop_foreign_options(tables: dict[str, Any], stage: str, use: Any) -> None:
    """Remove the options of the previous annotator or segmenter when `use` changes."""
    if _use(tables.get(stage)) not in (None, use):
        kept = {"use", *(option.name for option in shared_options(stage))}
        tables[stage] = {name: tables[stage][name] for name in tables[stage] if name in kept}


def _put(tables: dict[str, Any], path: str, value: Any, *, where: str) -> None:
    """Set the name, or an option at `stage.option` or deeper."""
    stage, _, option = path.partition(".")
    if path != "name":
        if not (stage and option):
            raise PipelineError(f"{where}: expected stage.option, got '{path}'")
        if stage not in STAGES:
            raise PipelineError(f"{where}: unknown stage '{stage}'{did_you_mean(stage, STAGES)}")

    # Create missing tables on the path.
    *parents, last = path.split(".")
    table = tables
    for parent in parents:
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
