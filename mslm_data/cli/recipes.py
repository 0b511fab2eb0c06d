"""`mslm-data recipes`."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import json_option
from mslm_data.cli.output import echo, print_json, table
from mslm_data.io import resources

if TYPE_CHECKING:
    from mslm_data.registry import Option, Registry


_WIDTH = 98
"""Maximum length of a comment line, without its mark."""
_FEW_WORDS = 12
"""Maximum number of allowed words to list; longer lists are in the manual."""
_LISTINGS = ("strategies", "sources", "annotators", "segmenters", "picks")
"""Options that list something besides pipelines."""


@click.command(
    "recipes", short_help="List shipped pipelines, sources and strategies, or print one."
)
@click.argument("name", required=False)
@click.option(
    "--strategies",
    is_flag=True,
    help="List the masking strategies. With NAME, print a TOML file of this strategy.",
)
@click.option(
    "--sources",
    is_flag=True,
    help="List the sources with their files. With NAME, print a pipeline file of this source, with "
    "its options as comments.",
)
@click.option(
    "--annotators",
    is_flag=True,
    help="List the annotators. With NAME, print the table [annotate] of this one, with its options "
    "as comments.",
)
@click.option(
    "--segmenters",
    is_flag=True,
    help="List the segmenters. With NAME, print the table [segment] of this one, with its options "
    "as comments.",
)
@click.option(
    "--picks",
    is_flag=True,
    help="List the kinds of picks for your own strategies, with the options of their tables.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PATH",
    help="File or folder to recognise, with the NAME `auto`. Can be repeated.",
)
@json_option
def command(name: str | None, inputs: tuple[str, ...], as_json: bool, **listings: bool) -> None:
    """List the shipped pipelines, or print one to copy and change.

    The NAME `auto` recognises the files of --input, and prints a pipeline for them.

    --sources lists the sources, or with a NAME prints a pipeline file of one, with the help of each
    option. --annotators and --segmenters do the same for the tables [annotate] and [segment].

    --strategies lists the masking strategies with their origin and units, or with a NAME prints a
    TOML file of one, with its documentation and all options of its picks.

    --picks lists the tables of strategy files with their options.

    \b
    Column `follows` of the strategies:
      paper     the text of the paper
      released  the code released by the paper's authors
      adapted   a paper or its code, adapted to rows of text
      recalled  a paper, from memory
      own       parts that you choose

    \b
    Example:
        mslm-data recipes blurb/ncbi-disease > mine.toml
        mslm-data build --source mine.toml --input my/files --tokenizer vocab.txt \\
            --out shards/mine
        mslm-data recipes --sources conllu > mine.toml
        mslm-data recipes --annotators terms
        mslm-data recipes --strategies whole-word > mask.toml
        mslm-data mask-stats shards/mine --strategy mask.toml
    """  # noqa: D301 - click wants the character
    listing = _chosen(listings, inputs=bool(inputs), name=name)
    if listing == "picks":
        _picks(as_json)
    elif listing == "strategies":
        _strategies(name, as_json)
    elif listing and name:
        _use(listing, name, as_json)
    elif listing:
        _uses(listing, as_json)
    elif inputs or name == "auto":
        _recognised(name, inputs, as_json)
    elif name:
        _check_kind(name)
        text = resources.pipeline_text(name)
        if as_json:
            print_json({"name": name, "text": text})
        else:
            echo(text, nl=False)
    elif as_json:
        print_json({"recipes": resources.pipeline_names()})
    else:
        for known in resources.pipeline_names():
            echo(known)


def _chosen(listings: Mapping[str, bool], *, inputs: bool, name: str | None) -> str:
    """Return what to list; "" for pipelines.

    Args:
        listings: Name of each option that lists something -> whether it is given.
        inputs: Whether `--input` is given.
        name: NAME.
    """
    chosen = [listing for listing in _LISTINGS if listings[listing]]
    if len(chosen) > 1:
        *others, last = [f"--{listing}" for listing in _LISTINGS]
        raise click.UsageError(f"expected one of {', '.join(others)} and {last}, got several")
    if inputs and chosen:
        raise click.UsageError("expected --input with the NAME auto alone, got another option")
    if name and chosen == ["picks"]:
        raise click.UsageError("expected --picks alone, got a NAME too")
    return chosen[0] if chosen else ""


def _check_kind(name: str) -> None:
    """Check that a name is a pipeline; for a source or strategy, name the right option."""
    if name in resources.pipeline_names():
        return

    from mslm_data.mask.table import STRATEGIES

    names_by_listing = {listing: registry.names() for listing, registry in _registries().items()}
    names_by_listing["strategies"] = [full.partition(".")[0] for full in STRATEGIES.names()]
    for listing, names in names_by_listing.items():
        if name in names:
            raise click.UsageError(
                f"expected `recipes --{listing} {name}`, got it without the option"
            )


def _recognised(name: str | None, inputs: Sequence[str], as_json: bool) -> None:
    """Print the pipeline that reads the input files."""
    if name != "auto" or not inputs:
        raise click.UsageError("expected `recipes auto --input PATH`, got one without the other")
    from mslm_data.source.inputs.localise import localise
    from mslm_data.source.recognise import recognise

    recognised = recognise(localise(inputs))
    if as_json:
        print_json({"name": recognised.what, "why": recognised.why, "text": recognised.toml})
    else:
        echo(f"# Found '{recognised.what}': {recognised.why}\n\n{recognised.toml}", nl=False)


def _registries() -> dict[str, Registry]:
    """Return the registries whose names are values of `use` in pipeline files."""
    from mslm_data.annotate import ANNOTATORS
    from mslm_data.segment import SEGMENTERS
    from mslm_data.source import SOURCES

    return {"sources": SOURCES, "annotators": ANNOTATORS, "segmenters": SEGMENTERS}


def _uses(listing: str, as_json: bool) -> None:
    """Print the list of sources, annotators or segmenters."""
    registry = _registries()[listing]
    listed: dict[str, dict[str, Any]] = {}
    for name in registry.names():
        kind = registry.load(name)
        does = _first_paragraph(kind)
        is_source = listing == "sources"
        listed[name] = {"files": [*kind.suffixes], "reads": does} if is_source else {"does": does}
    if as_json:
        print_json({listing: listed})
        return

    heads = (registry.kind, *next(iter(listed.values())))
    rows = [
        (name, *(text if isinstance(text, str) else " ".join(text) for text in about.values()))
        for name, about in listed.items()
    ]
    echo(table(heads, rows))


def _first_paragraph(kind: Any) -> str:
    return " ".join(prose(kind).partition("\n\n")[0].split())


def prose(kind: Any) -> str:
    """Return the docstring of a class up to `Attributes` or `Raises`, which are for programmers."""
    documentation = inspect.cleandoc(kind.__doc__ or "")
    return re.split(r"^(?:Attributes|Raises):$", documentation, maxsplit=1, flags=re.M)[0].rstrip()


def _use(listing: str, name: str, as_json: bool) -> None:
    """Print a source as a pipeline file, an annotator or segmenter as its table.

    Documentation and options are comments. Options of its own come first, then shared ones.
    """
    from mslm_data.pipeline import shared_options
    from mslm_data.registry import list_options
    from mslm_data.source.table import usual_tables

    registry = _registries()[listing]
    kind = registry.load(name)
    text = prose(kind)
    options = list_options(kind)
    if listing == "sources":
        tables = usual_tables(name)
        options += shared_options("source")
    elif listing == "annotators":
        tables = {"annotate": {"use": name}}
        options += shared_options("annotate")
    else:
        tables = {"segment": {"use": name}}

    if as_json:
        print_json(
            {
                registry.kind: name,
                "text": text,
                "options": {
                    option.name: {
                        "default": _default(option),
                        "help": option.help,
                        "words": option.words,
                    }
                    for option in options
                },
            }
        )
        return

    lines = [f"# {line}".rstrip() for line in (name, "", *text.splitlines())]
    for stage, table_options in tables.items():
        lines += ["", f"[{stage}]", _line("use", table_options["use"])]
        if stage == next(iter(tables)):  # a source's segmenter has only its name
            for option in options:
                lines += ["", *_commented(option)]
    echo("\n".join(lines))


def _default(option: Option) -> Any:
    """Return the default as JSON; None if there is none."""
    from msgspec import to_builtins

    from mslm_data.registry import REQUIRED

    return None if option.default is REQUIRED else to_builtins(option.default)


def _commented(option: Option) -> list[str]:
    """Return an option as comment lines: its help, then its default."""
    from mslm_data.registry import REQUIRED

    help_text = option.help
    if 0 < len(option.words) <= _FEW_WORDS:
        help_text += f" One of {', '.join(map(str, map(_as_toml, option.words)))}."
    if option.limits:
        help_text += f" Limits: {option.limits}."
    if option.default is REQUIRED:
        line = f"{option.name}: required"
    elif option.default is None:
        line = f"{option.name}: not set"
    else:
        line = _line(option.name, option.default)
    return [f"# {text}" for text in (*textwrap.wrap(help_text, _WIDTH), line)]


def _strategies(name: str | None, as_json: bool) -> None:
    """Print the list of strategies, or the file of one."""
    from mslm_data.mask.table import strategies

    if name:
        _strategy(name, as_json)
    elif as_json:
        # `hides` is the promised JSON key of `Summary.masks`.
        listing = {
            known: {"hides": summary.masks, "status": summary.status, "source": summary.source}
            for known, summary in strategies().items()
        }
        print_json({"strategies": listing})
    else:
        rows = [
            (known, summary.status, summary.source, summary.masks)
            for known, summary in strategies().items()
        ]
        echo(table(("strategy", "follows", "source", "masks"), rows))


EXAMPLES: dict[str, dict[str, Any]] = {
    "picks.v1": {
        "picks": [
            {"units": "mentions", "budget": {"rate": 0.4}, "kind": "entity"},
            {"units": "words", "budget": {"rate": 0.12}},
        ]
    },
    "mixture.v1": {
        "parts": [{"use": "joint", "elm": 0.5}, {"use": "whole-word"}],
        "chances": [0.5, 0.5],
    },
    "curriculum.v1": {
        "parts": [{"use": "whole-word"}, {"use": "joint", "elm": 0.5}],
        "epochs": [1],
    },
}
"""Strategies made of parts -> options for an example."""


def _strategy(name: str, as_json: bool) -> None:
    """Print the TOML file of a strategy, with its documentation as comments."""
    from mslm_data.mask.table import NO_MASKS, STRATEGIES, default_options, make, summary
    from mslm_data.registry import list_options

    if name in NO_MASKS:
        make(name, {})  # raises with the name of the nearest strategy

    full = STRATEGIES.resolve(name)
    about = summary(full)
    kind = STRATEGIES.load(full)
    documentation = inspect.getdoc(kind) or ""
    options = list_options(kind)
    toml = repr(make(full, EXAMPLES.get(full, {})))

    # Strategies made of parts have no useful defaults, so they show an example instead.
    defaults = {} if full in EXAMPLES else default_options(full)

    if as_json:
        print_json(
            {
                "strategy": full,
                "status": about.status,
                "source": about.source,
                "text": documentation,
                "defaults": {option: _as_toml(value) for option, value in defaults.items()},
                "help": {option.name: option.help for option in options},
                "toml": toml,
            }
        )
        return

    comments = [f"{full}: {about.status}, {about.source}", "", *documentation.splitlines(), ""]
    if options:
        comments += ["Options:", *_wrapped(options), ""]
    if defaults:
        comments += ["The same by its name, with its options and their defaults:", "", "[mask]"]
        comments += [f'use = "{full}"']
        comments += [_line(option, value) for option, value in defaults.items()]
        comments += ["", "The same as picks:"]
    else:
        comments += ["An example, to change:"]

    for line in comments:
        echo(f"# {line}".rstrip())
    echo()
    echo(toml, nl=False)


def _picks(as_json: bool) -> None:
    """Print the tables of strategy files with their options."""
    from mslm_data.mask.file import PARTS, PICKS
    from mslm_data.registry import list_options

    tables = {f'use = "{tag}"': kind for tag, kind in PICKS.items()} | PARTS
    if as_json:
        listing = {
            name: {
                option.name: {"help": option.help, "words": option.words}
                for option in list_options(part)
            }
            for name, part in tables.items()
        }
        print_json({"picks": listing})
        return

    for number, (name, part) in enumerate(tables.items()):
        if number:
            echo()
        for line in textwrap.wrap(f"{name}: {prose(part)}", _WIDTH):
            echo(line)
        for line in _wrapped(list_options(part), defaults=True):
            echo(line)


def _wrapped(options: Iterable[Option], *, defaults: bool = False) -> Iterator[str]:
    """Yield the indented lines of each option: name, default if wanted, and help."""
    for option in options:
        default = _shown_default(option.default) if defaults else ""
        limits = f" Limits: {option.limits}." if option.limits else ""
        help_text = f"{option.name}{default}: {option.help}{limits}"
        yield from textwrap.wrap(help_text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _shown_default(default: Any) -> str:
    """Return ` = DEFAULT`; "" if there is none, or for a table with its own options."""
    from mslm_data.registry import REQUIRED, Options

    if default is REQUIRED or isinstance(default, Options):
        return ""
    written = _as_toml(default)
    return "" if written in (None, '""') else f" = {written}"


def _line(option: str, value: Any) -> str:
    return f"{option} = {_as_toml(value)}"


def _as_toml(value: Any) -> str | None:
    """Return a value as TOML; None for None, which TOML cannot express."""
    from msgspec import to_builtins

    from mslm_data.io.toml import inline

    return None if value is None else inline(to_builtins(value))
