"""The page for whoever reads it in a real browser: by keyboard alone, dark or light, on narrow screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.dashboard.web import known
from tests.dashboard.web.browser import VIEWS, chromium, visiting  # noqa: F401 - the fixture `browser`

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]


GRAVE = {"serious", "critical"}


def test_everything_can_be_done_from_the_keyboard(browser: Browser) -> None:
    with visiting(browser) as made:
        page = made.go()
        page.keyboard.press("/")
        expect(page.locator("#search")).to_be_focused()
        page.keyboard.type("sigkill")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(3)
        # Storms stand on top, so they come first for the keyboard too.
        for place in range(3):
            page.keyboard.press("j")
            expect(page.locator(".row-link").nth(place)).to_be_focused()
        expect(page.locator("tbody .row-link").first).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_selector("main[data-view=group]")
        chosen = page.locator(".band.chosen").get_attribute("aria-label")
        page.keyboard.press("ArrowLeft")
        assert page.locator(".band.chosen").get_attribute("aria-label") != chosen
        page.keyboard.press("Escape")
        page.wait_for_selector("main[data-view=cluster]")
        for key, view in (("i", "incidents"), ("h", "findings"), ("g", "cluster")):
            page.keyboard.press(key)
            page.wait_for_selector(f"main[data-view={view}]")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        expect(page.locator("#when")).to_be_visible()


def test_dark_and_light_follow_the_system_can_be_chosen_and_are_readable(browser: Browser) -> None:
    seen = {}
    for scheme in ("dark", "light"):
        with visiting(browser, scheme=scheme) as made:
            page = made.go()
            seen[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            for place in (
                "body",
                ".quiet",
                ".chip.warn",
                ".chip.bad",
                "tbody .cause.bad",
                "tbody .cause.good",
            ):
                assert page.evaluate(CONTRAST, place) >= 4.5, (scheme, place)
            page.keyboard.press("d")
            turned = page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.reload()
            page.wait_for_selector("main[data-view]")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == turned != seen[scheme]
    assert seen["dark"] != seen["light"]


CONTRAST = """(place) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (over, under) => {
    for (const one of [under, over]) {
      canvas.fillStyle = one;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colour) => {
    const linear = (v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((one) => linear(one / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const element = document.querySelector(place);
  let under = null;
  for (let node = element; node && !under; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") under = colour;
  }
  const back = rgb(under, "#fff");
  const ink = rgb(getComputedStyle(element).color, `rgb(${back})`);
  const [one, other] = [light(ink), light(back)].sort((a, b) => b - a);
  return (one + .05) / (other + .05);
}"""


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_screens_scroll_down_only(browser: Browser, width: int) -> None:
    with visiting(browser, width=width) as made:
        for query in VIEWS:
            page = made.go(query)
            page.wait_for_timeout(100)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, query
        page = made.go()
        expect(page.locator("tbody .row-link").first).to_be_visible()


@pytest.mark.parametrize(
    ("width", "scheme"), [(400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")]
)
def test_axe_finds_no_serious_fault_and_nothing_is_wider_than_the_screen(
    browser: Browser, width: int, scheme: str
) -> None:
    incident = next(iter(known.replayed().incidents.open))
    with visiting(browser, width=width, scheme=scheme) as made:
        for query in (*VIEWS, f"?incident={incident}", "runbooks/"):
            page = made.page
            page.goto(f"{made.url}/{query}")
            page.wait_for_selector("main > *")
            page.wait_for_timeout(100)
            found = Axe().run(page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in GRAVE] == [], (
                query
            )
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, query
        made.go()
        for key, dialog in (("f", "#filters"), ("?", "#help"), ("t", "#when")):
            made.page.keyboard.press(key)
            made.page.wait_for_selector(f"{dialog}[open]")
            found = Axe().run(made.page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in GRAVE] == [], (
                key
            )
            made.page.keyboard.press("Escape")
            expect(made.page.locator("dialog[open]")).to_have_count(0)
