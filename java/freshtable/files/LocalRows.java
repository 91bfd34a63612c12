package freshtable.files;

import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.classic.Dataset;

/** The rows of a dataset that Spark has at hand once it has planned it: other ways to fetch them start a job. */
public final class LocalRows {
  private LocalRows() {}

  /** Returns the rows as a stream of Arrow's in base 64; null if a job is to compute them. */
  public static String of(Dataset<Row> dataset) throws IOException {
    if (!(dataset.queryExecution().optimizedPlan() instanceof LocalRelation)) {
      return null;
    }
    return ArrowRows.written(dataset.schema(), List.of(dataset.queryExecution().executedPlan().executeCollect()));
  }
}
