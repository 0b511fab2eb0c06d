"""Serves the page to one user of this machine.

The server listens on 127.0.0.1. It rejects requests without the token in their path, with another
`Host`, or from other sites. It writes nothing. Answers are whole pages, or fragments for htmx.
"""

from __future__ import annotations

import errno
import importlib.resources
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from markupsafe import Markup

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.data.context import FLAGS
from mslm_data.errors import CallError, MslmDataError, VocabularyError
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import impossible_filters
from mslm_data.look.options import (
    clean_options,
    describe_error,
    fields,
    files_needed,
    strategy_names,
)
from mslm_data.look.page import draw_page
from mslm_data.look.render import render, render_view, style
from mslm_data.look.state import GOLD_FILTERS, MAX_STRATEGIES, ONLY, Choice, State, read_state
from mslm_data.look.views import FRAGMENTS, VIEWS, load_view
from mslm_data.mask.table import summary

_PART_OF = "`mslm-data look`"
load("starlette", wanted_by=_PART_OF)
load("uvicorn", wanted_by=_PART_OF)

import uvicorn  # noqa: E402 - loaded above
from starlette.requests import Request  # noqa: E402
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response  # noqa: E402
from starlette.routing import Route, Router  # noqa: E402

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Pages may show patients' text, so browsers and proxies must not store them.
    "Cache-Control": "no-store",
}
_WITHOUT_STRATEGY = frozenset({"corpus", "batches"})
"""Views that need no strategy."""
_STATIC = {
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "page.js": "text/javascript",
}


class FormProblem(NamedTuple):
    """A message for the user.

    Attributes:
        message: What to mend.
        field: Id of the form's field; "" for none.
        is_value: A value is wrong, so the last good view stays. Default: something is missing.
    """

    message: str
    field: str = ""
    is_value: bool = False


class Server:
    """Serves the page until `end` is called.

    Attributes:
        address: Address of the page, including the token.
    """

    def __init__(self, corpus: Corpus, start: State, *, port: int = 0) -> None:
        """Bind a port.

        Args:
            corpus: The folder.
            start: State of the first page.
            port: The port. Default: a free one.

        Raises:
            CallError: The port is in use, or needs rights that the user lacks.
        """
        self._corpus = corpus
        self._start = start
        self._token = secrets.token_urlsafe(24)
        self._socket = socket.socket()
        if os.name == "posix":
            # The port of a server that has just ended can be bound again; one in use cannot.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
        except OSError as error:
            self._socket.close()
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"fails: {error.strerror}"
            raise CallError(
                f"port {port}: {reason}; choose another, or none for a free one"
            ) from None
        self._socket.listen()  # an early browser waits until `run` answers
        self._host = f"{HOST}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._guarded(self._routes()),
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
            )
        )

    @property
    def address(self) -> str:
        """Address of the page, including the token."""
        return f"http://{self._host}/{self._token}/{self._start.view}?{self._start.address()}"

    def run(self) -> None:
        """Answer requests until Ctrl-C, `end`, or a click on the page's button."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._corpus.jobs.cancel()
            self._socket.close()

    def end(self) -> None:
        """Stop `run`."""
        self._server.should_exit = True

    def _routes(self) -> Router:
        return Router(
            [
                Route("/", self._home),
                Route("/static/{name}", self._static),
                Route("/page.html", self._file),
                Route("/end", self._end, methods=["POST"]),
                Route("/{view}", self._view),
            ]
        )

    def _guarded(self, app: Any) -> Any:
        """Wrap the app: reject foreign requests before any work, and add headers to all answers."""

        async def guard(
            scope: dict[str, Any],
            receive: Callable[[], Awaitable[Any]],
            send: Callable[[Any], Awaitable[None]],
        ) -> None:
            refusal = self._refusal(Request(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
            # The app's routes do not know the token.
            prefix = f"/{self._token}"
            inner = scope | {"path": scope["path"].removeprefix(prefix) or "/", "root_path": ""}

            async def send_with_headers(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] += [
                        (name.lower().encode(), value.encode()) for name, value in _HEADERS.items()
                    ]
                await send(message)

            try:
                await app(inner, receive, send_with_headers)
            except Exception as error:  # noqa: BLE001 - the message may hold patients' text
                problem = PlainTextResponse(f"error: {type(error).__name__}", 500)
                await problem(inner, receive, send_with_headers)

        return guard

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer that rejects a foreign request; None for the user's own."""
        # DNS rebinding: a foreign name may resolve to this address, and its pages could then read
        # the answers.
        if request.headers.getlist("host") != [self._host]:
            return PlainTextResponse("wrong host", 421, headers=_HEADERS)

        origins = request.headers.getlist("origin")
        site = request.headers.get("sec-fetch-site", "none")
        is_own = all(origin == f"http://{self._host}" for origin in origins)
        if not is_own or site not in ("none", "same-origin"):
            return PlainTextResponse("wrong origin", 403, headers=_HEADERS)

        token = request.url.path.split("/")[1].encode()
        if not secrets.compare_digest(token, self._token.encode()):
            return PlainTextResponse("wrong address", 404, headers=_HEADERS)
        return None

    def _home(self, request: Request) -> Response:  # noqa: ARG002 - starlette's signature
        return RedirectResponse(f"/{self._token}/{self._start.view}?{self._start.address()}")

    def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name == "style.css":
            return Response(style(), media_type="text/css")
        if name not in _STATIC:
            return PlainTextResponse("not found", 404)
        file = importlib.resources.files(__package__).joinpath("static", name)
        return Response(file.read_bytes(), media_type=_STATIC[name])

    def _file(self, request: Request) -> Response:
        """Return the page as a file, without the text of protected folders."""
        state, problems = self._set_aside(self._state(request, self._start.view))
        if not state.strategies:
            return PlainTextResponse(problems[0].message, 400)
        return HTMLResponse(
            draw_page(self._corpus.without_text(), state),
            headers={"Content-Disposition": 'attachment; filename="page.html"'},
        )

    def _end(self, request: Request) -> Response:  # noqa: ARG002 - starlette's signature
        self.end()
        return HTMLResponse(render("ended.html"))

    def _view(self, request: Request) -> Response:
        view = request.path_params["view"]
        if view not in FRAGMENTS:
            return PlainTextResponse("not found", 404)

        # htmx names the element to replace: "main" after a change of the form, "page" after one
        # of the view, "counts" while the split is counted. A view that waits for a job replaces
        # its section, which has no name. Browsers load the whole page.
        target = request.headers.get("hx-target", "") if "hx-request" in request.headers else None
        headers: dict[str, str] = {}
        state = self._start.change(view=view)
        html = Markup()
        problems: list[FormProblem] = []
        try:
            state = self._state(request, view)
            # Another strategy has other options, so the form must change too.
            if self._is_other_form(request, state) and target == "main":
                target = "page"
                headers = {"HX-Retarget": "#page", "HX-Reswap": "innerHTML"}
            state, problems = self._set_aside(state)
            if state.strategies or view in _WITHOUT_STRATEGY:
                html, state = render_view(view, self._corpus, state, live=True)
        except (MslmDataError, ValueError) as error:
            problems.append(FormProblem(str(error), getattr(error, "field", "")))

        # The last good view stays until a wrong value is mended. A view that asks again stands
        # below the messages already, and goes on.
        is_changed = target == "main" and any(problem.is_value for problem in problems)
        if target not in (None, "page") and (not html or is_changed):
            headers = {"HX-Retarget": "#problem", "HX-Reswap": "innerHTML"}
            return HTMLResponse(render("problem.html", problems=problems), headers=headers)
        if target == "counts":
            return HTMLResponse(html)

        # The address restores the view. Only another view is a new entry of the browser's history.
        address = f"/{self._token}/{view}?{state.address()}"
        if target == "main":
            headers["HX-Replace-Url"] = address
        elif target == "page":
            headers["HX-Push-Url"] = address

        context = {
            "corpus": self._corpus,
            "state": state,
            "live": True,
            "title_of_view": load_view(view).TITLE,
            "html": html,
            "problems": problems,
        }
        if target not in (None, "page"):
            template = "main.html" if target == "main" else "section.html"
            return HTMLResponse(render(template, **context), headers=headers)
        context |= {
            "title": f"{_titles(self._corpus)}: {context['title_of_view']}",
            "heading": _titles(self._corpus),
            "views": [{"name": name, "title": load_view(name).TITLE} for name in VIEWS],
            "forms": self._forms(state),
            "names": self._names(),
            "filters": _filters(self._corpus),
            "impossible": impossible_filters(state),
            "version": __version__,
        }
        template = "live.html" if target is None else "body.html"
        return HTMLResponse(render(template, **context), headers=headers)

    def _state(self, request: Request, view: str) -> State:
        """Read the state from a request.

        Raises:
            MslmDataError: An unknown split, a number out of range, or too many strategies.
        """
        pairs = request.query_params.multi_items()
        splits = self._corpus.shards.splits
        # Addresses leave out defaults, which are those of a `State` and not of the command.
        defaults = State(strategies=self._start.strategies)
        state = read_state(pairs, view=view, splits=splits, start=defaults)

        before = request.query_params.getlist("form.names")
        choices = []
        for place, choice in enumerate(state.strategies):
            # After a change of strategy, the form still sends the options of the previous one.
            is_other = before != [] and before[place : place + 1] != [choice.name]
            options = {} if is_other else choice.options
            if choice.name not in self._corpus.added:
                with suppress(MslmDataError):  # an unknown strategy, see `_set_aside`
                    options = clean_options(choice.name, options)
            choices.append(Choice(choice.name, options))
        extra = {n: value for n, value in state.extra.items() if not n.startswith("form.")}
        state = state.change(strategies=tuple(choices), extra=extra)
        impossible = impossible_filters(state)
        return state.change(only=tuple(name for name in state.only if name not in impossible))

    def _set_aside(self, state: State) -> tuple[State, list[FormProblem]]:
        """Return the state without strategies that cannot be made, and a problem for each."""
        usable: list[Choice] = []
        unusable: dict[int, Choice] = {}
        problems = []
        for place, choice in enumerate(state.choices, 1):
            error = self._try(choice)
            if error is None:
                usable.append(choice)
            else:
                unusable[place] = choice
                problems.append(self._find_field(place, choice, error))
        return state.change(strategies=tuple(usable), unusable=unusable), problems

    def _try(self, choice: Choice) -> Exception | None:
        """Make a strategy, and return its error."""
        try:
            self._corpus.strategies([choice])
        except (MslmDataError, ValueError) as error:
            return error
        return None

    def _find_field(self, place: int, choice: Choice, error: Exception) -> FormProblem:
        """Return the problem with a strategy, at the option without which it can be made."""
        for option, text in choice.options.items():
            others = {name: value for name, value in choice.options.items() if name != option}
            if self._try(Choice(choice.name, others)) is None:
                message = describe_error(choice.name, option, text, error)
                return FormProblem(message, f"s{place}.{option}", is_value=True)
        is_value = not isinstance(error, VocabularyError)
        message = str(error) if is_value else f"{choice.name}: {error}"
        return FormProblem(message, f"s{place}", is_value=is_value)

    def _names(self) -> dict[str, list[str]]:
        """Return the strategies to choose from: those ready, and those that lack a file."""
        names = strategy_names()
        place = self._corpus.shards.place
        lacking = []
        if isinstance(place, Path):  # a remote folder would be asked for each file
            places = (place / "vocab", Path())
            lacking = [
                name
                for name in names
                if not all(
                    any((folder / file).exists() for folder in places)
                    for file in files_needed(name)
                )
            ]
        ready = sorted({*names, *self._corpus.added}.difference(lacking))
        return {"ready": ready, "needs a file": lacking} if lacking else {"ready": ready}

    def _is_other_form(self, request: Request, state: State) -> bool:
        """Return whether the form was made for other strategies, or for another split."""
        names = [choice.name for choice in state.choices]
        form = {"form.names": names, "form.split": [state.split]}
        return any(
            request.query_params.getlist(name) not in ([], values) for name, values in form.items()
        )

    def _forms(self, state: State) -> list[tuple[int, Choice | None, list[Any], str]]:
        """Return the place, choice, inputs and description of each strategy, and of one to add."""
        forms: list[tuple[int, Choice | None, list[Any], str]] = []
        for place, choice in enumerate(state.choices, 1):
            if choice.name in self._corpus.added:
                forms.append((place, choice, [], "given by the command"))
                continue
            try:
                inputs = list(fields(choice.name, choice.options))
                forms.append((place, choice, inputs, summary(choice.name).masks))
            except MslmDataError:
                forms.append((place, choice, [], ""))
        # One empty form to add a strategy.
        if len(forms) < MAX_STRATEGIES:
            forms.append((len(forms) + 1, None, [], ""))
        return forms


def _titles(corpus: Corpus) -> str:
    """Return the folder, and the gold folder beside it, each by the last two parts of its path."""
    folders = [corpus.shards, *([corpus.gold.shards] if corpus.gold else [])]
    titles = ["/".join(PurePath(str(shards.place)).parts[-2:]) for shards in folders]
    return ", beside gold ".join(titles)


def _filters(corpus: Corpus) -> dict[str, str]:
    """Return the filters that the folder has data for, and their labels."""
    filters = dict(ONLY)
    if corpus.gold is not None:
        filters |= GOLD_FILTERS
    if corpus.shards.manifest.context:
        filters |= {flag: f"rows with a mention flagged {flag}" for flag in FLAGS}
    return filters
