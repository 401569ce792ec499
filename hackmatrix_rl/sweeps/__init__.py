"""Sweeps: Optuna chooses settings, and each trial is a run that any machine can go on with."""

from ._page import report_of_sweep as report_of_sweep
from ._space import Space as Space
from ._space import in_words as in_words
from ._space import space_here as space_here
from ._study import SAMPLERS as SAMPLERS
from ._study import Sweep as Sweep
from ._study import Trial as Trial
from ._study import check_folder as check_folder
from ._study import is_sweep as is_sweep
from ._study import open_sweep as open_sweep
from ._study import require_optuna as require_optuna
from ._work import Trained as Trained
from ._work import work as work
