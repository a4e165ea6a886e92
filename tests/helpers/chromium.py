"""A small driver for headless Chromium: the DevTools protocol over a pipe, and nothing to install.

Messages are JSON, each ended by a zero byte; what is sent has a number, and the answer has it too.
Everything else that arrives is an event, and kept.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from requirements_met import require

PATIENCE_S = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def require_chromium() -> str:
    """Where it is; the test is skipped, or fails, if it is nowhere."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    require("chromium", found is not None, "there is no chromium; make system-deps installs it")
    return str(found)


@contextmanager
def chromium(profile: Path) -> Iterator["Chromium"]:
    command = [require_chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands_out, answers_in)]

    def as_3_and_4() -> None:
        os.dup2(ends[0], 3)
        os.dup2(ends[1], 4)

    process = subprocess.Popen(
        command,
        preexec_fn=as_3_and_4,
        pass_fds=(3, 4),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for end in (commands_out, answers_in, *ends):
        os.close(end)
    try:
        yield Chromium(commands_in, answers_out)
    finally:
        os.close(commands_in)
        os.close(answers_out)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Chromium:
    """The browser with one page."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    # --- the protocol

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        answer = self._until(lambda one: one.get("id") == self._number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = self._next()
            if "method" in message:
                self.events.append(message)
            if is_it(message):
                return message

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE_S)
            assert ready, f"chromium said nothing for {PATIENCE_S} s"
            more = os.read(self._answers, 1 << 20)
            assert more, "chromium has gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    # --- what a reader does

    def look(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """A window of this size, and the reader's wish for light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", **size, mobile=False)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, page: Path) -> None:
        self.events.clear()
        self.send("Page.navigate", url=page.as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda one: one.get("method") == "Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """What an expression is worth on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, selector: str) -> None:
        """Bring it into view, and rest the pointer on its middle."""
        self._point("mouseMoved", selector)

    def click(self, selector: str) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._point(kind, selector)

    def _point(self, kind: str, selector: str) -> None:
        x, y = self.ask(
            f"""(() => {{
                const one = document.querySelector({json.dumps(selector)});
                one.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
                const box = one.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        pressed = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, file: Path, selector: str = "html") -> None:
        """An element, all of it, however far down the page it is."""
        box = self.ask(
            f"""(() => {{
                const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                const [x, y] = [box.x + scrollX, box.y + scrollY];
                return {{x, y, width: box.width, height: box.height}};
            }})()"""
        )
        clip = {**box, "scale": 1}
        shot = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    # --- what went wrong

    @property
    def complaints(self) -> list[str]:
        """Whatever the console shows, errors and warnings alike."""
        methods = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(one["params"]) for one in self.events if one["method"] in methods]

    @property
    def requests(self) -> list[str]:
        return [
            one["params"]["request"]["url"]
            for one in self.events
            if one["method"] == "Network.requestWillBeSent"
        ]
