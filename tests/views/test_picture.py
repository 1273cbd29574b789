"""The writers: what is in the files, that nothing in them runs or is fetched, and for whom."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from PIL import Image

from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.views.charts import line_chart
from jevlaya_lab.views.picture import Picture
from jevlaya_lab.views.themes import THEMES

EVIL = '<script>alert("1")</script> & $\\frac{1}{2}$'
SVG = "{http://www.w3.org/2000/svg}"


def picture_of(title="Title", **options) -> Picture:
    frame = pd.DataFrame({"x": [1, 2], "y": [1, 2], "by": [EVIL, "b"]})
    return Picture(line_chart(frame, x="x", y="y", by="by", title=title, **options))


def image_of(picture, **options):
    return Image.open(io.BytesIO(picture.to_png(**options)))


@pytest.mark.parametrize(("theme", "light"), [("light", True), ("dark", False)])
def test_a_png_has_a_background_of_its_own_and_its_text(theme, light):
    picture = picture_of()
    image = image_of(picture, theme=theme)
    corner = image.convert("RGBA").getpixel((2, 2))
    assert corner[3] == 255
    assert (sum(corner[:3]) > 600) is light
    assert image.text["Description"] == picture.alt
    assert image.text["Title"] == "Title"
    assert image_of(picture, scale=1).width == image.width / 2 == picture.layout.width


def test_texts_can_be_read_on_what_they_stand_on():
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a, b):
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for theme in THEMES.values():
        behind = [theme.surface, *(theme.style(r).fill for r in ("panel", "done", "nested"))]
        for fill in behind:
            assert contrast(theme.style("ink").fill, fill) > 7
            assert contrast(theme.style("quiet").fill, fill) > 4.5
        assert contrast(theme.style("faded").fill, theme.style("skipped").fill) > 4
        for i in range(6):
            assert contrast(theme.style(f"series-{i}").fill, theme.surface) > 2


def test_an_svg_says_what_it_shows_and_reads_as_xml():
    picture = picture_of(EVIL)
    text = picture.to_svg()
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == picture.alt
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == EVIL
    assert root[1].text == picture.alt
    assert (root.get("width"), root.get("height")) == ("880", f"{picture.layout.height:.0f}")
    assert "<script" not in text
    assert not re.search(r'(?:href|src)="(?!#)', text)
    assert picture.to_svg(theme="dark") != text


def test_html_holds_both_themes_the_text_and_the_facts():
    picture = picture_of(EVIL)
    text = picture.to_html()
    assert text.count("data:image/png;base64,") == 2
    assert '<source media="(prefers-color-scheme: dark)"' in text
    assert "<table" in text
    assert "<script" not in text
    assert "http" not in text
    assert "&lt;script&gt;" in re.search(r'alt="([^"]*)"', text)[1]
    for theme in ("light", "dark"):
        alone = picture.to_html(theme=theme)
        assert alone.count("data:image/png;base64,") == 1
        assert "<source" not in alone


def test_the_end_of_the_name_says_what_is_written(tmp_path):
    picture = picture_of()
    with Image.open(picture.save(tmp_path / "deep" / "a.PNG")) as image:
        assert image.format == "PNG"
    assert picture.save(str(tmp_path / "a.svg")).read_text(encoding="utf-8").startswith("<?xml")
    page = picture.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>Title</title>" in page
    dark = picture.save(tmp_path / "dark.svg", theme="dark").read_text(encoding="utf-8")
    assert dark != (tmp_path / "a.svg").read_text(encoding="utf-8")
    with pytest.raises(InvalidOption, match=r"ends in .png, .svg or .html, not .*a\.gif"):
        picture.save(tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()


def test_a_notebook_gets_a_png_and_its_text():
    picture = picture_of()
    data, meta = picture._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == picture.alt
    assert meta["image/png"]["width"] == 880


@pytest.mark.parametrize(
    "draw",
    [
        lambda p: p.to_png(theme="blue"),
        lambda p: p.to_svg(theme=None),
        lambda p: p.to_html(theme="Light"),
        lambda p: p.to_png(scale=0),
        lambda p: p.to_png(scale="2"),
        lambda p: p.save("a.png", theme="auto"),
    ],
)
def test_options_that_do_not_exist_are_refused(draw):
    with pytest.raises(InvalidOption, match=r"theme is|scale is"):
        draw(picture_of())


def test_only_a_layout_is_a_picture():
    with pytest.raises(InvalidInput, match="made of a Layout, got a str"):
        Picture("x")


def test_a_very_high_picture_is_drawn_smaller():
    layout = picture_of().layout
    high = Picture(type(layout)(layout.width, 40_000.0, "t", "", "a"))
    assert image_of(high).height <= 30_001


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_png_has_a_palette_that_holds_the_background_as_it_is(theme):
    picture = picture_of()
    image = image_of(picture, theme=theme)

    assert image.mode == "P"
    assert image.info["Description"] == picture.alt
    corner = image.convert("RGB").getpixel((0, 0))
    assert "#{:02x}{:02x}{:02x}".format(*corner) == THEMES[theme].surface
