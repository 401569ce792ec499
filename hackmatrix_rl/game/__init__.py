"""The rules of HackMatrix: pure functions of the state of one game."""

from hackmatrix_rl.game._action_names import (
    Action,
)
from hackmatrix_rl.game._actions import (
    FIRST_PROGRAM,
    NUM_ACTIONS,
    SIPHON,
    allowed,
    legal_actions,
)
from hackmatrix_rl.game._arrays import (
    from_arrays,
    to_arrays,
)
from hackmatrix_rl.game._board import (
    NUM_CELLS,
    NUM_DIRECTIONS,
    SIZE,
    STEPS,
    CellSet,
    Direction,
    col_of,
    distance,
    flood,
    line_of_sight,
    rays,
    row_and_column,
    row_of,
)
from hackmatrix_rl.game._config import (
    LEAGUES,
    GameConfig,
    League,
)
from hackmatrix_rl.game._history import (
    Past,
    empty_history,
    forget,
    recall,
)
from hackmatrix_rl.game._play import (
    Outcome,
    act,
    attempt,
    play,
    stage_chance,
)
from hackmatrix_rl.game._programs import (
    SPECS,
)
from hackmatrix_rl.game._reward_config import (
    RewardConfig,
)
from hackmatrix_rl.game._rewards import (
    KILL_REWARD,
    TERM_NAMES,
    Event,
    RewardTerms,
    reward_terms,
)
from hackmatrix_rl.game._rules import (
    RULES_VERSION,
)
from hackmatrix_rl.game._siphon import (
    crosses,
)
from hackmatrix_rl.game._stage import (
    FIRST_INTERVAL,
    blank_position,
    distinct_programs,
    new_game,
    set_up_if,
    set_up_stage,
)
from hackmatrix_rl.game._state import (
    ALL_PROGRAMS,
    ENEMY_HP,
    ENEMY_SPEED,
    LAST_STAGE,
    MAX_HP,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Board,
    Content,
    Enemies,
    EnemyType,
    History,
    Player,
    Position,
    Program,
    Slots,
    State,
    Transmissions,
    by_type,
    is_block,
)
from hackmatrix_rl.game._tactics import (
    UNREACHED,
    Yields,
    cell_yields,
    distances,
    siphon_yields,
    yields_of,
)
from hackmatrix_rl.game._validation import (
    COLUMNS,
)
from hackmatrix_rl.game._view import (
    View,
)

__all__ = [
    "ALL_PROGRAMS",
    "COLUMNS",
    "ENEMY_HP",
    "ENEMY_SPEED",
    "FIRST_INTERVAL",
    "FIRST_PROGRAM",
    "KILL_REWARD",
    "LAST_STAGE",
    "LEAGUES",
    "MAX_HP",
    "NUM_ACTIONS",
    "NUM_CELLS",
    "NUM_DIRECTIONS",
    "NUM_ENEMY_TYPES",
    "NUM_PROGRAMS",
    "RULES_VERSION",
    "SIPHON",
    "SIZE",
    "SPECS",
    "STEPS",
    "TERM_NAMES",
    "UNREACHED",
    "Action",
    "Board",
    "CellSet",
    "Content",
    "Direction",
    "Enemies",
    "EnemyType",
    "Event",
    "GameConfig",
    "History",
    "League",
    "Outcome",
    "Past",
    "Player",
    "Position",
    "Program",
    "RewardConfig",
    "RewardTerms",
    "Slots",
    "State",
    "Transmissions",
    "View",
    "Yields",
    "act",
    "allowed",
    "attempt",
    "blank_position",
    "by_type",
    "cell_yields",
    "col_of",
    "crosses",
    "distance",
    "distances",
    "distinct_programs",
    "empty_history",
    "flood",
    "forget",
    "from_arrays",
    "is_block",
    "legal_actions",
    "line_of_sight",
    "new_game",
    "play",
    "rays",
    "recall",
    "reward_terms",
    "row_and_column",
    "row_of",
    "set_up_if",
    "set_up_stage",
    "siphon_yields",
    "stage_chance",
    "to_arrays",
    "yields_of",
]
