"""JupyterLab in a real browser, for tests: start both, open a notebook, run it, look at what came out.

with jupyterlab(notebooks) as url, browser_page(url) as page:
    open_notebook(page, "01_first.ipynb")
    run_all(page, timeout=300)
    assert not error_outputs(page)
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from labkit.doctor import BROWSERS, find_browser
from labkit.files import repo_root

ARTIFACTS = repo_root() / "tests" / "artifacts"
BROWSER_ARGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Cells that have left the screen stay in the page, so that a widget can be found without scrolling to it.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}
# The panel that shows a notebook; JupyterLab may have others open.
PANEL = "window.jupyterapp.shell.currentWidget"


def require_browser() -> str:
    """Path of the browser; an error, never a skip, where there is none: a skipped test checks nothing."""
    found = find_browser()
    if found is None:
        raise RuntimeError(
            f"browser tests need one of {', '.join(BROWSERS)} on the PATH and found none: install Debian's "
            "chromium (sudo apt-get install chromium)"
        )
    return found


def free_port() -> int:
    """A TCP port on this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _private_environment(folder: Path) -> dict[str, str]:
    """Environment in which neither the user's Jupyter settings nor an earlier run's layout play a part."""
    for name, value in SETTINGS.items():
        file = folder / "settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    # The notebooks choose their own drawing backend; the tests' one would keep figures from showing.
    inherited = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    return (
        inherited | {key: str(folder / place) for key, place in places.items()} | {"LABKIT_PROFILE": "smoke"}
    )


def _wait_for_server(url: str, process: subprocess.Popen, log: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer within {timeout:g} s. Its log:\n{log.read_text()[-4000:]}")


@contextmanager
def jupyterlab(notebooks: Path, timeout: float = 90) -> Iterator[str]:
    """A JupyterLab server over a copy of `notebooks`; yields its address, stops it and its kernels after.

    The copy lies in a folder of its own with the repository's figures/ beside it, as in the repository.
    """
    with tempfile.TemporaryDirectory(prefix="labkit-browser-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copytree(notebooks, folder / "root" / "notebooks")
        if (repo_root() / "figures").is_dir():
            shutil.copytree(repo_root() / "figures", folder / "root" / "figures")
        port, log = free_port(), folder / "server.log"
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--expose-app-in-browser",
        ]
        command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder / 'root'}"]
        with open(log, "w") as output:
            process = subprocess.Popen(
                command, env=_private_environment(folder), stdout=output, stderr=subprocess.STDOUT
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for_server(url, process, log, timeout)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def browser_page(base_url: str) -> Iterator[Page]:
    """A page of 1280 × 1000 pixels in a fresh browser that keeps its errors for `console_errors`.

    Hold it no longer than a test module: while it is open, nothing else in this process can run asyncio,
    and other tests execute notebooks with it.
    """
    browser_path = require_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(BROWSER_ARGS))
        page = browser.new_page(base_url=base_url, viewport={"width": 1280, "height": 1000})
        page.labkit_errors = []
        page.on(
            "console",
            lambda m: m.type == "error" and page.labkit_errors.append(f"{m.text} ({m.location['url']})"),
        )
        page.on("pageerror", lambda error: page.labkit_errors.append(str(error)))
        try:
            yield page
        finally:
            browser.close()


def console_errors(page: Page) -> list[str]:
    """Errors in the browser's console since the page was opened, with the address they came from."""
    return list(page.labkit_errors)


def open_notebook(page: Page, name: str, timeout: float = 180) -> None:
    """Open notebooks/`name` in JupyterLab and wait until its kernel is idle."""
    page.goto(f"/lab/tree/notebooks/{name}", timeout=timeout * 1000)
    ready = f"{PANEL}?.context?.path?.endsWith({json.dumps(name)}) && {PANEL}.sessionContext?.session?.kernel"
    page.wait_for_function(f"() => window.jupyterapp && {ready}?.status === 'idle'", timeout=timeout * 1000)
    page.evaluate(
        f"""() => {{
            window.labkitErrors = [];
            {PANEL}.sessionContext.iopubMessage.connect((_, message) => {{
                const {{ename, evalue}} = message.content;
                if (message.header.msg_type === 'error') window.labkitErrors.push(ename + ': ' + evalue);
            }});
        }}"""
    )


def run_all(page: Page, timeout: float = 300) -> None:
    """Run > Run All Cells, as from the menu, and wait until every cell is done or one has failed.

    Raises playwright's `TimeoutError` after `timeout` seconds; look at `error_outputs` afterwards.
    """
    # The command's own promise, since prompts say nothing in a notebook that was saved with its outputs.
    page.evaluate(
        """() => {
            window.labkitErrors = [];
            window.labkitRunning = true;
            const stop = () => { window.labkitRunning = false; };
            window.jupyterapp.commands.execute('notebook:run-all-cells').then(stop, stop);
        }"""
    )
    idle = f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'"
    page.wait_for_function(f"() => !window.labkitRunning && {idle}", timeout=timeout * 1000, polling=100)


def error_outputs(page: Page) -> list[str]:
    """`name: message` of every error since the last Run All, or since the notebook was opened.

    Those of cells, of Output widgets, and of callbacks whose traceback JupyterLab hides in its log.
    """
    in_cells = page.evaluate(
        f"""() => {PANEL}.content.widgets.filter(cell => cell.model.type === 'code')
            .flatMap(cell => cell.model.outputs.toJSON()).filter(output => output.output_type === 'error')
            .map(output => output.ename + ': ' + output.evalue)"""
    )
    from_kernel = page.evaluate("() => window.labkitErrors")
    return in_cells + [error for error in from_kernel if error not in in_cells]


def focus(locator: Locator) -> Locator:
    """Bring a widget into view and give it the keyboard; returns it."""
    locator.scroll_into_view_if_needed()
    locator.focus()
    return locator


def wait_for_change(
    page: Page, read: Callable[[], str | None], before: str | None, timeout: float = 15
) -> str:
    """What `read()` returns once that is something else than `before`; an `AssertionError` if it stays."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        now = read()
        if now and now != before:
            return now
        page.wait_for_timeout(50)
    raise AssertionError(f"unchanged after {timeout:g} s: {str(before)[:200]!r}")


def screenshot(page: Page, name: str) -> Path:
    """Save the page as tests/artifacts/`name`.png and return the path."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTIFACTS / f"{name}.png"
    page.screenshot(path=path)
    return path
