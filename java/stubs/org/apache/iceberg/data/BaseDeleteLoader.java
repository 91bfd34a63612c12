package org.apache.iceberg.data;

import java.util.function.Function;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.io.InputFile;

/** What Iceberg's class has that ours are compiled against. */
public class BaseDeleteLoader {
  public BaseDeleteLoader(Function<DeleteFile, InputFile> loadInputFile) {
    throw new UnsupportedOperationException();
  }

  public PositionDeleteIndex loadPositionDeletes(Iterable<DeleteFile> deleteFiles, CharSequence filePath) {
    throw new UnsupportedOperationException();
  }
}
