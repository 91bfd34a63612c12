"""Users' code: jars with functions, which are compiled here, and Python modules."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pyspark

_SPARK = Path(pyspark.__file__).parent / "jars"


def function_jar(folder: Path, jar: str, **classes: str) -> Path:
    """Return `jar` with classes of the package `shop`. Each class name maps to the Java text after it."""
    sources, compiled = folder / f"{jar}.src", folder / f"{jar}.classes"
    sources.mkdir()
    for name, text in classes.items():
        (sources / f"{name}.java").write_text(
            "package shop; import org.apache.spark.sql.*; import org.apache.spark.sql.api.java.*; "
            "import org.apache.spark.sql.expressions.*; import org.apache.spark.sql.types.*; "
            f"public class {name} {text}"
        )
    command = [
        "javac",
        "-nowarn",
        "--release",
        "17",
        "-cp",
        f"{_SPARK}/*",
        "-d",
        str(compiled),
        *map(str, sources.iterdir()),
    ]
    subprocess.run(command, check=True, capture_output=True)
    path = folder / jar
    with zipfile.ZipFile(path, "w") as archive:
        for file in compiled.rglob("*.class"):
            archive.write(file, file.relative_to(compiled).as_posix())
    return path


def greeting(word: str) -> dict[str, str]:
    """Return two classes: `Greet` calls `Words`, which returns *word*."""
    return {
        "Greet": (
            "implements UDF1<Integer, String> { public String call(Integer n) { return Words.word() + n; } }"
        ),
        "Words": f'{{ static String word() {{ return "{word}"; }} }}',
    }


LONGEST = """extends UserDefinedAggregateFunction {
    public StructType inputSchema() { return new StructType().add("a", "string"); }
    public StructType bufferSchema() { return new StructType().add("n", "int"); }
    public DataType dataType() { return DataTypes.IntegerType; }
    public boolean deterministic() { return true; }
    public void initialize(MutableAggregationBuffer b) { b.update(0, 0); }
    public void update(MutableAggregationBuffer b, Row r) {
        b.update(0, Math.max(b.getInt(0), r.getString(0).length()));
    }
    public void merge(MutableAggregationBuffer b, Row o) { b.update(0, Math.max(b.getInt(0), o.getInt(0))); }
    public Object evaluate(Row b) { return b.getInt(0); }
}"""

TOTAL = """extends Aggregator<Long, Long, String> {
    public Long zero() { return 0L; }
    public Long reduce(Long b, Long a) { return b + a; }
    public Long merge(Long b, Long o) { return b + o; }
    public String finish(Long b) { return "total " + b; }
    public Encoder<Long> bufferEncoder() { return Encoders.LONG(); }
    public Encoder<String> outputEncoder() { return Encoders.STRING(); }
}"""
OF_HIVE = "extends org.apache.hadoop.hive.ql.exec.UDF { public String evaluate(String a) { return a; } }"

PYTHON = """
from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import AnalyzeResult, arrow_udf, pandas_udf, udf, udtf
from pyspark.sql.types import IntegerType, StructType

FACTOR = {factor}


def helper(x):
    return x * FACTOR


def scaled(x: int) -> int:
    return helper(x)


def joined(x: float, end: str = "!", *more: str) -> list[str]:
    return [f"{{x}}{{end}}", *more]


def bare(x):
    return type(x).__name__


def failing(x: int) -> int:
    return {{}}[x]


def several(x: int) -> int:
    yield x


@udf("string")
def marked(x):
    return f"<{{x}}>"


@pandas_udf("bigint")
def doubled(x: pd.Series) -> pd.Series:
    return x * 2


@pandas_udf("bigint")
def counted(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for batch in batches:
        yield batch + 100


def plain_series(x: pd.Series) -> pd.Series:
    return x + 1


@arrow_udf("bigint")
def tripled(x: pa.Array) -> pa.Array:
    return pc.multiply(x, 3)


@pandas_udf("double")
def middle(x: pd.Series) -> float:
    return float(x.median())


@udtf(returnType="n: int, word: string")
class Letters:
    def eval(self, word: str):
        for n, letter in enumerate(word):
            yield n, letter


class Plain:
    def eval(self, n: int):
        for each in range(n):
            yield (each * FACTOR,)


class Named:
    @staticmethod
    def analyze(name) -> AnalyzeResult:
        return AnalyzeResult(StructType().add(name.value, IntegerType()))

    def eval(self, name: str):
        yield (FACTOR,)
"""


def module_archive(path: Path, word: str) -> Path:
    """Write an archive and return its path.

    Its module `shop.words` imports another module, once in each form of import.
    """
    modules = {
        "shop/__init__.py": "from .letters import END\n",
        "shop/letters.py": f"END = '{word}'\n",
        "shop/words.py": (
            "import shop.letters\nimport shop.letters as letters\nfrom shop import END\nfrom . import "
            "letters as own\n\n\ndef shout(text: str) -> str:\n    from shop.letters import END as late\n\n"
            "    assert {shop.letters.END, letters.END, own.END} == {late}\n    return text + END\n"
        ),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in modules.items():
            archive.writestr(name, text)
    return path
