"""`mslm-data look`."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import click

from mslm_data.cli.options import (
    FolderOrUrl,
    epoch_option,
    folder_or_url_argument,
    show_text_option,
    split_option,
    strategy_options,
)
from mslm_data.cli.output import echo
from mslm_data.cli.process import Terminated
from mslm_data.cli.written import TextFile

if TYPE_CHECKING:
    from mslm_data.look.corpus import Corpus
    from mslm_data.look.state import State


@click.command("look", short_help="Show a corpus and its masks as a page.")
@folder_or_url_argument
@click.argument("other", type=FolderOrUrl(), metavar="[OTHER]", required=False)
@split_option("to show")
@strategy_options()
@epoch_option
@click.option(
    "--out",
    "file",
    type=TextFile(),
    metavar="FILE.html",
    help="Output file for the page, instead of serving it.",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Maximum number of rows in the file, from the first or from `row=N` of --at.",
)
@click.option(
    "--at",
    "address",
    default="",
    metavar="VIEW?QUERY",
    help="First view, in the form of `Take it with you` on the page.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of the page. Default: a free one.",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in a browser, or only print its address.",
)
@show_text_option
def command(
    folder: Path | str,
    other: Path | str | None,
    split: str,
    names: tuple[str, ...],
    elm: float | None,
    blm: float | None,
    sets: tuple[str, ...],
    seed: int,
    epoch: int,
    file: Path | None,
    rows: int,
    address: str,
    port: int | None,
    browser: bool,
    show_text: bool,
) -> None:
    """See a corpus and its masks as a page, and change rates while you look.

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
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.strategy import make_strategies, options_by_strategy
    from mslm_data.io.files import write_whole
    from mslm_data.io.private import warn_readable
    from mslm_data.look.corpus import Corpus
    from mslm_data.look.page import draw_page
    from mslm_data.look.state import MAX_STRATEGIES, State, read_state
    from mslm_data.look.views import VIEWS

    if file is not None and port is not None:
        raise click.UsageError("--port: expected no --out beside it, as a file has no server")
    if file is not None and show_text:
        raise click.UsageError("--show-text: expected no --out beside it, as text is never written")
    if len(names) > MAX_STRATEGIES:
        raise click.UsageError(f"--strategy: expected at most {MAX_STRATEGIES}, got {len(names)}")
    shards = load(folder)
    strategies = make_strategies(shards, names, elm=elm, blm=blm, sets=sets)
    options = options_by_strategy(names, elm=elm, blm=blm, sets=sets)
    corpus = Corpus(
        shards,
        gold=None if other is None else load(other),
        show_text=show_text,
        live=file is None,
    )
    state = State(
        split=shards[split].name,
        strategies=tuple(
            corpus.add(name, strategy, options[name]) for name, strategy in strategies.items()
        ),
        seed=seed,
        epoch=epoch,
    )
    if address:
        view, _, query = address.partition("?")
        if view not in VIEWS:
            raise click.UsageError(f"--at: expected one of {', '.join(VIEWS)}, got '{view}'")
        state = read_state(parse_qsl(query), view=view, splits=shards.splits, start=state)

    if file is not None:
        if not file.absolute().parent.is_dir():
            raise click.UsageError(f"--out: expected a file in a folder that exists, got {file}")
        if corpus.protected:
            warn_readable([file.parent])
        write_whole(file, [draw_page(corpus, state, rows=rows).encode()])
        echo(f"{file}: written; open it in a browser")
        return

    # Shards and kernels, which the first page needs, load while the server is imported.
    Thread(target=partial(_draw_once, corpus, state), daemon=True).start()
    from mslm_data.look.server import Server

    server = Server(corpus, state, port=port or 0)
    echo(f"{server.address}\nCtrl-C ends it")
    with opened(server.address) if browser else nullcontext():
        try:
            server.run()
        except Terminated:
            raise
        except KeyboardInterrupt:  # the usual end, with nothing to resume
            pass
    echo("ended")


def _draw_once(corpus: Corpus, state: State) -> None:
    """Draw the first page to warm caches; the browser's request reports errors."""
    from mslm_data.errors import MslmDataError
    from mslm_data.look.render import render_view

    with suppress(MslmDataError, ValueError, OSError):
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
