# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Links from the pages to files of the repository, which the site shows.

On a git host ``[train.py](../tools/train.py)`` leads to the file. Here it
leads to a page that shows it, made for every file that a page links to. A
page that includes a file of the repository's root (CONTRIBUTING.md) reads its
links as that file means them. What leads nowhere is left to MyST, which warns.
"""
import os
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

ROOT = Path(__file__).resolve().parents[2]
#: Pages that show a file of the root as text, by that file's name.
INCLUDED = {'README.md': 'readme', 'CONTRIBUTING.md': 'contributing',
            'CHANGELOG.md': 'changelog'}
LEXERS = {'.py': 'python', '.sh': 'bash', '.yml': 'yaml', '.json': 'json',
          '.md': 'markdown', '.toml': 'toml', '.csv': 'text'}
LARGEST = 200_000  # bytes of a file that is shown


def redirect_links(app: Sphinx, doctree: nodes.document) -> None:
    """Point MyST's links to files outside the pages' folder to their pages.

    Runs before Sphinx copies what it takes for downloads.
    """
    docname = app.env.docname
    links = [node for kind in (addnodes.pending_xref,
                               addnodes.download_reference)
             for node in doctree.findall(kind)
             if node.get('reftype') == 'myst']
    for link in links:
        target, _, anchor = _target(app, docname, link).partition('#')
        path = Path(os.path.normpath(target))
        if not target or not path.is_relative_to(ROOT) or not path.exists():
            continue
        page = _page_of(app, path)
        if page is not None:
            link.replace_self(_to_page(docname, page, anchor, link))
        elif not path.is_relative_to(app.srcdir):
            link.replace_self(_to_file(app, docname, path, link))


def _target(app: Sphinx, docname: str, link: nodes.Element) -> str:
    """The absolute path that a link names, with its anchor."""
    target = link['reftarget']
    if link.get('refdomain') == 'doc':  # found by MyST, the ending cut off
        anchor = link.get('reftargetid')
        target += '.md' + (f'#{anchor}' if anchor else '')
        return str(app.srcdir / target)
    file = {page: name for name, page in INCLUDED.items()}.get(docname)
    start = ROOT if file else (app.srcdir / docname).parent
    return '' if ':' in target else str(start / target)


def _page_of(app: Sphinx, path: Path) -> str | None:
    """The page that a file is, or is shown by."""
    if path.parent == ROOT and INCLUDED.get(path.name) in app.env.found_docs:
        return INCLUDED[path.name]
    if path.is_relative_to(app.srcdir) and path.suffix == '.md':
        name = path.relative_to(app.srcdir).with_suffix('').as_posix()
        return name if name in app.env.found_docs else None
    return None


def _to_page(docname: str, page: str, anchor: str,
             link: nodes.Element) -> addnodes.pending_xref:
    """A link to a page, as MyST itself makes them."""
    return addnodes.pending_xref(
        '', *link.children, refdomain='doc', reftype='myst',
        reftarget=page, reftargetid=anchor or None, refdoc=docname,
        refexplicit=link.get('refexplicit', True))


def _to_file(app: Sphinx, docname: str, path: Path,
             link: nodes.Element) -> nodes.reference:
    """A link to the page that shows a file or lists a folder."""
    name = path.relative_to(ROOT).as_posix()
    _shown(app).setdefault(name, set()).add(docname)
    return nodes.reference('', '', *link.children, internal=True,
                           refuri='', repository_file=name)


def resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the links their addresses, which depend on the builder."""
    for node in doctree.findall(nodes.reference):
        name = node.attributes.pop('repository_file', None)
        if name is not None:
            node['refuri'] = app.builder.get_relative_uri(
                docname, _page_name(name))


def pages(app: Sphinx) -> Iterator[tuple[str, dict, str]]:
    """A page for every file and folder that some page links to."""
    bridge = PygmentsBridge('html', app.builder.config.pygments_style)
    for name in sorted(_shown(app)):
        path = ROOT / name
        body = f'<h1>{escape(name)}</h1>\n' + (
            _listing(path) if path.is_dir() else _text(path, bridge))
        yield _page_name(name), dict(title=name, body=body), 'page.html'


def _text(path: Path, bridge: PygmentsBridge) -> str:
    if path.stat().st_size > LARGEST:
        return '<p>Too long to be shown here.</p>'
    return bridge.highlight_block(
        path.read_text(encoding='utf-8'), LEXERS.get(path.suffix, 'text'))


def _listing(path: Path) -> str:
    names = sorted(f'{entry.name}/' if entry.is_dir() else entry.name
                   for entry in path.iterdir()
                   if entry.name != '__pycache__')
    return '<ul>\n' + ''.join(
        f'<li><code>{escape(name)}</code></li>\n' for name in names) + '</ul>'


def _page_name(name: str) -> str:
    return f'files/{name}'


def _shown(app: Sphinx) -> dict[str, set[str]]:
    """Names of the files to show, with the pages that link to them."""
    if not hasattr(app.env, 'repository_files'):
        app.env.repository_files = {}
    return app.env.repository_files


def forget_page(app: Sphinx, env, docname: str) -> None:
    """Forget what a page linked to before it is read anew."""
    for name, linking in list(_shown(app).items()):
        linking.discard(docname)
        if not linking:
            del env.repository_files[name]


def setup(app: Sphinx) -> dict:
    app.connect('env-purge-doc', forget_page)
    app.connect('doctree-read', redirect_links, priority=1)
    app.connect('doctree-resolved', resolve_links)
    app.connect('html-collect-pages', pages)
    return dict(version='1', parallel_read_safe=False)
