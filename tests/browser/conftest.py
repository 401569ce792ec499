"""A real browser: headless Chromium, with every console message and request written down."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZES = {"wide": (1280, 800), "tablet": (820, 1180), "phone": (390, 844)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            # Playwright's loop is closed by a garbage collection that may come in any test.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A running Chromium of this machine."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs the dependency group browser: nox -s browser"
    )
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no Chromium on this machine: there is none of {', '.join(PROGRAMS)}")
    with sync_api.sync_playwright() as playwright:
        # Root, as in most containers, has no sandbox.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, tmp_path):
    """Opens an address in a window: `open_page(url, size="phone", dark=True)`.

    At the end of the test there must have been no message on the console, no exception, and no
    request that leaves this machine.
    """
    contexts, messages, requests = [], [], []

    def opening(url, *, size="wide", dark=False):
        width, height = SIZES[size]
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # the game compiles
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not messages
    away = [
        url
        for url in requests
        if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:"))
    ]
    assert not away


@contextmanager
def downloaded(page) -> Iterator[list[str]]:
    """The text of a file that the page saves meanwhile, as the one entry of a list."""
    found: list[str] = []
    with page.expect_download() as download:
        yield found
    with open(download.value.path(), encoding="utf-8") as file:
        found.append(file.read())


def fits(page) -> bool:
    """Whether nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def number_shown(page) -> tuple[int, int]:
    """The move that is shown, and the last one."""
    at, last = page.locator("#place").inner_text().split("/")
    return int(at), int(last)


def wait_until(page, true) -> None:
    """Waits for a condition; the page's policy allows no polling inside of it."""
    for _ in range(600):
        if true():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never came true")
