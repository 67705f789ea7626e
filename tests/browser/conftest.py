"""JupyterLab and a browser for the tests in this folder, and a screenshot of every failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from labkit.files import repo_root
from tests.browser.jupyter import browser_page, jupyterlab, screenshot

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("browser")


# Module scope at the most: see browser_page.
@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser page of a JupyterLab over a copy of the repository's notebooks."""
    with jupyterlab(repo_root() / "notebooks") as url, browser_page(url) as page:
        yield page


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Page) and not value.is_closed():
                report.sections.append(("screenshot", str(screenshot(value, f"failed-{item.name}"))))
    return report
