package freshtable.files;

import java.io.IOException;
import java.lang.ref.SoftReference;
import java.util.function.LongConsumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.io.DelegatingSeekableInputStream;
import org.apache.parquet.io.InputFile;
import org.apache.parquet.io.SeekableInputStream;
import org.roaringbitmap.RoaringBitmap;

/**
 * A Parquet file of an Iceberg table with its deleted positions, which Iceberg's delete index passes to it.
 */
final class OpenedFile implements InputFile, LongConsumer {
  private static final Configuration CONFIGURATION = new Configuration();

  private final org.apache.iceberg.io.InputFile file;
  private final Contents contents;

  /** What has been read of a file besides its rows. The JVM may reclaim the footer at any time. */
  static final class Contents {
    /** A bitmap of at most a few bytes for each deleted position, however long the file is. */
    private final RoaringBitmap deleted = new RoaringBitmap();
    private volatile SoftReference<ParquetMetadata> footer = new SoftReference<>(null);
  }

  OpenedFile(org.apache.iceberg.io.InputFile file) {
    this(file, new Contents());
  }

  /** Opens a file of which something has been read before. */
  OpenedFile(org.apache.iceberg.io.InputFile file, Contents contents) {
    this.file = file;
    this.contents = contents;
  }

  Contents contents() {
    return contents;
  }

  /** Adds the position of a deleted row. */
  @Override
  public void accept(long place) {
    contents.deleted.add(Math.toIntExact(place));
  }

  boolean isDeleted(long place) {
    return !contents.deleted.isEmpty() && contents.deleted.contains(Math.toIntExact(place));
  }

  /** Returns the deleted positions. */
  RoaringBitmap deleted() {
    return contents.deleted;
  }

  /** Returns the location of the file, which no other file of the table has ever had. */
  String location() {
    return file.location();
  }

  /** Returns the read options, to which callers add filters. */
  static ParquetReadOptions.Builder options() {
    return HadoopReadOptions.builder(CONFIGURATION).useDictionaryFilter(false);
  }

  ParquetMetadata footer() throws IOException {
    ParquetMetadata footer = contents.footer.get();
    if (footer == null) {
      try (SeekableInputStream stream = newStream()) {
        footer = ParquetFileReader.readFooter(this, options().build(), stream);
      }
      contents.footer = new SoftReference<>(footer);
    }
    return footer;
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

  /** Adapts Iceberg's stream to Parquet. */
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
