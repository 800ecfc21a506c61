# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Relative links of the pages, as a git host reads them, for the site.

Pages that show a file from elsewhere (README.md) get its text with links that
start here; links to such files lead to their pages. Links to other files are
left to MyST, which offers them for download, and links to folders and to other
Markdown files become text. What leads nowhere is also left to MyST, which
warns.
"""
import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
PAGES = {'README.md': 'readme', 'CONTRIBUTING.md': 'contributing',
         'CHANGELOG.md': 'changelog', 'projects/study/README.md': 'study'}
# A link, except in code.
LINK = re.compile(r'^( *)```.*?^\1```$|`[^`\n]+`(?!\])'
                  r'|\[((?:[^\[\]]|\n)*?)\]\(([^)\s]+)\)', re.M | re.S)


def rewrite(text: str, base: Path, folder: Path) -> str:
    """Rewrite the links of a page.

    Args:
        text (str): Markdown.
        base (Path): Folder from which its links start.
        folder (Path): Folder of the page of the site.
    """

    def replace(match: re.Match) -> str:
        words, target = match[2], match[3]
        if words is None or re.match(r'\w+:|#', target):
            return match[0]
        name, _, anchor = target.partition('#')
        path = Path(os.path.normpath(base / name))
        file = os.path.relpath(path, ROOT)
        if path.is_dir():
            return words
        if file in PAGES:
            path = ROOT / 'docs' / f'{PAGES[file]}.md'
        if path.suffix == '.md' and ROOT / 'docs' not in path.parents:
            return words if path.exists() else match[0]
        name = os.path.relpath(path, folder)
        return f'[{words}]({name}{f"#{anchor}" if anchor else ""})'

    return LINK.sub(replace, text)


def rewrite_page(app: Sphinx, docname: str, source: list) -> None:
    """Rewrite the links of a page when Sphinx reads it."""
    folder = (Path(app.srcdir) / docname).parent
    for name, page in PAGES.items():
        if page == docname:
            text = (ROOT / name).read_text(encoding='utf-8')
            source[0] = rewrite(text, (ROOT / name).parent, folder)
            app.env.note_dependency(str(ROOT / name))
            return
    source[0] = rewrite(source[0], folder, folder)


def setup(app: Sphinx) -> dict:
    """Register with Sphinx."""
    app.connect('source-read', rewrite_page)
    return dict(version='1', parallel_read_safe=True)
