from ._contract import contract as contract
from ._formats import FORMATS as FORMATS
from ._json import as_json as as_json
from ._onnx import as_onnx as as_onnx
from ._stablehlo import as_stablehlo as as_stablehlo
from ._stablehlo import read_stablehlo as read_stablehlo
from ._write import export_agent as export_agent
