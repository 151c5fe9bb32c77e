"""A headless Chromium, driven by the W3C WebDriver protocol of chromedriver: JSON over HTTP."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Left": "\ue012"}
KEYS |= {"Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}


def executables():
    """The driver and the browser, or None where one of them is not installed."""
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    return (driver, browser) if driver and browser else None


class Browser:
    """One window; use as a context manager."""

    def __init__(self, folder, width=1360, height=850):
        driver, browser = executables()
        self.log = open(folder / "chromedriver.log", "w")  # noqa: SIM115 - closed at the end
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        port = None
        for line in self.process.stdout:
            if "was started successfully on port" in line:
                port = line.split()[-1].rstrip(".")
                break
        self.address = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        arguments += [f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"]
        arguments += ["--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
        options = {"binary": browser, "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            made = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        except Exception:
            self._end()
            raise
        self.address += "/" + made["sessionId"]
        size = {"width": width, "height": height + 139}  # with what is around the page
        self._send("POST", "/window/rect", size)
        inner = self.run("return [innerWidth, innerHeight]")
        size = {"width": 2 * width - inner[0], "height": size["height"] + height - inner[1]}
        self._send("POST", "/window/rect", size)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        try:
            self._send("DELETE", "")
        finally:
            self._end()

    def _end(self):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()
        self.log.close()

    def _send(self, method, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, path):
        """Open a file, and wait until the page says that it is ready; milliseconds it took."""
        self._send("POST", "/url", {"url": path.as_uri()})
        self.wait("document.body.dataset.ready !== undefined")
        return int(self.run("return document.body.dataset.ready"))

    def run(self, script, *arguments):
        """What a script returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait(self, condition, seconds=20):
        """Until a condition of the page holds."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"{condition}: not within {seconds} s"
            time.sleep(0.05)

    def press(self, *keys):
        """Press keys, as a person does, one after the other."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._send("POST", "/actions", {"actions": [keyboard]})

    def errors(self):
        """What the page has complained of."""
        found = self._send("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] == "SEVERE"]

    def screenshot(self, path):
        """What is to be seen, as a PNG."""
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
