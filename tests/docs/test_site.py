# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The site that ``make docs`` makes, and how its links are made."""
import importlib
import io
import os
import pkgutil
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import qbheat_mm

pytest.importorskip('furo')
pytest.importorskip('myst_parser')
application = pytest.importorskip('sphinx.application')
docutils = pytest.importorskip('sphinx.util.docutils')
soup = pytest.importorskip('bs4')

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / 'docs'


def build(source, out, **settings):
    """Build a site; give its warnings."""
    warnings = io.StringIO()
    with docutils.patch_docutils(DOCS), docutils.docutils_namespace():
        application.Sphinx(
            source, DOCS, out, out / '.doctrees', 'html', status=None,
            warning=warnings, confoverrides=settings, freshenv=True).build()
    return warnings.getvalue()


# A page that links, beside the repository's files


@pytest.fixture
def page(tmp_path):
    """Build a site of one page; give the page and the warnings."""

    def write(text):
        source, out = tmp_path / 'docs', tmp_path / 'out'
        source.mkdir()
        root = os.path.relpath(ROOT, source)
        (source / 'index.md').write_text(
            f'# Page\n\n{text.replace("ROOT", root)}\n')
        warnings = build(source, out, html_static_path=[], html_css_files=[])
        html = (out / 'index.html').read_text()
        return soup.BeautifulSoup(html, 'html.parser').article, warnings

    return write


def test_a_link_to_a_file_shows_the_file(page, tmp_path):
    article, warnings = page('[it](ROOT/tools/dist_train.sh)')
    assert warnings == ''
    link, = [a for a in article.find_all('a') if a.text == 'it']
    assert link['href'] == 'files/tools/dist_train.sh.html'
    shown = (tmp_path / 'out' / link['href']).read_text()
    assert 'launch.sh' in shown and 'class="highlight"' in shown


def test_a_link_to_a_folder_lists_it(page, tmp_path):
    article, warnings = page('[all](ROOT/configs/qbheat/)')
    assert warnings == ''
    link, = [a for a in article.find_all('a') if a.text == 'all']
    shown = (tmp_path / 'out' / link['href']).read_text()
    assert 'ablation/' in shown and 'metafile.yml' in shown


@pytest.mark.parametrize('target', [
    'ROOT/tools/gone.py', 'gone.md', '#gone', 'index.md#gone',
    'ROOT/../gone.md',
])
def test_a_link_that_leads_nowhere_is_a_warning(page, target):
    _, warnings = page(f'[it]({target})')
    assert 'WARNING' in warnings and 'gone' in warnings


def test_formulas_need_no_script(page):
    article, warnings = page('```{math}\ne^{Ax} = P\n```')
    assert warnings == '' and article.find('math') is not None
    assert 'mathjax' not in str(article.find_parent('html'))


# The whole


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    pytest.importorskip('mmcv.ops')
    out = tmp_path_factory.mktemp('site')
    warnings = build(DOCS, out)
    assert warnings == ''
    return {path.relative_to(out).as_posix():
            soup.BeautifulSoup(path.read_text(), 'html.parser')
            for path in out.rglob('*.html')}


def test_every_link_leads_somewhere(site):
    anchors = {name: {tag['id'] for tag in html.find_all(id=True)}
               for name, html in site.items()}
    for name, html in site.items():
        for link in html.find_all('a', href=True):
            parts = urlsplit(link['href'])
            if parts.scheme or link['href'] == '#':
                continue
            path = (Path('/') / name).parent / unquote(parts.path)
            target = str(Path(*path.resolve().parts[1:])) if (
                parts.path) else name
            if target not in site:
                assert target.startswith(('_downloads/', '_sources/')), (
                    name, link)
            elif parts.fragment:
                assert unquote(parts.fragment) in anchors[target], (
                    name, link)


def test_nothing_is_fetched_when_a_page_is_read(site):
    for name, html in site.items():
        for tag in html.find_all(['script', 'link', 'img', 'source',
                                  'iframe']):
            address = tag.get('src') or tag.get('href') or ''
            assert not re.match(r'(https?:)?//', address), (name, tag)


def packages():
    names = [module.name for module in pkgutil.walk_packages(
        qbheat_mm.__path__, 'qbheat_mm.') if module.ispkg]
    for name in names:
        yield name, getattr(importlib.import_module(name), '__all__', ())


def test_the_reference_has_every_public_name(site):
    shown = {tag['id'].rpartition('.')[2]
             for name, html in site.items() if name.startswith('api/')
             for tag in html.find_all('dt', id=True)}
    public = {member for _, members in packages() for member in members}
    assert len(public) > 80
    missing = public - shown
    # Constants have no docstring, so that Sphinx leaves them out.
    assert not {name for name in missing if not name.isupper()}
