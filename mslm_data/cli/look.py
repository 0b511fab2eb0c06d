"""`mslm-data look`."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl

import click
from msgspec import Meta

from mslm_data.cli.command import argument, make_command, option
from mslm_data.cli.options import (
    AnyFolder,
    Epoch,
    FolderOrUrl,
    Positive,
    ShowText,
    StrategyOptions,
)
from mslm_data.cli.output import echo
from mslm_data.cli.output_files import OutputFile
from mslm_data.cli.process import Terminated
from mslm_data.errors import CallError
from mslm_data.results import Result, Table

Port = Annotated[int, Meta(ge=1, le=65535)]

if TYPE_CHECKING:
    from mslm_data.look.corpus import Corpus
    from mslm_data.look.state import State


class Look(StrategyOptions, frozen=True, kw_only=True):
    """Options of `mslm-data look`."""

    folder: AnyFolder
    other: Annotated[Path | str | None, argument("[OTHER]", type=FolderOrUrl())] = None
    split: Annotated[str, option("Name of the split to show.", metavar="NAME")] = "train"
    epoch: Epoch = 0
    out: Annotated[
        Path | None,
        option(
            "Output file for the page, instead of serving it.",
            metavar="FILE.html",
            type=OutputFile(),
        ),
    ] = None
    rows: Annotated[
        Positive,
        option(
            "Maximum number of rows in the file, from the first or from `row=N` of --at.",
            metavar="N",
        ),
    ] = 100
    at: Annotated[
        str,
        option("First view, in the form of `Take it with you` on the page.", metavar="VIEW?QUERY"),
    ] = ""
    port: Annotated[Port | None, option("Port of the page.", metavar="N", default="a free one")] = (
        None
    )
    browser: Annotated[bool, option("Open the page in a browser, or only print its address.")] = (
        True
    )
    show_text: ShowText = False

    def __post_init__(self) -> None:
        """Check the options with each other.

        Raises:
            CallError: `out` is combined with an option of the server.
        """
        if self.out is not None and self.port is not None:
            raise CallError("--port: expected no --out beside it, as a file has no server")
        if self.out is not None and self.show_text:
            raise CallError("--show-text: expected no --out beside it, as text is never written")


@dataclass(frozen=True)
class Shown(Result):
    """The end of a page: its file, or None if it was served."""

    file: Path | None

    def tables(self) -> Iterator[str | Table]:
        """Yield a line."""
        yield "ended" if self.file is None else f"{self.file}: written; open it in a browser"


@make_command("look", Look, has_json=False)
def command(options: Look) -> Shown:
    r"""See a corpus and its masks as a page, and change rates while you look.

    The page is served on 127.0.0.1 with a secret token in its address, until Ctrl-C or its button
    `end the server`. This needs the extra `look`. --out writes the page as one file instead.

    OTHER is a folder with gold mentions of the same documents, built with the same tokenizer. The
    page then marks the mentions of DIR as found, missed or wrong, counts them and filters by them.

    The server writes nothing and sends nothing. Patients' text is only shown with --show-text, and
    never written to a file.

    \b
    Example:
        mslm-data look shards/ncbi
        mslm-data look shards/weak shards/gold
        mslm-data look shards/ncbi --strategy joint --strategy span --out page.html
    """
    from mslm_data.api.loading import load
    from mslm_data.cli.strategy import make_strategies, options_by_strategy
    from mslm_data.io.files import write_whole
    from mslm_data.look.corpus import Corpus
    from mslm_data.look.page import draw_page
    from mslm_data.look.state import MAX_STRATEGIES, State, read_state
    from mslm_data.look.views import VIEWS

    if len(options.strategy) > MAX_STRATEGIES:
        got = len(options.strategy)
        raise click.UsageError(f"--strategy: expected at most {MAX_STRATEGIES}, got {got}")
    shards = load(options.folder)
    strategies = make_strategies(shards, options)
    given = options_by_strategy(options)
    corpus = Corpus(
        shards,
        gold=None if options.other is None else load(options.other),
        show_text=options.show_text,
        live=options.out is None,
    )
    state = State(
        split=shards[options.split].name,
        strategies=tuple(
            corpus.add(name, strategy, given[name]) for name, strategy in strategies.items()
        ),
        seed=options.seed,
        epoch=options.epoch,
    )
    if options.at:
        view, _, query = options.at.partition("?")
        if view not in VIEWS:
            raise click.UsageError(f"--at: expected one of {', '.join(VIEWS)}, got '{view}'")
        state = read_state(corpus, parse_qsl(query), view=view, start=state)

    if options.out is None:
        _serve(corpus, state, port=options.port or 0, browser=options.browser)
        return Shown(None)
    if not options.out.absolute().parent.is_dir():
        raise click.UsageError(f"--out: expected a file in a folder that exists, got {options.out}")
    write_whole(options.out, [draw_page(corpus, state, rows=options.rows).encode()])
    return Shown(options.out)


def _serve(corpus: Corpus, state: State, *, port: int, browser: bool) -> None:
    """Serve the page until Ctrl-C or its button."""
    # Shards and kernels, which the first page needs, load while the server is imported.
    Thread(target=partial(_draw_once, corpus, state), daemon=True).start()
    from mslm_data.look.server import Server

    server = Server(corpus, state, port=port)
    echo(f"{server.address}\nCtrl-C ends it")
    with opened(server.address) if browser else nullcontext():
        try:
            server.run()
        except Terminated:
            raise
        except KeyboardInterrupt:  # the usual end, with nothing to resume
            pass


def _draw_once(corpus: Corpus, state: State) -> None:
    """Draw the first page to warm caches.

    The browser's request reports errors. A RuntimeError means that the page was closed meanwhile.
    """
    from mslm_data.errors import MslmDataError
    from mslm_data.look.render import render_view

    with suppress(MslmDataError, ValueError, OSError, RuntimeError):
        render_view(state.view, corpus, state, live=True)


@contextmanager
def opened(address: str) -> Iterator[None]:
    """Open a page in a browser, without the secret address on a command line.

    Other users of the machine can list the arguments of processes. So the browser gets a private
    file that redirects to the address.
    """
    with tempfile.TemporaryDirectory(prefix="mslm-data-look-") as folder:
        file = Path(folder) / "page.html"
        target = html.escape(address, quote=True)
        file.write_text(f'<meta http-equiv="refresh" content="0; url={target}">', encoding="utf-8")
        webbrowser.open(file.as_uri())
        yield
