"""Firefox and WebKit, driven by WebDriver's commands, with only Debian's packages.

Firefox speaks Marionette directly, without geckodriver, which would only pass the commands on. WebKitGTK has a driver.
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar

from ..loopback import free_port, told

KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Right": "\ue014", "Space": " "}


class Driven:
    """A headless browser with the methods that tests use. Subclasses send single commands."""

    def __init__(self, command: list[str], folder: Path, **environment: str) -> None:
        with (folder / "browser.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "HOME": str(folder), **environment},
            )

    def send(self, name: str, parameters: dict[str, Any]) -> Any:
        raise NotImplementedError

    def open(self, url: str) -> None:
        self.send("url", {"url": url})

    def run(self, script: str, *given: object) -> Any:
        """Run the body of a function in the page, and return its result."""
        return self.send("execute/sync", {"script": script, "args": list(given)})

    def until(self, script: str, *given: object, seconds: float = 30) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + seconds
        while not (found := self.run(f"return {script}", *given)):
            assert time.monotonic() < end, f"{script}: {self.run('return document.body.innerText')}"
            time.sleep(0.1)
        return found

    def press(self, *keys: str) -> None:
        """Press keys, by name or character, one after the other."""
        steps = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.send("actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def shot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.send("screenshot", {})))

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(20)


class Firefox(Driven):
    NAMES: ClassVar = {
        "url": "WebDriver:Navigate",
        "execute/sync": "WebDriver:ExecuteScript",
        "actions": "WebDriver:PerformActions",
        "screenshot": "WebDriver:TakeScreenshot",
    }

    def __init__(self, folder: Path) -> None:
        program = shutil.which("firefox-esr") or shutil.which("firefox")
        assert program, "apt-get install firefox-esr"
        port = free_port()
        profile = folder / "profile"
        profile.mkdir()
        settings = {"marionette.port": port, "intl.accept_languages": "en-US"}
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in settings.items()]
        (profile / "user.js").write_text("\n".join(lines))
        super().__init__([program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)], folder)
        with connected(port) as opened:
            self.stream = opened.makefile("rwb")
        self.receive()  # its greeting
        self.number = 0
        self.command("WebDriver:NewSession", {})

    def receive(self) -> Any:
        size = b""
        while (digit := self.stream.read(1)) != b":":
            assert digit, "Firefox has gone away"
            size += digit
        return json.loads(self.stream.read(int(size)))

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        self.number += 1
        message = json.dumps([0, self.number, name, parameters]).encode()
        self.stream.write(b"%d:%s" % (len(message), message))
        self.stream.flush()
        _, _, error, result = self.receive()
        assert error is None, error
        return result

    def send(self, name: str, parameters: dict[str, Any]) -> Any:
        result = self.command(self.NAMES[name], parameters)
        return result.get("value") if isinstance(result, dict) else result

    def close(self) -> None:
        super().close()
        self.stream.close()


class WebKit(Driven):
    def __init__(self, folder: Path) -> None:
        program = shutil.which("WebKitWebDriver")
        assert program, "apt-get install webkit2gtk-driver xvfb"
        port = free_port()
        super().__init__(
            ["xvfb-run", "-a", program, f"--port={port}", "--host=127.0.0.1"],
            folder,
            LIBGL_ALWAYS_SOFTWARE="1",
            WEBKIT_DISABLE_COMPOSITING_MODE="1",
            WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS="1",
        )
        connected(port).close()
        self.url = f"http://127.0.0.1:{port}/session"
        found = sorted(Path("/usr/lib").glob("*-linux-gnu/webkit2gtk-4.*/MiniBrowser"))[-1]
        options = {
            "browserName": "MiniBrowser",
            "webkitgtk:browserOptions": {"binary": str(found), "args": ["--automation"]},
        }
        session = self.post(self.url, {"capabilities": {"alwaysMatch": options}})["sessionId"]
        self.url += f"/{session}"

    def post(self, url: str, body: dict[str, Any] | None) -> Any:
        return told(url, body)["value"]

    def send(self, name: str, parameters: dict[str, Any]) -> Any:
        return self.post(f"{self.url}/{name}", None if name == "screenshot" else parameters)


def connected(port: int, seconds: float = 60) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
