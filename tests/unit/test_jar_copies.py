from __future__ import annotations

from pathlib import Path

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.spark.files.jar_copies import JarCopies


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "jars"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    jar = tmp_path / "a b.jar"
    jar.write_bytes(b"first")
    return jar


def copies(folder: Path) -> list[bytes]:
    return sorted(each.read_bytes() for each in folder.iterdir() if each.is_file())


def test_a_copy_stays_as_it_is_when_its_jar_is_replaced(folder: Path, jar: Path) -> None:
    jars = JarCopies(folder)

    first = jars.add(str(jar))
    jar.write_bytes(b"second")
    second = jars.add(jar.as_uri())
    again = jars.add(str(jar))

    assert (Path(first).read_bytes(), Path(second).read_bytes(), again) == (b"first", b"second", second)
    assert copies(folder) == [b"first", b"second"]


def test_a_copy_is_removed_when_no_job_needs_it_and_no_session_of_the_process_has_it(
    folder: Path, jar: Path
) -> None:
    before = JarCopies(folder)
    copy = before.add(str(jar))
    before.keep([copy], "one")
    before.keep([copy], "other")

    jars = JarCopies(folder)
    jars.begin({})
    jars.forget([copy], "one")
    kept = copies(folder)
    jars.forget([copy], "other")

    assert (kept, list(folder.iterdir())) == ([b"first"], [])


def test_a_copy_that_came_back_from_another_home_stays_while_a_job_needs_it(folder: Path, jar: Path) -> None:
    copy = Path(JarCopies(folder).add(str(jar)))
    content = copy.read_bytes()
    copy.unlink()
    JarCopies(folder).begin({"one": [str(copy)]})

    copy.write_bytes(content)
    JarCopies(folder).begin({"one": [str(copy)]})
    kept = copies(folder)
    JarCopies(folder).forget([str(copy)], "one")

    assert (kept, list(folder.iterdir())) == ([b"first"], [])


def test_a_copy_that_a_session_has_stays_until_the_next_process_begins(folder: Path, jar: Path) -> None:
    jars = JarCopies(folder)
    copy = jars.add(str(jar))
    jars.keep([copy], "one")
    jars.forget([copy], "one")
    kept = copies(folder)

    JarCopies(folder).begin({})

    assert (kept, list(folder.iterdir())) == ([b"first"], [])


def test_a_remote_jar_is_fetched_and_kept_like_a_local_one(folder: Path) -> None:
    jars = JarCopies(folder)

    def fetch(uri: str, target: Path) -> bool:
        target.write_bytes(uri.encode())
        return True

    copy = Path(jars.add("s3://bucket/a.jar", fetch))
    loaded_by_spark = jars.add("ivy://org:name:1.0", lambda _uri, _target: False)
    jars.keep([str(copy)], "one")
    JarCopies(folder).begin({})
    kept = copy.read_bytes()
    JarCopies(folder).forget([str(copy)], "one")

    assert (kept, loaded_by_spark) == (b"s3://bucket/a.jar", "ivy://org:name:1.0")
    assert list(folder.iterdir()) == []


def test_nothing_is_left_of_a_jar_that_cannot_be_fetched(folder: Path) -> None:
    def fetch(uri: str, target: Path) -> bool:
        target.write_bytes(b"the first half")
        raise DefinitionInvalid(f"{uri} cannot be read.")

    with pytest.raises(DefinitionInvalid):
        JarCopies(folder).add("s3://bucket/a.jar", fetch)

    assert list(folder.iterdir()) == []


def test_what_is_not_local_is_its_own_copy(folder: Path, jar: Path) -> None:
    jars = JarCopies(folder)
    jars.keep(["hdfs://host/a.jar", str(jar)], "one")
    jars.forget(["hdfs://host/a.jar", str(jar)], "one")
    jars.begin({})

    assert jars.add("hdfs://host/a.jar") == "hdfs://host/a.jar"
    assert JarCopies().add(str(jar)) == str(jar)
    assert (jar.read_bytes(), folder.exists()) == (b"first", False)
