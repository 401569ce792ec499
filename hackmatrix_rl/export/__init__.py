"""An agent in a file that other programs play: StableHLO, JSON, or the original's weights."""

from ._contract import contract as contract
from ._json import as_json as as_json
from ._stablehlo import as_stablehlo as as_stablehlo
from ._write import FORMATS as FORMATS
from ._write import export_agent as export_agent
