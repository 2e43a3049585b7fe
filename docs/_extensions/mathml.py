"""Write formulas as MathML, which browsers render by themselves: no script, no font, no network.

What the converter does not know, or is known to get wrong, is an error of the build.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# \\hat x_n comes out with the index below the letter; {\\hat x}_n comes out right.
SCRIPT_ON_ACCENT = re.compile(
    r"\\(bar|breve|check|ddot|dot|hat|overline|tilde|vec|widehat|widetilde)"
    r"\s*(\{[^{}]*\}|\\[a-zA-Z]+|\w)\s*[_^]"
)


def converted(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """Return the MathML of ``node``, or report an error and return its source."""
    source = node.astext()
    if SCRIPT_ON_ACCENT.search(source):
        logger.error("formula: put the accent and its letter in braces: %r", source, location=node)
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as error:
        logger.error("formula: %s in %r", error, source, location=node)
        return source


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(converted(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(converted(node, as_block=True) + "</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
