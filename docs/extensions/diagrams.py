"""Mermaid diagrams of the pages, drawn when the site is made: the site loads no script for them."""

import hashlib

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
        return [nodes.raw("", f'<div class="diagram">{drawing}</div>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
