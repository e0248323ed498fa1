"""The Chromium of this machine, headless.

Its tests are skipped if none is installed; with NEEDS_CONSOLE=true they fail.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        say = pytest.fail if os.environ.get("NEEDS_CONSOLE") == "true" else pytest.skip
        say(f"none of {', '.join(NAMES)} is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
