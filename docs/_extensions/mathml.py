# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Formulas as MathML, which browsers draw themselves.

Sphinx's own way loads a script from a network when a page is read. Docutils
translates; this tells Sphinx to ask it.
"""
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(translator, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(translator, node: nodes.math_block) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer('mathml', (inline, None), (block, None))
    return dict(version='1', parallel_read_safe=True)
