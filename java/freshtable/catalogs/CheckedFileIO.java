package freshtable.catalogs;

import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;

/**
 * Iceberg's own file IO, except that an unreadable metadata file is reported immediately.
 *
 * <p>After any failure, Iceberg tries to read the current metadata file of a table 20 times over 93 seconds,
 * and no property changes that. It does not retry a missing file, so a damaged file is reported as a missing
 * one.
 */
public final class CheckedFileIO extends HadoopFileIO {
  private static final long serialVersionUID = 1;
  private static final String METADATA = ".metadata.json";

  @Override
  public InputFile newInputFile(String path) {
    InputFile file = super.newInputFile(path);
    // Compressed files end with .gz.metadata.json, or with .metadata.json.gz in old tables.
    return path.endsWith(METADATA) || path.endsWith(METADATA + ".gz") ? new MetadataFile(file) : file;
  }
}
