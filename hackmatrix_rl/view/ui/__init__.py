"""The game in a browser: a server on this machine, for one person."""

from ._serve import PORT as PORT
from ._serve import serve as serve
