package freshtable.operators;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** GROUP BY: the results of each group, which a batch with rows of the group changes once. */
final class GroupAggregate extends StatefulProcessor<InternalRow, InternalRow, InternalRow> {
  private static final long serialVersionUID = 1L;

  private final AggregateFeed[] feeds;
  private final Attribute[] inputs;
  private final Form form;
  private final long ttlMillis;

  private transient ExpiringRow state;
  private transient AggregateCode[] codes;
  private transient InternalRow[] buffers;
  private transient CountedRows[] maps;
  private transient boolean sensitive;

  /**
   * What the rows are.
   *
   * @param combined whether they are stored buffers of the first feed, not rows of the inputs
   * @param adds the column of the inputs that says whether a row comes; negative if all do, and no group ends
   * @param keyed whether the rows that are given begin with the key
   * @param updates whether they end with their kind
   */
  record Form(boolean combined, int adds, boolean keyed, boolean updates) implements java.io.Serializable {}

  GroupAggregate(List<AggregateFeed> feeds, List<Attribute> inputs, Form form, long ttlMillis) {
    this.feeds = feeds.toArray(AggregateFeed[]::new);
    this.inputs = inputs.toArray(Attribute[]::new);
    this.form = form;
    this.ttlMillis = ttlMillis;
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    TTLConfig ttl = new TTLConfig(Duration.ofMillis(ttlMillis));
    StatefulProcessorHandle handle = getHandle();
    List<Attribute> stored = new ArrayList<>();
    List<DataType> types = new ArrayList<>();
    for (AggregateFeed feed : feeds) {
      stored.addAll(AggregateCode.stored(feed.functions()));
      types.addAll(feed.stateTypes());
    }
    state = new ExpiringRow(handle, "groupAggregateState", types, ttlMillis);
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
        maps[each] =
            new CountedRows(
                feed,
                handle.getMapState("groupAggregateRows" + each, KeyedRows.stateEncoder(feed.mapTypes()), Encoders.LONG(), ttl),
                List.of(inputs), form.adds());
      }
    }
  }

  @Override
  public Iterator<InternalRow> handleInputRows(InternalRow key, Iterator<InternalRow> rows, TimerValues now) {
    long time = now.getCurrentProcessingTimeInMs();
    InternalRow stored = state.get(time);
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
    // Of an updating input the first buffer is the number of rows.
    if (form.adds() >= 0 && (buffers[0].isNullAt(0) || buffers[0].getLong(0) <= 0)) {
      return ended(key, before);
    }
    return stored(key, before, time);
  }

  @Override
  public Iterator<InternalRow> handleExpiredTimer(InternalRow key, TimerValues now, ExpiredTimerInfo timer) {
    state.due(now.getCurrentProcessingTimeInMs());
    return none();
  }

  private void begin() {
    for (int each = 0; each < feeds.length; each++) {
      codes[each].clear(buffers[each]);
      if (maps[each] != null) {
        // Its rows may have another TTL than the group, from an earlier start.
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
    return before == null ? none() : one(row(key, before, RowKind.DELETE));
  }

  private Iterator<InternalRow> stored(InternalRow key, UnsafeRow[] before, long now) {
    UnsafeRow[] after = sensitive ? null : results();
    InternalRow stored = codes[0].stored(buffers[0]);
    for (int each = 1; each < feeds.length; each++) {
      stored = new JoinedRow(stored, codes[each].stored(buffers[each]));
    }
    state.update(stored, now);
    if (sensitive) {
      // What is given must be what the next batch finds, and takes back.
      load(stored);
      after = results();
    }
    if (before == null) {
      return one(row(key, after, RowKind.INSERT));
    }
    if (Arrays.equals(before, after)) {
      return none();
    }
    List<InternalRow> changes = List.of(row(key, before, RowKind.UPDATE_BEFORE), row(key, after, RowKind.UPDATE_AFTER));
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

  private static Iterator<InternalRow> none() {
    return scala.collection.Iterator$.MODULE$.empty();
  }
}
