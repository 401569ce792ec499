"""The schedules of `hackmatrix_rl.agent` as names of this package: optimizers take them too."""

from hackmatrix_rl.agent import Constant as Constant
from hackmatrix_rl.agent import Cosine as Cosine
from hackmatrix_rl.agent import Linear as Linear
from hackmatrix_rl.agent import Schedule as Schedule
