"""A server of the page in a thread of the test, and a folder to show."""

from __future__ import annotations

import html
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import tokenizers
from tokenizers import models, pre_tokenizers, processors

import mslm_data as md
from mslm_data.look.corpus import Corpus
from mslm_data.look.server import Server
from mslm_data.look.state import State

EVIL = [
    "<script>fetch('https://example.org')</script>", "</style><script>alert(1)</script>", '"onmouseover="alert(1)',
    "'onload='x", "&amp;", "<img/src=https://example.org/x>", "{{config}}", "{%raw%}", "hx-get='/end'",
    "<a/hx-get='end'hx-trigger='load'>", "]]>", "<!--", "סרטן", "\u202eevil",
]  # fmt: skip
EVIL_LABEL = "<img src=x onerror=alert(1)>"


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def unescaped(self) -> str:
        """The text without HTML's escapes."""
        return html.unescape(self.text)


def at(server: Server, view: str, query: str = "") -> str:
    """Return the address of a view or file of a server."""
    base = server.address.partition("?")[0].rpartition("/")[0]
    return f"{base}/{view}?{quote(query, safe='=&')}"


@contextmanager
def served(corpus: Corpus, state: State | None = None) -> Iterator[Server]:
    """Serve a corpus within the context."""
    server = Server(corpus, state or State())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()


def ask(address: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    """Request an address with the headers of a browser; `headers` add to them or replace them."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.putrequest(method, f"{parts.path}?{parts.query}", skip_host=True)
    for name, value in (
        {"Host": parts.netloc, "Content-Length": "0"} | dict(headers or {})
    ).items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)


def hostile(folder: Path) -> Path:
    """Build a corpus with markup in words, label and document ids."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *EVIL]
    core = tokenizers.Tokenizer(
        models.WordLevel({word: id_ for id_, word in enumerate(words)}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    core.add_special_tokens(words[:5])
    folder.mkdir(parents=True)
    core.save(str(folder / "tokenizer.json"))

    text = " ".join(EVIL)
    mention = {"start": 0, "end": len(EVIL[0]), "label": EVIL_LABEL}
    rows = [
        {"id": f"{number}{EVIL[1]}", "text": text, "entities": [mention]} for number in range(3)
    ]
    (folder / "in").mkdir()
    (folder / "in" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pipeline = folder / "evil.toml"
    pipeline.write_text('[source]\nuse = "jsonl"\n[segment]\nuse = "whole"\n', encoding="utf-8")
    md.build(
        pipeline,
        input=folder / "in",
        tokenizer=folder / "tokenizer.json",
        out=folder / "built",
        workers=1,
    )
    return folder / "built"
