"""What every registry does with functions."""

from __future__ import annotations

from dataclasses import replace

from mt_core.model.function import CreatedFunction, FileKind, FunctionFile, FunctionLanguage
from mt_core.tables.registry import Registry


class FunctionsContract:
    """What a registry does with created functions."""

    def test_functions_are_found_as_they_were_put_until_they_are_deleted(self, registry: Registry) -> None:
        plus = CreatedFunction(
            name="plus", language=FunctionLanguage.SQL, body="x + 1", parameters="x INT", returns="INT"
        )
        jar = FunctionFile(kind=FileKind.JAR, uri="/opt/\u00fc'.jar", content="ab12")
        mask = CreatedFunction(
            name="mask",
            language=FunctionLanguage.JAVA,
            body="shop.Mask",
            deterministic=True,
            files=(jar,),
            catalog="lake",
            namespace=("a", "b.c"),
        )
        with registry.transaction() as transaction:
            transaction.functions.put(plus)
            transaction.functions.put(replace(mask, body="shop.Old"))
            transaction.functions.put(mask)

        with registry.transaction() as transaction:
            found = transaction.functions.all()
            transaction.functions.delete("plus")

        assert found == [mask, plus]
        with registry.transaction() as transaction:
            assert transaction.functions.all() == [mask]
