"""Serves the page to one user of this machine.

The server listens on 127.0.0.1. It rejects requests without the token in their path, with another
`Host`, or from other sites. It writes nothing. Answers are whole pages, of which htmx takes the
part that it replaces.
"""

from __future__ import annotations

import errno
import importlib.resources
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.errors import CallError, MslmDataError, place_of
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import known_filters
from mslm_data.look.form import FormError, find_problems, strategy_forms, strategy_groups
from mslm_data.look.page import draw_page
from mslm_data.look.render import render, render_view, style
from mslm_data.look.state import State, read_state
from mslm_data.look.views import VIEWS, load_view

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
_STATIC = {
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "page.js": "text/javascript",
}


_WRONG = 422
"""Status of an answer to a wrong value. The page then shows the message and keeps the last view."""


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
            corpus.background.close()
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
            self._corpus.background.close()
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
                message = f"error: {type(error).__name__} in {place_of(error)}"
                problem = PlainTextResponse(message, 500)
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
        try:
            state = self._state(request, self._start.view)
            page = draw_page(self._corpus.without_text(), state)
        except (MslmDataError, ValueError) as error:
            return PlainTextResponse(str(error), _WRONG)
        return HTMLResponse(
            page, headers={"Content-Disposition": 'attachment; filename="page.html"'}
        )

    def _end(self, request: Request) -> Response:  # noqa: ARG002 - starlette's signature
        self.end()
        return HTMLResponse(render("ended.html", title="Ended"))

    def _view(self, request: Request) -> Response:
        """Return the whole page. htmx takes the part that it replaces."""
        view = request.path_params["view"]
        if view not in VIEWS:
            return PlainTextResponse("not found", 404)

        state = self._start.change(view=view)
        html = Markup()
        problems: list[FormError] = []
        try:
            state = self._state(request, view)
            problems = find_problems(self._corpus, state)
            html, state = render_view(view, self._corpus, state, live=True)
        except (MslmDataError, ValueError) as error:
            problems.append(FormError(str(error), getattr(error, "field", "")))

        is_wrong = not html or any(problem.is_value for problem in problems)
        title = load_view(view).TITLE
        page = render(
            "live.html",
            corpus=self._corpus,
            state=state,
            live=True,
            heading=_titles(self._corpus),
            title=f"{_titles(self._corpus)}: {title}",
            title_of_view=title,
            html=html,
            problems=problems,
            views={name: load_view(name).TITLE for name in VIEWS},
            forms=strategy_forms(self._corpus, state),
            groups=strategy_groups(self._corpus),
            filters=known_filters(self._corpus),
            version=__version__,
        )
        # The address restores the view; that of a form has its empty fields too.
        address = {} if is_wrong else {"HX-Replace-Url": f"{view}?{state.address()}"}
        return HTMLResponse(page, _WRONG if is_wrong else 200, headers=address)

    def _state(self, request: Request, view: str) -> State:
        """Read the state from a request.

        Raises:
            FieldError: A parameter or its value is unknown, or a number is out of range.
        """
        # Addresses leave out defaults, which are those of a `State` and not of the command.
        defaults = State(strategies=self._start.strategies)
        pairs = request.query_params.multi_items()
        return read_state(self._corpus, pairs, view=view, start=defaults)


def _titles(corpus: Corpus) -> str:
    """Return the folder, and the gold folder beside it, each by the last two parts of its path."""
    folders = [corpus.shards, *([corpus.gold.shards] if corpus.gold else [])]
    titles = ["/".join(PurePath(str(shards.place)).parts[-2:]) for shards in folders]
    return ", beside gold ".join(titles)
