package freshtable.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.io.FileIO;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The deleted positions in position delete files. Each file is read once for all data files that it affects,
 * and small files, which are immutable, are cached for later lookups.
 */
final class DeletedPlaces {
  private static final StructType COLUMNS =
      new StructType().add("file_path", DataTypes.StringType).add("pos", DataTypes.LongType);
  /** Iceberg's field ids of the columns in a position delete file. */
  private static final int[] IDS = {Integer.MAX_VALUE - 101, Integer.MAX_VALUE - 102};
  /** The maximum number of positions in a file that is cached. */
  private static final int MOST_OF_FILE = 100_000;
  /** The size of the cache in positions of eight bytes each. The least recently used file is evicted. */
  private static final int MOST_KEPT = 1_000_000;
  /**
   * The overhead of a file, and of each data file in it, in positions. Files with few positions consist
   * mostly of this overhead.
   */
  private static final int EACH_FILE = 50;
  private static final long[] NONE = {};
  private static final Map<String, Map<UTF8String, long[]>> KEPT = new LinkedHashMap<>(16, 0.75f, true);
  private static int kept;

  private final FileIO io;
  private final Map<String, Applied> applied = new LinkedHashMap<>();

  /** A delete file, and the data files to which it applies, by location. */
  private record Applied(OpenedFile deletes, Map<UTF8String, OpenedFile> files) {}

  DeletedPlaces(FileIO io) {
    this.io = io;
  }

  /**
   * Adds the delete files that apply to a data file.
   *
   * <p>Returns false, and adds none of them, if one of them is not supported here.
   */
  boolean add(List<DeleteFile> deletes, String location, OpenedFile file) {
    for (DeleteFile each : deletes) {
      if (each.content() != FileContent.POSITION_DELETES || each.format() != FileFormat.PARQUET) {
        return false;
      }
    }
    for (DeleteFile each : deletes) {
      applied
          .computeIfAbsent(each.location(),
              place -> new Applied(new OpenedFile(io.newInputFile(each)), new HashMap<>()))
          .files()
          .put(UTF8String.fromString(location), file);
    }
    return true;
  }

  /** Passes the positions in the delete files to the data files. Returns false if one cannot be read here. */
  boolean give() {
    List<ReadingThreads.Reading<Map<UTF8String, long[]>>> works = new ArrayList<>();
    applied.values().forEach(each -> works.add(() -> places(each.deletes(), each.files())));
    List<Map<UTF8String, long[]>> all = ReadingThreads.all(works);
    if (all == null) {
      return false;
    }
    Iterator<Map<UTF8String, long[]>> places = all.iterator();
    applied.values().forEach(each -> give(places.next(), each.files()));
    return true;
  }

  private static void give(Map<UTF8String, long[]> places, Map<UTF8String, OpenedFile> files) {
    for (Map.Entry<UTF8String, OpenedFile> each : files.entrySet()) {
      for (long place : places.getOrDefault(each.getKey(), NONE)) {
        each.getValue().accept(place);
      }
    }
  }

  private static Map<UTF8String, long[]> places(OpenedFile deletes, Map<UTF8String, OpenedFile> files)
      throws IOException {
    Map<UTF8String, long[]> known = known(deletes.location());
    return known == null ? read(deletes, files) : known;
  }

  /**
   * Returns the positions in a delete file by data file location: of all data files, or only of the given
   * {@code files} if the delete file is large.
   */
  private static Map<UTF8String, long[]> read(OpenedFile deletes, Map<UTF8String, OpenedFile> files)
      throws IOException {
    ParquetMetadata footer = deletes.footer();
    MessageType schema = footer.getFileMetaData().getSchema();
    List<StoredColumn> stored = StoredColumn.all(schema, IDS, COLUMNS);
    if (stored == null) {
      return null;
    }
    Map<UTF8String, LongStream.Builder> found = new HashMap<>();
    try (ParquetFileReader reader = deletes.reader(footer, OpenedFile.options().build())) {
      reader.setRequestedSchema(ReadBatches.schema(schema, stored));
      boolean all = reader.getRecordCount() <= MOST_OF_FILE;
      try (ReadBatches batches = new ReadBatches(
          schema, stored, reader::readNextRowGroup, reader.getRecordCount())) {
        while (batches.next()) {
          for (int row = 0; row < batches.size(); row++) {
            UTF8String location = batches.column(0).getUTF8String(row);
            if (!all && !files.containsKey(location)) {
              continue;
            }
            LongStream.Builder places = found.get(location);
            if (places == null) {
              places = LongStream.builder();
              found.put(location.clone(), places);
            }
            places.add(batches.column(1).getLong(row));
          }
        }
      }
      Map<UTF8String, long[]> given = new HashMap<>();
      found.forEach((location, places) -> given.put(location, places.build().toArray()));
      if (all) {
        keep(deletes.location(), given);
      }
      return given;
    }
  }

  private static synchronized Map<UTF8String, long[]> known(String location) {
    return KEPT.get(location);
  }

  private static synchronized void keep(String location, Map<UTF8String, long[]> places) {
    if (KEPT.putIfAbsent(location, places) == null) {
      kept += taken(places);
    }
    Iterator<Map<UTF8String, long[]>> eldest = KEPT.values().iterator();
    while (kept > MOST_KEPT) {
      kept -= taken(eldest.next());
      eldest.remove();
    }
  }

  private static int taken(Map<UTF8String, long[]> places) {
    return EACH_FILE + places.values().stream().mapToInt(each -> EACH_FILE + each.length).sum();
  }
}
