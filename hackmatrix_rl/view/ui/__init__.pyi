from ._clique_table import CliqueTable as CliqueTable
from ._port import PORT as PORT
from ._serve import serve as serve
from ._table import Table as Table
