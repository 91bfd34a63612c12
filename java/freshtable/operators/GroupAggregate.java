package freshtable.operators;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * GROUP BY: updates the result of each group once per batch, if it has changed.
 *
 * <p>The state of a group is one row with the buffers of all functions, and one map of row counts for each
 * feed that needs it. In a batch, the buffers of the group are loaded and evaluated, all rows of the batch
 * are applied, and the result is evaluated again. The difference is emitted as +I, as -U and +U, or as -D. If
 * the input has retractions, an additional COUNT over signed rows decides whether a group still exists.
 *
 * <p>The invariant is that an emitted result can be computed again from the stored state, because the next
 * batch retracts it. Functions whose result depends on the representation of their buffers are therefore
 * evaluated only after the buffers have been stored and loaded. An expired group is removed without a
 * retraction. Its maps are cleared at the same time, because their rows may expire later.
 */
final class GroupAggregate extends ExpiringProcessor {
  private static final long serialVersionUID = 1L;

  private final AggregateFeed[] feeds;
  private final Attribute[] inputs;
  private final Form form;
  private final KeptState kept;

  private transient EntryTimes times;
  private transient ExpiringRow state;
  private transient AggregateCode[] codes;
  private transient InternalRow[] buffers;
  private transient CountedRows[] maps;
  private transient boolean sensitive;

  /**
   * The form of the input and output rows.
   *
   * @param combined whether input rows are stored buffers of the first feed instead of plain inputs
   * @param adds the input column that says whether a row is added, or negative if all rows are, so that
   * groups never end
   * @param eventTime the event time column of the inputs, or negative if there is none
   * @param keyed whether output rows begin with the key
   * @param updates whether output rows end with their row kind
   */
  record Form(boolean combined, int adds, int eventTime, boolean keyed, boolean updates)
      implements java.io.Serializable {}

  GroupAggregate(List<AggregateFeed> feeds, List<Attribute> inputs, Form form, KeptState kept) {
    this.feeds = feeds.toArray(AggregateFeed[]::new);
    this.inputs = inputs.toArray(Attribute[]::new);
    this.form = form;
    this.kept = kept;
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    StatefulProcessorHandle handle = getHandle();
    KeyTimer timer = new KeyTimer(handle, time);
    times = new EntryTimes(kept.policy(), form.eventTime());
    List<Attribute> stored = new ArrayList<>();
    List<DataType> types = new ArrayList<>();
    for (AggregateFeed feed : feeds) {
      stored.addAll(AggregateCode.stored(feed.functions()));
      types.addAll(feed.stateTypes());
    }
    state = new ExpiringRow(handle, kept.name(), types, times, timer);
    codes = new AggregateCode[feeds.length];
    buffers = new InternalRow[feeds.length];
    maps = new CountedRows[feeds.length];
    int offset = 0;
    for (int each = 0; each < feeds.length; each++) {
      AggregateFeed feed = feeds[each];
      codes[each] = feed.compiled(stored, offset);
      buffers[each] = codes[each].begun();
      offset += feed.stateTypes().size();
      sensitive |= feed.isSensitive();
      if (feed.hasMap()) {
        ExpiringRows<InternalRow> counts =
            new ExpiringRows<>(
                handle, "groupAggregateRows" + each, KeyedRows.stateEncoder(feed.mapTypes()),
                InternalRow::copy,
                List.of(DataTypes.LongType), times, timer);
        maps[each] = new CountedRows(feed, counts, List.of(inputs), form.adds());
      }
    }
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    times.begin(now);
    InternalRow stored = state.get();
    UnsafeRow[] before = null;
    if (stored != null) {
      load(stored);
      before = results();
    } else {
      begin();
    }
    while (rows.hasNext()) {
      take(rows.next());
    }
    for (int each = 0; each < feeds.length; each++) {
      if (maps[each] != null) {
        maps[each].count(codes[each], buffers[each]);
      }
    }
    // If the input has updates, the first buffer is the row count.
    if (form.adds() >= 0 && (buffers[0].isNullAt(0) || buffers[0].getLong(0) <= 0)) {
      return ended(key, before);
    }
    return stored(key, before);
  }

  @Override
  TimeMode timers() {
    return kept.policy().timeMode();
  }

  @Override
  void expire(TimerValues now) {
    times.begin(now);
    InternalRow stored = state.get();
    long next = TtlPolicy.NEVER;
    for (CountedRows map : maps) {
      if (map != null && stored != null) {
        next = Math.min(next, map.removeExpired());
      } else if (map != null) {
        map.clear();
      }
    }
    state.ran(stored, next);
  }

  private void begin() {
    for (int each = 0; each < feeds.length; each++) {
      codes[each].clear(buffers[each]);
      if (maps[each] != null && state.hasExpired()) {
        // The rows of a map may expire later than the group.
        maps[each].clear();
      }
    }
  }

  private void load(InternalRow stored) {
    for (int each = 0; each < feeds.length; each++) {
      codes[each].clear(buffers[each]);
      codes[each].merge(buffers[each], stored);
    }
  }

  private void take(InternalRow row) {
    times.came(row);
    for (int each = 0; each < feeds.length; each++) {
      if (maps[each] != null) {
        maps[each].take(row);
      } else if (form.combined()) {
        codes[each].merge(buffers[each], row);
      } else {
        codes[each].update(buffers[each], row);
      }
    }
  }

  private UnsafeRow[] results() {
    UnsafeRow[] results = new UnsafeRow[feeds.length];
    for (int each = 0; each < feeds.length; each++) {
      results[each] = codes[each].results(buffers[each]).copy();
    }
    return results;
  }

  private Iterator<InternalRow> ended(InternalRow key, UnsafeRow[] before) {
    state.clear();
    for (CountedRows map : maps) {
      if (map != null) {
        map.clear();
      }
    }
    return before == null ? Changes.none() : one(row(key, before, RowKind.DELETE));
  }

  private Iterator<InternalRow> stored(InternalRow key, UnsafeRow[] before) {
    UnsafeRow[] after = sensitive ? null : results();
    InternalRow stored = codes[0].stored(buffers[0]);
    for (int each = 1; each < feeds.length; each++) {
      stored = new JoinedRow(stored, codes[each].stored(buffers[each]));
    }
    state.update(stored);
    if (sensitive) {
      // The emitted row must be equal to the one that the next batch computes and retracts.
      load(stored);
      after = results();
    }
    if (before == null) {
      return one(row(key, after, RowKind.INSERT));
    }
    if (Arrays.equals(before, after)) {
      return Changes.none();
    }
    List<InternalRow> changes =
        List.of(row(key, before, RowKind.UPDATE_BEFORE), row(key, after, RowKind.UPDATE_AFTER));
    return CollectionConverters.asScala(changes.iterator());
  }

  private InternalRow row(InternalRow key, UnsafeRow[] results, byte kind) {
    InternalRow row = form.keyed() ? key : null;
    for (UnsafeRow each : results) {
      row = row == null ? each : new JoinedRow(row, each);
    }
    return form.updates() ? new JoinedRow(row, new GenericInternalRow(new Object[] {kind})) : row;
  }

  private static Iterator<InternalRow> one(InternalRow row) {
    return scala.collection.Iterator$.MODULE$.single(row);
  }
}
