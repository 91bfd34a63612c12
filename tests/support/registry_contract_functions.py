"""The contract of registries about functions."""

from __future__ import annotations

from dataclasses import replace

from mt_core.model.function import (
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionLanguage,
    PythonDeclaration,
    PythonForm,
    PythonParameter,
)
from mt_core.tables.registry import Registry


class FunctionsContract:
    """The contract for created functions."""

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

    def test_what_a_module_declares_is_found_as_it_was_put(self, registry: Registry) -> None:
        parameter = PythonParameter(name="x", kind="KEYWORD_ONLY", type="BIGINT", has_default=True)
        declared = PythonDeclaration(
            python="3.11", form=PythonForm.VALUE, name="score", returns="BIGINT", parameters=(parameter,)
        )
        score = CreatedFunction(
            name="score",
            language=FunctionLanguage.PYTHON,
            body="scores.score",
            returns="BIGINT",
            declared=declared,
        )
        rows = replace(
            score, name="rows", declared=PythonDeclaration(python="3.11", form=PythonForm.ROWS, name="Rows")
        )
        with registry.transaction() as transaction:
            transaction.functions.put(score)
            transaction.functions.put(rows)

        with registry.transaction() as transaction:
            assert transaction.functions.all() == [rows, score]
