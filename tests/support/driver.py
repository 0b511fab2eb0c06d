"""Drive a headless Chromium by the DevTools protocol: clicks, keys, sliders, and its requests.

Programs use it too, in environments without pytest.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
    "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync",
)  # fmt: skip


class Browser:
    """A browser tab. Messages go through two pipes, so neither a port nor a package is needed.

    Attributes:
        requests: Addresses of all requests of the tab.
        messages: Console messages and uncaught errors of pages, as JSON.
    """

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs, self._out = os.pipe()
        self._in, answers = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4. bash, as sh has no two-digit descriptors.
        command = f'exec "$0" "$@" 3<&{theirs} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs, answers), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)
        self.requests: list[str] = []
        self.messages: list[str] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._came = threading.Condition()
        self._number = 0
        self._session: str | None = None
        threading.Thread(target=self._read, daemon=True).start()

        target = next(
            t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command, and return its result."""
        with self._came:
            self._number += 1
            number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        with self._came:
            assert self._came.wait_for(lambda: number in self._answers, PATIENCE_S), method
            answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(
        self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Open a page, and wait until it is loaded.

        Args:
            address: URL of the page.
            width: Width of the window in pixels. Default: 1,280.
            height: Height of the window in pixels. Default: 900.
            dark: Whether the user prefers a dark colour scheme. Default: False.
        """
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def leave(self) -> None:
        """Leave the page, and clear `requests` and `messages`."""
        self.send("Page.navigate", url="about:blank")
        self.wait_for("location.href === 'about:blank'")
        self.requests.clear()
        self.messages.clear()

    def run(self, script: str) -> Any:
        """Evaluate JavaScript and return its value. Promises are awaited."""
        done = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript condition is true. Errors, as between two pages, count as false."""
        script = f"(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()"
        end = time.monotonic() + PATIENCE_S / 10
        while not self._holds(script):
            assert time.monotonic() < end, f"never came: {condition}"
            time.sleep(0.01)

    def _holds(self, script: str) -> bool:
        done = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        return done["result"].get("value") is True

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        value: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return value

    def set(self, id_: str, value: str) -> None:
        """Set the value of an input, slider or list, and fire its event."""
        self.run(
            f"{{const own = document.getElementById({json.dumps(id_)}) ?? "
            f"document.querySelector({json.dumps(f'[data-for={json.dumps(id_)}]')});"
            f"own.value = {json.dumps(value)}; own.dispatchEvent(new Event('input', {{bubbles: true}})); }}"
        )

    def press(self, key: str) -> None:
        """Press a key."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, file: Path) -> None:
        """Write a screenshot as PNG."""
        file.write_bytes(
            base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        )

    def close(self) -> None:
        """Kill the browser."""
        os.close(self._out)
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        incomplete = b""
        while True:
            try:
                got = os.read(self._in, 1 << 16)
            except OSError:
                return
            if not got:
                return
            *messages, incomplete = (incomplete + got).split(b"\0")
            for message in messages:
                self._note(json.loads(message))

    def _note(self, message: dict[str, Any]) -> None:
        if "id" in message:
            with self._came:
                self._answers[message["id"]] = message
                self._came.notify_all()
        elif message["method"] == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message["method"] in (
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
        ):
            self.messages.append(json.dumps(message["params"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser; end it on exit."""
    tab = Browser(profile)
    try:
        yield tab
    finally:
        tab.close()
