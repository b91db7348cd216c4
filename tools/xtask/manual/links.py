"""A hook of mkdocs: links to files of the repository that are no pages become plain text.

A page links to `../examples`, which is right where the repository is browsed and leads nowhere on the site. That such a file
exists is checked by frontend/python/tests/test_docs.py.
"""

import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)\)")


def on_page_markdown(markdown, page, **_):
    """Leaves links between pages as they are."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match):
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        is_page = not target.startswith("..") and "." in posixpath.basename(target)
        return match[0] if is_page else match[1]

    return LINK.sub(link, markdown)
