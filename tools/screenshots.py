"""Pictures of HTML pages in a real browser: light and dark, narrow and wide. A page that asks the network fails.

    python tools/screenshots.py demo_output/report.html paper/index.html --out screenshots

Needs playwright (``pip install "selmatch[screenshots]"``) and Debian's Chromium (``apt install chromium``), or another
one that the environment variable CHROMIUM names.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

THEMES = ("light", "dark")
WIDTHS = {"narrow": 390, "laptop": 1280, "wide": 1920}
#: no table hides columns in windows of that width
WHOLE = 1280
HIDDEN = """[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth)
    .map(box => box.textContent.trim().slice(0, 40))"""
#: schemes that stay on this machine
LOCAL = ("file:", "data:", "blob:", "about:")
#: pixels of one picture; a taller page becomes several, which can also be looked at
TALL = 4_000
#: all pictures of a page, also those that would load on scrolling
LOADED = "Promise.allSettled([...document.images].map(image => {image.loading = 'eager'; return image.decode()}))"


def main() -> int:
    arguments = _parser().parse_args()
    pages = list(_pages(arguments.pages))
    browser = _chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit('screenshots: playwright is missing. Install it with: pip install "selmatch[screenshots]".')
    arguments.out.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            for name, page in _named(pages):
                for theme in THEMES:
                    for width, pixels in WIDTHS.items():
                        problems += _taken(chromium, page, theme, pixels, arguments.out / f"{name}-{theme}-{width}")
        finally:
            chromium.close()
    for problem in problems:
        print(f"screenshots: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _taken(chromium: Any, page: Path, theme: str, width: int, stem: Path) -> list[str]:
    """Take the pictures of a page in one theme and width; what is wrong with the page, if anything."""
    context = chromium.new_context(
        color_scheme=theme, viewport={"width": width, "height": TALL}, device_scale_factor=1, reduced_motion="reduce"
    )
    problems: list[str] = []

    def decide(route: Any) -> None:
        url = route.request.url
        if url.startswith(LOCAL):
            route.continue_()
        else:
            problems.append(f"{page} asks the network for {url}.")
            route.abort()

    def missed(request: Any) -> None:
        if request.url.startswith(LOCAL):
            problems.append(f"{page} lacks {request.url}.")

    try:
        tab = context.new_page()
        tab.route("**/*", decide)
        tab.on("requestfailed", missed)
        tab.on("pageerror", lambda error: problems.append(f"{page} raises {error}."))
        tab.goto(page.resolve().as_uri(), wait_until="load")
        tab.evaluate(LOADED)
        wide, tall = tab.evaluate("[document.documentElement.scrollWidth, document.body.scrollHeight]")
        if wide > width:
            problems.append(f"{page} is {wide} pixels wide in a window of {width}.")
        if width >= WHOLE:
            hidden = tab.evaluate(HIDDEN)
            problems += [f"{page} hides columns of {table!r} in a window of {width} pixels." for table in hidden]
        for place, top in enumerate(range(0, tall, TALL)):
            _picture(tab, top, width, tall, stem.with_name(f"{stem.name}-{place + 1}.png"))
    finally:
        context.close()
    return list(dict.fromkeys(problems))


def _picture(tab: Any, top: int, width: int, tall: int, path: Path) -> None:
    """The part of a page below a line; the last one is as tall as the rest, at the bottom of the window."""
    tab.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
    above = top - tab.evaluate("Math.round(window.scrollY)")
    height = min(TALL, tall - top)
    tab.screenshot(path=path, clip={"x": 0, "y": above, "width": width, "height": min(height, TALL - above)})
    print(path)


def _pages(given: list[Path]) -> Iterator[Path]:
    """The files, and the HTML files of the folders."""
    for path in given:
        if path.is_dir():
            found = sorted(path.rglob("*.html"))
            if not found:
                sys.exit(f"screenshots: {path} holds no HTML file.")
            yield from found
        elif path.is_file():
            yield path
        else:
            sys.exit(f"screenshots: {path} does not exist. Write it first.")


def _named(pages: list[Path]) -> Iterator[tuple[str, Path]]:
    """Pages with a name for their pictures: of the file, or of its folder where many files have the same."""
    for page in pages:
        same = [other for other in pages if other.stem == page.stem]
        yield (page.stem if len(same) == 1 else f"{page.resolve().parent.name}-{page.stem}"), page


def _chromium() -> str:
    named = os.environ.get("CHROMIUM", "")
    names = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        sys.exit(
            "screenshots: Chromium is missing. Install it (Debian: apt install chromium), or name one in CHROMIUM."
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path, help="HTML files, or folders with such files")
    parser.add_argument("--out", type=Path, default=Path("screenshots"), help="the folder for the pictures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
