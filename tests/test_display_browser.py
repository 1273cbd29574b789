"""The HTML of all objects in a real browser: nothing in it runs, and it can be read."""

from __future__ import annotations

import importlib.util
import re
import shutil

import pytest
from test_display import ATTACKS, shown_objects

CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None,
        reason="playwright is not installed; pip install -e '.[test]'",
    ),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page()
    page.outgoing = []
    page.on("request", lambda request: page.outgoing.append(request.url))
    yield page
    page.close()


def fill(page, html):
    page.set_content(f"<script>window.hits = []; ran = x => hits.push(x)</script>{html}")
    # Scripts put in by innerHTML do not run; the first page's do, as a frontend lets them.
    page.evaluate("html => { document.body.insertAdjacentHTML('beforeend', html) }", html)
    page.evaluate(
        """() => {
            for (const each of document.querySelectorAll('details')) each.open = true
            for (const each of document.querySelectorAll('body *')) {
                each.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))
                if (each.tagName == 'A') each.click()
            }
        }"""
    )
    page.wait_for_timeout(300)
    return page.evaluate("window.hits")


def test_the_page_would_notice(page):
    hits = fill(page, "</svg>".join(ATTACKS[:7]) + f"<b {ATTACKS[3][1:]}='>x</b>")
    assert {"script", "img", "svg", "iframe", "closed", "link", 1} <= set(hits)
    fill(page, ATTACKS[7])
    assert "https://example.org/x.css" in page.outgoing


def test_nothing_that_a_user_wrote_runs(page):
    html = "".join(
        shown._repr_html_() for evil in ATTACKS[:1] for shown in shown_objects(evil).values()
    )
    others = [shown_objects(evil) for evil in ATTACKS[1:]]
    html += "".join(
        objects[name]._repr_html_() for objects in others for name in ("lab", "decision")
    )
    assert fill(page, html) == []
    assert [url for url in page.outgoing if not url.startswith(("about:", "data:"))] == []
    found = page.evaluate("document.querySelectorAll('script, img, svg, iframe, a').length")
    assert found == 1  # the page's own script
    assert "<script>ran('script')</script>" in page.inner_text("body")


@pytest.mark.parametrize("colours", [("#ffffff", "#212121"), ("#111111", "#e0e0e0")])
def test_text_keeps_its_contrast_in_light_and_dark(page, colours):
    background, ink = colours
    objects = shown_objects("name")
    page.set_content(
        f"<body style='background:{background};color:{ink}'>"
        + "".join(each._repr_html_() for each in objects.values())
    )
    found = page.evaluate(
        """() => [...document.querySelectorAll('bdi')].map(e => {
            let opacity = 1
            for (let p = e; p instanceof Element; p = p.parentElement)
                opacity *= getComputedStyle(p).opacity
            return [getComputedStyle(e).color, opacity,
                    getComputedStyle(e.closest('div, pre')).backgroundColor]
        })"""
    )
    assert found
    for colour, opacity, behind in found:
        assert behind == "rgba(0, 0, 0, 0)"
        assert contrast(colour, opacity, background) >= 4.5


def contrast(colour: str, opacity: float, background: str) -> float:
    """The ratio of the accessibility guidelines (WCAG 2) between text and what is behind it."""
    front = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    back = [int(background[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [opacity * f + (1 - opacity) * b for f, b in zip(front, back, strict=True)]

    def luminance(channels):
        parts = [c / 255 for c in channels]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    bright, dark = sorted((luminance(mixed), luminance(back)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
