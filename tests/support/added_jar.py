"""A jar for ADD JAR, with one class whose static methods SQL calls with `reflect`."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path


def words_jar(folder: Path, name: str) -> Path:
    """Return a jar with the class `shop.<name>`.

    Its method `shout` adds an exclamation mark; `pid` returns the id of the process that runs it.
    """
    source = folder / f"{name}.java"
    source.write_text(
        f"package shop; public final class {name} {{ public static String shout(String word) {{ "
        f'return word + "!"; }} '
        "public static String pid() { return String.valueOf(ProcessHandle.current().pid()); } }"
    )
    subprocess.run(
        ["javac", "--release", "17", "-d", folder / "classes", source], check=True, capture_output=True
    )
    jar = folder / f"{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(folder / "classes" / "shop" / f"{name}.class", f"shop/{name}.class")
    return jar
