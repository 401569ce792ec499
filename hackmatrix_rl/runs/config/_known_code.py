"""Remembers the custom code that the user has trained with, so that stored runs may import it.

A run stores no code, only names such as `my_module:factory`, and may come from anybody. The state
folder of this machine remembers what the user trains with: the setting with its text, and the files
that importing the module runs, with their SHA-256 sums. A stored run may import the same text and
the same files without `--trust-code`. No file of a run adds to this memory.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hackmatrix_rl.agent import networks
from hackmatrix_rl.system import read_bounded, read_state, write_state
from hackmatrix_rl.system.errors import DamagedFileError


@dataclass(frozen=True)
class Code:
    """A setting that names code.

    Attributes:
        setting: its name, such as `network`.
        text: its value, such as `my_module:factory`.
        module: the module that is imported.
        from_here: whether Python looks for the module in the working directory first.
    """

    setting: str
    text: str
    module: str
    from_here: bool = True

    def look(self) -> Literal["known", "changed", "new"]:
        """Whether the user has trained with these files here, or with other versions of them.

        Nothing is imported.
        """
        content = self._content()
        if content is None:
            return "new"
        stored = read_state(_name_of(content))
        if stored is None:
            return "new"
        return "known" if stored == content else "changed"

    def remember(self) -> bool:
        """Remembers the code; returns whether it is now known."""
        if (content := self._content()) is None:
            return False
        return read_state(_name_of(content)) == content or write_state(_name_of(content), content)

    def _content(self) -> dict[str, Any] | None:
        """The entry to store; `None` if there are no such files."""
        files = networks.module_files(self.module, from_here=self.from_here)
        try:
            sums = {file: hashlib.sha256(read_bounded(file)).hexdigest() for file in files}
        except (FileNotFoundError, DamagedFileError):
            return None
        return {"setting": self.setting, "text": self.text, "files": sums} if sums else None


def _name_of(content: Mapping[str, Any]) -> str:
    """The file of an entry. Each has a separate one, so concurrent writes lose none."""
    named = [content["setting"], content["text"], sorted(content["files"])]
    return f"code-{hashlib.sha256(json.dumps(named).encode()).hexdigest()}.json"
