"""Precision: the dtypes a network computes in, loss scaling, and which arrays are trained."""

from ._parameters import NonTrainable as NonTrainable
from ._parameters import accumulate_in_float32 as accumulate_in_float32
from ._parameters import parameter_paths as parameter_paths
from ._parameters import parameters_of as parameters_of
from ._parameters import parse_parts as parse_parts
from ._parameters import parse_policy as parse_policy
from ._parameters import path_name as path_name
from ._parameters import split_trainable as split_trainable
from ._policy import FLOAT32 as FLOAT32
from ._policy import LossScale as LossScale
from ._policy import MixedPrecision as MixedPrecision
from ._policy import PrecisionPolicy as PrecisionPolicy
from ._policy import equations as equations
from ._policy import precision as precision
from ._policy import products as products
from ._policy import weights_in_products as weights_in_products
