from ._launchers import KINDS as KINDS
from ._launchers import Launcher as Launcher
from ._launchers import make_launcher as make_launcher
