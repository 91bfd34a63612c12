"""Local files: the file system of the driver for them, which sets the mode of a new file itself.

Hadoop's own starts the program chmod for each file, and again for the file's checksum, unless it
has its native library. A commit to a table writes several files, so this took longer than all the
rest of a small commit.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import static_member

IMPLEMENTATION = "fs.file.impl"
CLASS = "freshtable.LocalFiles"
# Spark compiles its own generated code with the same compiler.
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_SOURCE = """
package freshtable;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        private static final LinkOption[] FOLLOW = new LinkOption[0];

        public void setPermission(Path path, FsPermission permission) throws IOException {
            File file = pathToFile(path);
            int mode = permission.toShort();
            if (file.isDirectory()) {
                // As chmod: a folder keeps the bits that say whose its files are.
                mode |= ((Integer) Files.getAttribute(file.toPath(), "unix:mode", FOLLOW)).intValue() & 06000;
            }
            Files.setAttribute(file.toPath(), "unix:mode", mode, FOLLOW);
        }
    }
}
"""


def use_local_files(session: SparkSession) -> None:
    """Let this JVM read and write local files through our file system, unless the configuration
    names another one.

    Harmless when called twice, and while Spark works. Executors in processes of their own keep Hadoop's.
    """
    configured: Any = session.sparkContext._jsc.hadoopConfiguration()
    if configured.get(IMPLEMENTATION) is not None:
        return
    compiler = static_member(session, _COMPILER)()
    compiler.cook(_SOURCE)
    ours = static_member(session, "org.apache.hadoop.conf.Configuration")(configured)
    ours.setClassLoader(compiler.getClassLoader())
    ours.set(IMPLEMENTATION, CLASS)
    # Hadoop keeps one file system for all local files, the first that is asked for,
    # whatever later configurations name.
    local = static_member(session, "java.net.URI.create")("file:///")
    file_system = static_member(session, "org.apache.hadoop.fs.FileSystem.get")
    while str((present := file_system(local, ours)).getClass().getName()) != CLASS:
        # Hadoop forgets a file system that is closed; whoever holds it can go on working with it.
        present.close()
