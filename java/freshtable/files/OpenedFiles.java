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

/** The files of scan tasks, with their deleted positions. */
final class OpenedFiles {
  private final FileIO io;
  private final boolean isPlain;
  private final DeletedPlaces places;
  private final List<ReadingThreads.Reading<Boolean>> loads = new ArrayList<>();

  private OpenedFiles(Table table) {
    this.io = EncryptingFileIO.combine(table.io(), table.encryption());
    this.isPlain = table.encryption() instanceof PlaintextEncryptionManager;
    this.places = new DeletedPlaces(io);
  }

  /**
   * Returns the files with the positions in their position delete files and deletion vectors, or null if one
   * of these cannot be read. Equality deletes are ignored, and our reader may not support the files.
   */
  static List<OpenedFile> positions(Table table, List<FileScanTask> tasks) {
    OpenedFiles opened = new OpenedFiles(table);
    List<OpenedFile> files = tasks.stream().map(opened::file).toList();
    return opened.load() ? files : null;
  }

  /** Returns whether our reader may support the file of a task, and supports its deletes. */
  static boolean isRead(Table table, FileScanTask task) {
    return new OpenedFiles(table).isRead(task);
  }

  /** Returns the file of a task, without its deleted positions. */
  static OpenedFile plain(Table table, FileScanTask task) {
    return new OpenedFile(table.io().newInputFile(task.file()));
  }

  private boolean isRead(FileScanTask task) {
    return isPlain && task.file().format() == FileFormat.PARQUET
        && task.deletes().stream().allMatch(OpenedFiles::isPositions);
  }

  static boolean isPositions(DeleteFile file) {
    return file.content() == FileContent.POSITION_DELETES;
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
    OpenedFile file = new OpenedFile(io.newInputFile(task.file()));
    List<DeleteFile> deletes = task.deletes().stream().filter(OpenedFiles::isPositions).toList();
    String location = task.file().location();
    if (!deletes.isEmpty() && !(isPlain && places.add(deletes, location, file))) {
      loads.add(() -> load(deletes, location, file));
    }
    return file;
  }

  private boolean load() {
    return ReadingThreads.all(loads) != null && places.give();
  }

  /** Loads a file's deleted positions with Iceberg's own reader, which supports deletion vectors. */
  private boolean load(List<DeleteFile> deletes, String location, OpenedFile file) {
    Function<DeleteFile, org.apache.iceberg.io.InputFile> opens = io::newInputFile;
    new BaseDeleteLoader(opens).loadPositionDeletes(deletes, location).forEach(file);
    return true;
  }
}
