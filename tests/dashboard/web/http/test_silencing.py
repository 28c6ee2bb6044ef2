"""An incident's page says who was notified, and silences its alerts for holders of the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.alerts.runtime.silences import SilenceFiles
from rebalance_monitor.config.model import Settings
from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.dashboard.web.http.access import Access
from rebalance_monitor.engine.outputs.page_alerting import PageAlerting
from rebalance_monitor.engine.storage import Storage
from tests.alerts.support.memo import SECTION, Memo, dispatching, eventually
from tests.dashboard.web import known
from tests.dashboard.web.browser import chromium, visiting  # noqa: F401 - the fixture `browser`

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]
TOKEN = "correct-horse-battery"  # noqa: S105 - of no service


def test_an_alert_is_silenced_and_heard_again_from_its_page_by_keyboard(
    browser: Browser, tmp_path: Path
) -> None:
    settings = Settings(alerts=SECTION, web={"token": TOKEN})
    alerting = PageAlerting(settings, Storage(tmp_path))
    files, opened = SilenceFiles(tmp_path / "alerts"), known.storm('or"ders', known.T0)
    snapshot = known.small('or"ders')
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    with dispatching(tmp_path / "alerts", Memo()) as dispatcher:
        dispatcher.put(("q", 0), [opened])
        dispatcher.committed(("q", 0))
        assert eventually((tmp_path / "alerts" / "notifications.jsonl").exists)
    access = Access(token=TOKEN)
    with visiting(browser, snapshot, access=access, alerting=alerting, complaints=False) as made:
        page = made.page
        page.goto(f"{made.url}/?incident={opened.id}")
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        expect(page.locator(".notified")).to_contain_text("sre/slack opened")
        page.keyboard.press("s")
        dialog = page.locator("#silence")
        expect(dialog.get_by_label("Alerts that match")).to_have_value('group="or\\"ders",kind="storm"')
        dialog.get_by_label("Duration").select_option("4h")
        dialog.get_by_label("Comment").fill("known")
        dialog.get_by_label("Your name").fill("ada")
        page.keyboard.press("Enter")
        expect(page.locator(".silence")).to_contain_text("by ada: known")
        (silence,) = files.read()[0]
        assert silence.covers({"group": 'or"ders', "kind": "storm"})
        assert silence.ends_at - silence.starts_at == 4 * 3_600_000
        page.goto(f"{made.url}/?view=incidents")
        page.locator(".silence button").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".silences")).to_contain_text("None.")
        assert not [one for one in files.read()[0] if one.ends_at > silence.starts_at + 3_600_000]


def test_the_link_of_a_message_opens_the_dialog_once(browser: Browser, tmp_path: Path) -> None:
    alerting = PageAlerting(Settings(alerts=SECTION, web={"token": TOKEN}), Storage(tmp_path))
    snapshot, opened = known.small("orders"), known.storm("orders", known.T0)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    access = Access(token=TOKEN)
    with visiting(browser, snapshot, access=access, alerting=alerting, complaints=False) as made:
        page = made.page
        page.goto(Links(incident=f"{made.url}/?incident={{incident}}").silence_of(opened) or "")
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        expect(page.locator("#silence").get_by_label("Duration")).to_have_value("1h")
        page.keyboard.press("Escape")
        page.reload()
        expect(page.locator(".notified")).to_be_visible()
        expect(page.locator("#silence")).to_have_count(0)


def test_what_cannot_be_meant_is_said_in_the_dialog(browser: Browser, tmp_path: Path) -> None:
    alerting = PageAlerting(Settings(alerts=SECTION, web={"token": TOKEN}), Storage(tmp_path))
    snapshot, opened = known.small("orders"), known.storm("orders", known.T0)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    access = Access(token=TOKEN)
    with visiting(browser, snapshot, access=access, alerting=alerting, complaints=False) as made:
        page = made.page
        page.goto(f"{made.url}/?incident={opened.id}")
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        page.get_by_role("button", name="Silence …").click()
        page.get_by_label("Alerts that match").fill('group=~".*"')
        page.get_by_role("button", name="Silence", exact=True).click()
        expect(page.locator("#silence .problem")).to_contain_text("would silence everything")


def test_without_a_token_the_page_gives_the_command_instead(browser: Browser, tmp_path: Path) -> None:
    alerting = PageAlerting(Settings(alerts=SECTION), Storage(tmp_path))
    snapshot, opened = known.small("o'rders"), known.storm("o'rders", known.T0)
    snapshot.apply(Update(findings=[opened], now=known.T0, wall=known.T0, batch=2))
    with visiting(browser, snapshot, alerting=alerting) as made:
        page = made.go(f"?incident={opened.id}")
        expect(page.locator(".notified")).to_contain_text("Nobody was notified.")
        page.keyboard.press("s")
        expect(page.locator("#silence")).to_contain_text("`web.token`, which is not set")
        command = "rebalance-monitor alerts silence add 'group=\"o'\\''rders\",kind=\"storm\"' --for 1h"
        expect(page.locator("#silence code")).to_have_text(command)
