"""Executes the notebooks of this folder in place, and stores their outputs.

python execute.py [NAME.ipynb ...]
"""

import json
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
MOST_BYTES = 700_000
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> None:
    """Executes one notebook and writes it with its outputs.

    Raises:
        ValueError: an output does not belong into a stored notebook.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            notebook,
            timeout=1200,  # seconds for one cell
            resources=resources,
            record_timing=False,
            coalesce_streams=True,
        )
        client.execute()
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if "metadata" in output:
            output.metadata = {}
    text = nbformat.writes(notebook)
    if found := trouble(notebook, text):
        raise ValueError(f"{path.name}: {found}")
    path.write_text(text + "\n", encoding="utf-8")


def trouble(notebook: nbformat.NotebookNode, text: str) -> str | None:
    """What does not belong into a stored notebook; `None` if all is well."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error" or output.get("name") == "stderr":
                return f"a cell prints an error or a warning: {json.dumps(output)[:500]}"
    if place := re.search(r"/(?:home|root|tmp|work|Users)/[\w.]+", text):
        return f"an output names a path of this machine: {place[0]}"
    if len(text.encode()) > MOST_BYTES:
        return f"it has {len(text.encode()):,} bytes, more than {MOST_BYTES:,}"
    return None


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(HERE.glob("*.ipynb")):
        print(path.name, flush=True)
        execute(path)
