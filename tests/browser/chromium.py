"""A headless Chromium, told what to do by the DevTools protocol over two pipes."""

import base64
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.browser import install
from tests.controlplane import waiting

_ANSWER_SECONDS: Final = 60.0
_TO_BROWSER, _FROM_BROWSER = 3, 4


class Chromium:
    """A browser with one page; use as a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        command = [
            str(install.find()), "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}", "about:blank",
        ]  # fmt: skip
        # The program finds the pipes at fixed numbers.
        script = f'exec {_TO_BROWSER}<&{read_commands} {_FROM_BROWSER}>&{write_answers}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._next = 0
        self._told: dict[int, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="chromium", daemon=True)
        self._reader.start()
        self._session = ""

    def __enter__(self) -> Self:
        try:
            targets = self._call("Target.getTargets")["targetInfos"]
            page = next(one["targetId"] for one in targets if one["type"] == "page")
            attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
            self._session = attached["sessionId"]
            self._call("Page.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._commands)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._folder.cleanup()

    # ---------------------------------------------------------------------------- the page

    def show(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Sets the size of the window in CSS pixels, and the colours that the user prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[colours])

    def open(self, url: str) -> None:
        """Goes to an address and waits until its page is there."""
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def until(self, condition: str) -> None:
        """Waits until an expression is true."""
        waiting.until(lambda: self._holds(condition), what=condition)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.ask(condition))
        except BrowserError:  # between two pages there is nobody to ask
            return False

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Presses a key, as ``Tab`` with the code 9."""
        for kind in ("rawKeyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def picture(self, path: Path) -> None:
        """Writes a picture of the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        found = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def nodes(self) -> list[dict[str, Any]]:
        """What a screen reader is told, node by node."""
        found: list[dict[str, Any]] = self._call("Accessibility.getFullAXTree")["nodes"]
        return found

    # ------------------------------------------------------------------------------- pipes

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._next += 1
        number = self._next
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        with self._news:
            if not self._news.wait_for(lambda: number in self._told, _ANSWER_SECONDS):
                raise BrowserError(f"no answer to {method}")
            answer = self._told.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> None:
        with os.fdopen(self._answers, "rb") as answers:
            rest = b""
            while chunk := answers.read1(1 << 16):
                *whole, rest = (rest + chunk).split(b"\0")
                for text in whole:
                    message = json.loads(text)
                    if "id" in message:
                        with self._news:
                            self._told[message["id"]] = message
                            self._news.notify_all()


class BrowserError(Exception):
    """The browser did not do what it was told to."""
