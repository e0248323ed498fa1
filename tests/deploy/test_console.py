"""The console in a real browser: its content, by keyboard, in dark and light; screenshots are saved in out/console."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from oncegate.testing import LocalGateway
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate_spark import Credentials, Gateway
from tests.support.chromium import chromium
from tests.support.tree import ROOT

pytestmark = pytest.mark.slow
PICTURES = ROOT / "out" / "console"
# The minimum contrast of text to its background (WCAG 2.2, 1.4.3).
CONTRAST = 4.5
_CONTRASTS = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.endsWith(", 0)") && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() &&
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.textContent.slice(0, 40)];
  });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalGateway, dict[str, str]]]:
    """Yields a gateway with keys and some of every kind of data."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    kept, texts = [], {}
    for role in (Role.ADMIN, Role.WRITE, Role.METRICS):
        roles = [Role.ADMIN, Role.WRITE] if role is Role.ADMIN else [role]
        key, texts[role.value] = keys.made(role.value, roles, ["*"], 0)
        kept.append(key)
    keys.write(path, kept)
    with LocalGateway("memory:", keys=path, lease_ms_min=1) as found:
        with Gateway(found.url, credentials=Credentials(api_key=texts["admin"])) as client:
            _fill(client)
        yield found, texts


def _fill(client: Gateway) -> None:
    first, again = client.attempt(), client.attempt()
    ids = [f"order-{number}" for number in range(400)]
    first.complete(first.claim(ids))
    again.claim(ids[:120])
    first.claim([*ids[:30], ids[0]])
    client.attempt().claim(["in-doubt-1", "in-doubt-2"], lease_ms=1)
    for number in range(3):
        producer = client.producer(f"events/{number}", driver="load")
        producer.register()
        producer.complete(producer.claim(list(range(10 * (number + 1)))))
        if number == 2:
            producer.claim([1_000, 1_001])


@contextmanager
def opened(browser: Browser, url: str, **how: Any) -> Iterator[Page]:
    """Opens the console; an error or a request to another host fails the test."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 1000}} | how))
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((url, "data:")) else wrong.append(asked.url))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    try:
        page.goto(f"{url}/console")
        yield page
        assert wrong == []
    finally:
        context.close()


def enter(page: Page, key: str) -> None:
    page.get_by_label("Key").fill(key)
    page.get_by_label("Key").press("Enter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_what_there_is_readable_in_dark_and_light(browser: Browser, gateway: Any, scheme: Any) -> None:
    served, texts = gateway
    with opened(browser, served.url, color_scheme=scheme) as page:
        expect(page.get_by_role("alert")).to_have_text("The gateway asks for a key: enter one above.")
        enter(page, texts["admin"])
        expect(page.locator("#share")).to_have_text("0.0 %")
        with Gateway(served.url, credentials=Credentials(api_key=texts["admin"])) as client:
            for number in range(3):
                said = page.locator("#granted-rate").text_content() or ""
                ids = [f"{scheme}-{number}-{one}" for one in range(50)]
                attempt = client.attempt()
                attempt.complete(attempt.claim(ids))
                client.attempt().claim(ids[: 10 * (number + 1)])
                expect(page.locator("#granted-rate")).not_to_have_text(said)
        expect(page.locator("#share")).to_have_text("28.6 %")
        expect(page.locator("#line polyline")).to_be_attached()
        expect(page.locator("#causes")).to_contain_text("client retry")
        expect(page.locator("#producers")).to_contain_text("events/2")
        expect(page.locator("#producers tr").filter(has_text="events/2")).to_contain_text("1,001")
        expect(page.locator("#left tr")).to_have_count(1)
        expect(page.locator("#left tr td").nth(1)).to_have_text("2")
        expect(page.locator("#sizes")).to_contain_text("for ever")
        expect(page.get_by_role("alert")).to_be_hidden()
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{scheme}.png", full_page=True)
        low = [(ratio, text) for ratio, text in page.evaluate(_CONTRASTS) if ratio < CONTRAST]
        assert low == []


def test_rates_are_those_of_the_last_looks(browser: Browser, gateway: Any) -> None:
    served, texts = gateway
    credentials = Credentials(api_key=texts["admin"])
    with opened(browser, served.url) as page, Gateway(served.url, namespace="rates", credentials=credentials) as client:
        client.create_namespace()
        enter(page, texts["admin"])
        page.get_by_label("Namespace").select_option("rates")
        expect(page.locator("#share")).to_have_text("0.0 %")
        attempt = client.attempt()
        attempt.complete(attempt.claim(["a", "b", "c"]))
        client.attempt().claim(["a"])
        expect(page.locator("#share")).to_have_text("25.0 %")
        expect(page.locator("#causes tr").filter(has_text="unknown").locator("td").nth(1)).to_have_text("1")


def test_everything_is_reached_by_the_keyboard_and_an_id_is_explained(browser: Browser, gateway: Any) -> None:
    served, texts = gateway
    with opened(browser, served.url) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the figures")).to_be_focused()
        names = []
        for _ in range(4):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        assert names == ["namespace", "key", "Use", "pause"]
        enter(page, texts["admin"])
        expect(page.locator("#left tr")).to_have_count(1)
        page.locator("#pause").focus()
        page.keyboard.press("/")
        expect(page.locator("#id")).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.type("order-1")
        page.keyboard.press("Enter")
        expect(page.locator("#explained")).to_contain_text("done: written")
        page.locator("#id").fill("in-doubt-1")
        page.keyboard.press("Enter")
        expect(page.locator("#explained")).to_contain_text("in doubt")
        page.locator("#pause").press("Enter")
        expect(page.locator("#pause")).to_have_text("Go on")
        page.screenshot(path=PICTURES / "explained.png", full_page=True)


def test_data_hidden_from_a_key_is_marked_and_the_rest_is_shown(browser: Browser, gateway: Any) -> None:
    served, texts = gateway
    with opened(browser, served.url, viewport={"width": 420, "height": 900}) as page:
        enter(page, texts["write"])
        expect(page.locator("#left-note")).to_have_text("This key may not see claims (role read or admin).")
        expect(page.locator("#sizes")).to_contain_text("ids known")
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        page.screenshot(path=PICTURES / "narrow.png", full_page=True)


def test_a_drained_gateway_is_marked_and_a_vanished_one_too(browser: Browser, tmp_path: Path) -> None:
    with LocalGateway("memory:") as served, opened(browser, served.url) as page:
        expect(page.locator("#share-ever")).to_have_text("0.0 %")
        body = {"draining": True, "who": "ada", "why": "to upgrade"}
        page.request.post(f"{served.url}/v1/gateway:drain", data=body)
        expect(page.get_by_role("alert")).to_have_text(
            "The gateway is drained by ada: to upgrade. Undo: oncegate drain --undo"
        )
        page.screenshot(path=PICTURES / "drained.png")
        served.close()
        expect(page.get_by_role("alert")).to_contain_text("The gateway does not answer")
