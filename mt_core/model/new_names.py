"""Checks of new names: catalogs use the names of tables, views, databases and functions as folder names.

No name may lead out of its catalog's folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid

_NO_FOLDER = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_new_name(name: Sequence[str]) -> None:
    """Raise DefinitionInvalid if a part of the full name *name* is not a valid folder name.

    Names of existing objects are not checked.
    """
    for part in name:
        if part in {".", ".."} or _NO_FOLDER.search(part):
            printable_name = "".join(
                each if each.isprintable() else ascii(each)[1:-1] for each in display_name(name)
            )
            raise DefinitionInvalid(
                f"{printable_name}: a new name must not contain a slash, a backslash or a control character, "
                "or be . or ..; choose another name.",
                name=printable_name,
            )
