"""How Sphinx makes the documentation site: `nox -s docs`."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "hackmatrix-rl"
author = "the founders of hackmatrix-rl"
project_copyright = "the founders of hackmatrix-rl; Apache-2.0"
version = release = importlib.metadata.version("hackmatrix_rl")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    "commands",
    "diagrams",
    "reference",
]
# The pages are those of the repository, so that they are read there as well.
root_doc = "docs/index"
include_patterns = [
    *("docs/**.md", "benchmarks/*.md", "examples/README.md", "notebooks/*.md", "notebooks/*.ipynb"),
    *("CHANGELOG.md", "CONTRIBUTING.md"),
]
nb_execution_mode = "off"  # notebooks are stored with what they showed
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

smartquotes = False  # `--flag` has two hyphens
# Names between backticks in docstrings link to their description, where there is one.
default_role = "py:obj"
autoclass_content = "both"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_attr_annotations = False  # the constructor shows the types
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "hackmatrix-rl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["root"]
