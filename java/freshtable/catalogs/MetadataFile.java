package freshtable.catalogs;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.view.ViewMetadataParser;

/**
 * The metadata file of a table or view, which is read completely before Iceberg parses it.
 *
 * <p>A truncated file never becomes complete, so it is refused at the first read. Other failures, such as
 * those of a store or a checksum, may be temporary. Iceberg retries after 0.1 and 0.4 seconds, and the third
 * failure is final. If a thread reads a file successfully for the third time within seconds, it is parsed
 * here first, because Iceberg's retries after a parse error have this pattern.
 */
final class MetadataFile implements InputFile {
  private static final int READS = 3;
  private static final long TOGETHER = TimeUnit.SECONDS.toNanos(3);
  private static final ThreadLocal<Reads> READ = ThreadLocal.withInitial(Reads::new);

  private final InputFile file;

  MetadataFile(InputFile file) {
    this.file = file;
  }

  /** The reads of one file by one thread, in quick succession. */
  private static final class Reads {
    private String location = "";
    private long at;
    private int count;

    int next(String next) {
      long now = System.nanoTime();
      count = next.equals(location) && now - at < TOGETHER ? count + 1 : 1;
      location = next;
      at = now;
      return count;
    }
  }

  @Override
  public SeekableInputStream newStream() {
    int reads = READ.get().next(location());
    byte[] bytes;
    try (InputStream stream = file.newStream()) {
      bytes = stream.readAllBytes();
    } catch (NotFoundException cause) {
      throw cause;
    } catch (IOException | RuntimeException cause) {
      if (reads < READS) {
        throw cause instanceof RuntimeException failure
            ? failure : new UncheckedIOException((IOException) cause);
      }
      throw unreadable(cause.getMessage(), cause);
    }
    if (isCutOff(bytes)) {
      throw unreadable("it ends after " + bytes.length + " bytes, in the middle of its text", null);
    }
    if (reads >= READS) {
      check(bytes);
    }
    return new Bytes(bytes);
  }

  private void check(byte[] bytes) {
    InputFile held = new Held(bytes, location());
    try {
      TableMetadataParser.read(held);
    } catch (RuntimeException cause) {
      if (!isOfView(held)) {
        throw unreadable(cause.getMessage(), cause);
      }
    }
  }

  private static boolean isOfView(InputFile held) {
    try {
      ViewMetadataParser.read(held);
      return true;
    } catch (RuntimeException cause) {
      return false;
    }
  }

  /** Returns whether the text is truncated. Compressed files are not examined. */
  private static boolean isCutOff(byte[] bytes) {
    int last = bytes.length - 1;
    while (last >= 0 && (bytes[last] == '\n' || bytes[last] == '\r' || bytes[last] == ' ')) {
      last--;
    }
    return last < 0 || bytes[0] == '{' && bytes[last] != '}';
  }

  private NotFoundException unreadable(String reason, Throwable cause) {
    String text =
        "The metadata file %s of a table or view cannot be read: %s. Restore the file; or drop the table, "
        + "and create it again or"
            + " register it at an older metadata file of that folder";
    return new NotFoundException(cause, text, location(), reason);
  }

  @Override
  public long getLength() {
    return file.getLength();
  }

  @Override
  public String location() {
    return file.location();
  }

  @Override
  public boolean exists() {
    return file.exists();
  }

  /** A file in memory. */
  private record Held(byte[] bytes, String location) implements InputFile {
    @Override
    public long getLength() {
      return bytes.length;
    }

    @Override
    public SeekableInputStream newStream() {
      return new Bytes(bytes);
    }

    @Override
    public boolean exists() {
      return true;
    }
  }

  private static final class Bytes extends SeekableInputStream {
    private final byte[] bytes;
    private int position;

    Bytes(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public long getPos() {
      return position;
    }

    @Override
    public void seek(long newPosition) {
      position = Math.toIntExact(newPosition);
    }

    @Override
    public int read() {
      return position < bytes.length ? bytes[position++] & 0xff : -1;
    }

    @Override
    public int read(byte[] target, int offset, int length) {
      if (length == 0) {
        return 0;
      }
      int count = Math.min(length, bytes.length - position);
      if (count <= 0) {
        return -1;
      }
      System.arraycopy(bytes, position, target, offset, count);
      position += count;
      return count;
    }

    @Override
    public int available() {
      return Math.max(0, bytes.length - position);
    }
  }
}
