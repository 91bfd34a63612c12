"""The build of the package: what it requires, and that it needs nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mt_core.spark.driver.operator_jar import NAME, compile_jar

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
ASKED = """
import json, sys
import build_backend as build

hooks = build.get_requires_for_build_wheel, build.get_requires_for_build_sdist
loaded = [name for name in ("pyspark", "typer", "httpx") if name in sys.modules]
print(json.dumps([*(hook({}) for hook in hooks), loaded]))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the backend reads, with the sources of one class."""
    for folder in ("mt_core/base", "mt_core/spark/driver", "java/stubs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("__init__.py", "errors.py", "spark/__init__.py"):
        shutil.copy(ROOT / "mt_core" / file, tmp_path / "mt_core" / file)
    for file in ("java/build_backend.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "java" / "freshtable").mkdir()
    (tmp_path / "java" / "freshtable" / "Simple.java").write_text("package freshtable; class Simple { }")
    return tmp_path


def requirements(checkout: Path, **environ: str) -> list[list[str]]:
    """Return what the builds of a wheel and an sdist require, and the dependencies that the backend loads."""
    paths = {"PYTHONPATH": os.pathsep.join([str(checkout / "java"), str(checkout)])}
    asked = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=checkout,
        env=os.environ | paths | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    return list(json.loads(asked.stdout))


def test_a_build_requires_pyspark_only_if_it_compiles(checkout: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pyspark = [each for each in project["optional-dependencies"]["gateway"] if each.startswith("pyspark")]
    sources, jar = checkout / "java" / "freshtable", checkout / "mt_core" / "spark" / NAME
    no_jdk = {"JAVA_HOME": str(checkout)}

    missing, client = requirements(checkout), requirements(checkout, **no_jdk)
    compile_jar(os.environ, jar, sources)
    current = requirements(checkout)
    (sources / "Simple.java").write_text("package freshtable; class Simple { int one; }")
    outdated, outdated_client = requirements(checkout), requirements(checkout, **no_jdk)

    assert len(pyspark) == 1
    assert missing == outdated == [pyspark, pyspark, []]
    assert current == client == outdated_client == [[], [], []]
