"""Code that users bring: jars with functions, compiled here."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pyspark

_SPARK = Path(pyspark.__file__).parent / "jars"


def function_jar(folder: Path, jar: str, **classes: str) -> Path:
    """Return `jar` with the classes of package `shop`, by their names the Java text of each body after the class's name."""
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
    """Return two classes: `Greet` calls `Words`, whose word is *word*."""
    return {
        "Greet": "implements UDF1<Integer, String> { public String call(Integer n) { return Words.word() + n; } }",
        "Words": f'{{ static String word() {{ return "{word}"; }} }}',
    }


LONGEST = """extends UserDefinedAggregateFunction {
    public StructType inputSchema() { return new StructType().add("a", "string"); }
    public StructType bufferSchema() { return new StructType().add("n", "int"); }
    public DataType dataType() { return DataTypes.IntegerType; }
    public boolean deterministic() { return true; }
    public void initialize(MutableAggregationBuffer b) { b.update(0, 0); }
    public void update(MutableAggregationBuffer b, Row r) { b.update(0, Math.max(b.getInt(0), r.getString(0).length())); }
    public void merge(MutableAggregationBuffer b, Row o) { b.update(0, Math.max(b.getInt(0), o.getInt(0))); }
    public Object evaluate(Row b) { return b.getInt(0); }
}"""
