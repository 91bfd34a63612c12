"""The driver's file system for local files, which sets file modes without a child process.

Without its native library, Hadoop's local file system runs `chmod` for each new file, and again for the
file's checksum. A commit writes several files, so these processes would take longer than the rest of a
small commit.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import static_member

IMPLEMENTATION = "fs.file.impl"
CLASS = "freshtable.LocalFiles"
# The compiler that Spark uses for its generated code.
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
                // Like chmod, preserve the setuid and setgid bits of a folder.
                mode |= ((Integer) Files.getAttribute(file.toPath(), "unix:mode", FOLLOW)).intValue() & 06000;
            }
            Files.setAttribute(file.toPath(), "unix:mode", mode, FOLLOW);
        }
    }
}
"""


def use_local_files(session: SparkSession) -> None:
    """Make our class the JVM's file system for local files, unless the user has configured another one.

    May be called repeatedly, even while Spark is working. Executors in other processes still use Hadoop's
    class.
    """
    configured: Any = session.sparkContext._jsc.hadoopConfiguration()
    if configured.get(IMPLEMENTATION) is not None:
        return
    compiler = static_member(session, _COMPILER)()
    compiler.cook(_SOURCE)
    conf = static_member(session, "org.apache.hadoop.conf.Configuration")(configured)
    conf.setClassLoader(compiler.getClassLoader())
    conf.set(IMPLEMENTATION, CLASS)
    # Hadoop caches the first file system created for file:// and ignores later configurations.
    local = static_member(session, "java.net.URI.create")("file:///")
    file_system = static_member(session, "org.apache.hadoop.fs.FileSystem.get")
    while str((cached := file_system(local, conf)).getClass().getName()) != CLASS:
        # Closing removes it from Hadoop's cache. Code that has a reference to it can still use it.
        cached.close()
