"""Imitation: a student learns from a teacher, by the gradient steps of PPO."""

from hackmatrix_rl.env import BoardSymmetries as BoardSymmetries

from ._config import ImitationConfig as ImitationConfig
from ._demonstrations import Demonstrations as Demonstrations
from ._demonstrations import DemonstrationsHeader as DemonstrationsHeader
from ._demonstrations import DemonstrationsWriter as DemonstrationsWriter
from ._demonstrations import StoredDemonstrations as StoredDemonstrations
from ._demonstrations import read_demonstrations as read_demonstrations
from ._imitation import Imitation as Imitation
from ._loss import CloneLoss as CloneLoss
from ._recording import record_demonstrations as record_demonstrations
