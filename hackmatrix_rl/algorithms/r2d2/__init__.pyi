from ._acting import EpsilonGreedy as EpsilonGreedy
from ._buffer import Prioritized as Prioritized
from ._buffer import Sampling as Sampling
from ._buffer import Uniform as Uniform
from ._config import R2D2Config as R2D2Config
from ._play_ahead import play_ahead as play_ahead
from ._q_values import SquareRootScale as SquareRootScale
from ._r2d2 import R2D2 as R2D2
