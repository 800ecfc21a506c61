# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Settings of the site: ``make docs``.

Nothing is fetched when it is built or read: neither inventories of other
projects nor fonts or scripts. Every warning stops the build.
"""
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / '_extensions')]

from qbheat_mm.version import __version__  # noqa: E402

project = 'qbheat_mm'
author = 'the authors of QB-Heat MM'
copyright = 'QB-Heat MM authors'  # noqa: A001
version = release = __version__
language = 'en'

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'sphinx_copybutton',
    'sphinx_design',
    'mathml',
    'repository_links',
]
exclude_patterns = ['_build', '_extensions']

# Markdown as the git host reads it: headings are named after their text.
myst_heading_anchors = 4
myst_enable_extensions = ['colon_fence', 'html_image']

# The reference: what a package's ``__all__`` names, as its docstrings say.
autodoc_default_options = {'members': True, 'show-inheritance': True}
autodoc_member_order = 'bysource'
autodoc_typehints = 'signature'
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

# Public names of this package must be found; those of others are text.
nitpicky = True
nitpick_ignore_regex = [('py:.*', r'(?!qbheat_mm).*'),
                        ('py:class', r'qbheat_mm\..*\._\w+')]

html_theme = 'furo'
html_math_renderer = 'mathml'
html_title = f'qbheat_mm {release}'
html_static_path = ['_static']
html_css_files = ['site.css']
html_show_sphinx = False
html_copy_source = False
