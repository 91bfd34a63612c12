package freshtable.files;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.encryption.EncryptingFileIO;
import org.apache.iceberg.encryption.PlaintextEncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The files of scan tasks, with their deleted positions. */
public final class OpenedFiles {
  private static final Logger LOG = LoggerFactory.getLogger(OpenedFiles.class);

  private final FileIO io;
  private final int mostDeleteFiles;
  private final DeletedPlaces places;
  private int others;

  private OpenedFiles(FileIO io, int mostDeleteFiles) {
    this.io = io;
    this.mostDeleteFiles = mostDeleteFiles;
    this.places = new DeletedPlaces(io);
  }

  /**
   * Returns the files, or null if they have more than {@code mostDeleteFiles} delete files or if a file is
   * not supported.
   */
  public static List<OpenedFile> of(Table table, List<FileScanTask> tasks, int mostDeleteFiles) {
    if (!(table.encryption() instanceof PlaintextEncryptionManager)) {
      return null;
    }
    OpenedFiles opened = new OpenedFiles(EncryptingFileIO.combine(table.io(), table.encryption()),
        mostDeleteFiles);
    List<OpenedFile> files = new ArrayList<>();
    for (FileScanTask task : tasks) {
      OpenedFile file = opened.file(task);
      if (file == null) {
        return null;
      }
      files.add(file);
    }
    return opened.places.give() ? files : null;
  }

  /** Returns the field ids of a table's current columns. */
  static int[] ids(Table table, StructType columns) {
    Map<String, Integer> ids =
        table.schema().columns().stream()
            .collect(Collectors.toMap(each -> each.name().toLowerCase(Locale.ROOT),
                Types.NestedField::fieldId, (first, last) -> last));
    return Arrays.stream(columns.fieldNames())
        .mapToInt(name -> ids.get(name.toLowerCase(Locale.ROOT))).toArray();
  }

  private OpenedFile file(FileScanTask task) {
    if (task.file().format() != FileFormat.PARQUET) {
      return null;
    }
    OpenedFile file = new OpenedFile(io.newInputFile(task.file()));
    List<DeleteFile> deletes = task.deletes();
    String location = task.file().location();
    if (!deletes.isEmpty() && !places.add(deletes, location, file)) {
      others += deletes.size();
      if (areMany() || !load(deletes, location, file)) {
        return null;
      }
    }
    return areMany() ? null : file;
  }

  private boolean areMany() {
    return places.count() + others > mostDeleteFiles;
  }

  /** Loads a file's deleted positions with Iceberg's own reader, which supports deletion vectors. */
  private boolean load(List<DeleteFile> deletes, String location, OpenedFile file) {
    if (deletes.stream().anyMatch(each -> each.content() == FileContent.EQUALITY_DELETES)) {
      return false;
    }
    Function<DeleteFile, org.apache.iceberg.io.InputFile> opens = io::newInputFile;
    try {
      new BaseDeleteLoader(opens).loadPositionDeletes(deletes, location).forEach(file);
      return true;
    } catch (RuntimeException cause) {
      // A Spark job will read the file instead and report the error.
      LOG.warn("A file must be read by a Spark job: {}", cause.toString());
      return false;
    }
  }
}
