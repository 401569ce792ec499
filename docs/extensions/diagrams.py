"""Mermaid diagrams of the pages, drawn when the site is made: the site loads no script for them."""

import hashlib
import re

import mmdr
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Mermaid(SphinxDirective):
    """A fence of `mermaid`, as an SVG in the page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The drawing. Several of them stand in one page, so each has an id of its own."""
        source = "\n".join(self.content)
        name = "diagram-" + hashlib.sha256(source.encode()).hexdigest()[:8]
        drawing = mmdr.render(source).svg().replace("merman", name)
        drawing = re.sub(r"max-width:([\d.]+)px", _readable, drawing, count=1)
        return [nodes.raw("", f'<div class="diagram">{drawing}</div>', format="html")]


def _readable(width: re.Match[str]) -> str:
    """On a narrow screen a wide diagram scrolls: its text, of 14 px, stays above 11 px."""
    return f"{width[0]};min-width:{0.8 * float(width[1]):.0f}px"


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
