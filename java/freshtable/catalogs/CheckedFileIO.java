package freshtable.catalogs;

import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;

/**
 * Iceberg's own files, but the metadata file of a table that cannot be read is reported at once.
 *
 * <p>Iceberg reads the current metadata file of a table 20 times, with pauses of 93 seconds together,
 * whatever is wrong with it, and no property says otherwise. It does not repeat the read of a file that is
 * not there, so this is what it is told of a damaged one.
 */
public final class CheckedFileIO extends HadoopFileIO {
  private static final long serialVersionUID = 1;
  private static final String METADATA = ".metadata.json";

  @Override
  public InputFile newInputFile(String path) {
    InputFile file = super.newInputFile(path);
    // The name of a compressed one ends with .gz.metadata.json, or did once with .metadata.json.gz.
    return path.endsWith(METADATA) || path.endsWith(METADATA + ".gz") ? new MetadataFile(file) : file;
  }
}
