package freshtable.results;

import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;

/**
 * The next messages of each partition of a result, up to a number of bytes but at least one message. A final
 * mark of one byte, which is shorter than any Arrow message, says whether the partition has more.
 */
public final class PartOfPartition implements Function2<Integer, Iterator<byte[]>, Iterator<byte[]>> {
  private static final long serialVersionUID = 1L;
  private static final byte END = 0;
  private static final byte MORE = 1;

  private final int begun;
  private final long messages;
  private final long bytes;
  private final long most;

  private PartOfPartition(int begun, long messages, long bytes, long most) {
    this.begun = begun;
    this.messages = messages;
    this.bytes = bytes;
    this.most = most;
  }

  /**
   * Returns the first parts of all partitions. The partition {@code begun} continues after the messages that
   * were received before.
   */
  public static JavaRDD<byte[]> of(
      JavaRDD<byte[]> partitions, int begun, long messages, long bytes, long most) {
    return partitions.mapPartitionsWithIndex(new PartOfPartition(begun, messages, bytes, most), true);
  }

  @Override
  public Iterator<byte[]> call(Integer partition, Iterator<byte[]> all) {
    if (partition == begun) {
      skip(all);
    }
    return new Part(all, most);
  }

  private void skip(Iterator<byte[]> all) {
    TaskContext task = TaskContext.get();
    long skipped = 0;
    for (long message = 0; message < messages && all.hasNext(); message++) {
      task.killTaskIfInterrupted();
      skipped += all.next().length;
    }
    if (skipped != bytes) {
      throw new IllegalStateException(
          "Files of the query were changed while its result was fetched: its rows are others than before. "
          + "Repeat the statement.");
    }
  }

  /** The messages of a part, followed by its mark. */
  private static final class Part implements Iterator<byte[]> {
    private final Iterator<byte[]> all;
    private final long most;
    private long sent;
    private long last;
    private boolean marked;

    Part(Iterator<byte[]> all, long most) {
      this.all = all;
      this.most = most;
    }

    @Override
    public boolean hasNext() {
      return !marked;
    }

    @Override
    public byte[] next() {
      boolean more = all.hasNext();
      // Assume that the next message is as long as the last one.
      if (!more || sent > 0 && sent + last > most) {
        marked = true;
        return new byte[] {more ? MORE : END};
      }
      byte[] message = all.next();
      last = message.length;
      sent += last;
      return message;
    }
  }
}
