"""Writes the generated parts of docs/reference, or says which are not what they should be."""

from __future__ import annotations

import argparse
import sys

from reference import pages


def main() -> int:
    """The command line."""
    about = argparse.ArgumentParser(prog="python -m reference", description=__doc__)
    about.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    about.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(pages.PAGES) + "; all without it")
    arguments = about.parse_args()
    stale = []
    for name in arguments.pages or pages.PAGES:
        page = pages.PAGES[name]
        before, text = page.path.read_text(), page.text()
        if before == text:
            continue
        stale.append(page.path.name)
        if not arguments.check:
            page.path.write_text(text)
    what = "out of date, cargo xtask docs writes" if arguments.check else "wrote"
    said = f"{what} {', '.join(stale)}" if stale else "all pages are current"
    print(f"reference: {said}", file=sys.stderr)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
