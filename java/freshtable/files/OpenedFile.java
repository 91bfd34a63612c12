package freshtable.files;

import java.io.IOException;
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
 * A Parquet file of an Iceberg table, and the places of its rows that are deleted:
 * it takes them from Iceberg's index of deletes.
 */
public final class OpenedFile implements InputFile, LongConsumer {
  private static final Configuration CONFIGURATION = new Configuration();

  private final org.apache.iceberg.io.InputFile file;
  private final BitSet deleted = new BitSet();

  OpenedFile(org.apache.iceberg.io.InputFile file) {
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
    return file.location();
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
    return file.getLength();
  }

  @Override
  public SeekableInputStream newStream() {
    return new Stream(file.newStream());
  }

  /** Iceberg's stream as one of Parquet's. */
  private static final class Stream extends DelegatingSeekableInputStream {
    private final org.apache.iceberg.io.SeekableInputStream stream;

    Stream(org.apache.iceberg.io.SeekableInputStream stream) {
      super(stream);
      this.stream = stream;
    }

    @Override
    public long getPos() throws IOException {
      return stream.getPos();
    }

    @Override
    public void seek(long place) throws IOException {
      stream.seek(place);
    }
  }
}
