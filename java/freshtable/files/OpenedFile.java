package freshtable.files;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.util.BitSet;
import java.util.function.LongConsumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.io.DelegatingSeekableInputStream;
import org.apache.parquet.io.InputFile;
import org.apache.parquet.io.SeekableInputStream;

/**
 * A Parquet file of an Iceberg table, and the places of its rows that are deleted: it takes them from Iceberg's index of deletes.
 *
 * <p>The file is one of Iceberg's InputFile, whose classes are not there when this is compiled.
 */
public final class OpenedFile implements InputFile, LongConsumer {
  private static final Configuration CONFIGURATION = new Configuration();

  private final Object file;
  private final BitSet deleted = new BitSet();

  public OpenedFile(Object file) {
    this.file = file;
  }

  /** Takes the place of a row that is deleted. */
  @Override
  public void accept(long place) {
    deleted.set(Math.toIntExact(place));
  }

  boolean isDeleted(long place) {
    return !deleted.isEmpty() && deleted.get(Math.toIntExact(place));
  }

  /** Returns where the file is: no other file of a table was ever there. */
  String location() {
    return (String) called(file, "org.apache.iceberg.io.InputFile", "location");
  }

  /** Returns options to read the file by; a caller adds the rows that it does not need. */
  static ParquetReadOptions.Builder options() {
    return HadoopReadOptions.builder(CONFIGURATION).useDictionaryFilter(false);
  }

  ParquetMetadata footer(ParquetReadOptions options) throws IOException {
    try (SeekableInputStream stream = newStream()) {
      return ParquetFileReader.readFooter(this, options, stream);
    }
  }

  ParquetFileReader reader(ParquetMetadata footer, ParquetReadOptions options) throws IOException {
    SeekableInputStream stream = newStream();
    try {
      return ParquetFileReader.open(this, footer, options, stream);
    } catch (IOException | RuntimeException cause) {
      stream.close();
      throw cause;
    }
  }

  @Override
  public long getLength() {
    return (Long) called(file, "org.apache.iceberg.io.InputFile", "getLength");
  }

  @Override
  public SeekableInputStream newStream() {
    InputStream stream = (InputStream) called(file, "org.apache.iceberg.io.InputFile", "newStream");
    return new Stream(stream);
  }

  /** Calls a method of one of Iceberg's types, which has no parameters. */
  static Object called(Object target, String type, String name) {
    return called(target, type, name, new Class<?>[0]);
  }

  /** Calls a method of one of Iceberg's types with parameters of the given ones. */
  static Object called(Object target, String type, String name, Class<?>[] parameters, Object... arguments) {
    try {
      return typeOf(target, type).getMethod(name, parameters).invoke(target, arguments);
    } catch (InvocationTargetException cause) {
      throw new UncheckedIOException(new IOException(cause.getCause()));
    } catch (ReflectiveOperationException cause) {
      throw new IllegalStateException(cause);
    }
  }

  /** Returns one of Iceberg's types by its name, which is loaded as the class of an object is. */
  static Class<?> typeOf(Object target, String name) throws ClassNotFoundException {
    return target.getClass().getClassLoader().loadClass(name);
  }

  /** Iceberg's stream as one of Parquet's. */
  private static final class Stream extends DelegatingSeekableInputStream {
    private static final String TYPE = "org.apache.iceberg.io.SeekableInputStream";
    private final InputStream stream;

    Stream(InputStream stream) {
      super(stream);
      this.stream = stream;
    }

    @Override
    public long getPos() {
      return (Long) called(stream, TYPE, "getPos");
    }

    @Override
    public void seek(long place) {
      called(stream, TYPE, "seek", new Class<?>[] {long.class}, place);
    }
  }
}
