"""Errors for users, and checks of the values that users pass in."""

from ._errors import AgreedError as AgreedError
from ._errors import ArgumentError as ArgumentError
from ._errors import ConfigError as ConfigError
from ._errors import DamagedFileError as DamagedFileError
from ._errors import NoCheckpointError as NoCheckpointError
from ._errors import as_given as as_given
from ._errors import flag as flag
from ._errors import printable as printable
from ._errors import shortened as shortened
from ._values import check_actions as check_actions
from ._values import check_array as check_array
from ._values import check_key as check_key
from ._values import described as described
from ._values import difference as difference
from ._values import finite as finite
from ._values import first_line as first_line
from ._values import instance as instance
from ._values import is_key as is_key
from ._values import is_ours as is_ours
from ._values import number as number
from ._values import path_in_words as path_in_words
from ._values import place as place
from ._values import same_structure as same_structure
from ._values import summary as summary
from ._values import truth as truth
from ._values import whole as whole
