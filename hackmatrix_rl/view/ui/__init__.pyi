from ._clique_table import CliqueTable as CliqueTable
from ._games import Games as Games
from ._port import PORT as PORT
from ._serve import serve as serve
from ._served import Served as Served
from ._table import Table as Table
