"""`python -m hackmatrix_rl` is `hackmatrix-rl`."""

import os
import sys

# Python puts the working directory first: a folder that someone sent, with a `matplotlib.py` in
# it, would be run. This package's own folder is known by now.
try:
    here = ["", os.getcwd()]
except FileNotFoundError:  # it was removed; the command says so
    here = [""]
if not sys.flags.safe_path and sys.path[0] in here:
    del sys.path[0]

from hackmatrix_rl.cli import main

if __name__ == "__main__":
    main(prog_name="hackmatrix-rl")
