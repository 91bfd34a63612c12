package freshtable.operators;

import java.io.Serializable;
import java.time.Duration;
import org.apache.spark.sql.streaming.TTLConfig;

/** The state of an operator: its name, and for how long an entry that is not written stays. */
public record KeptState(String name, long ttlMillis) implements Serializable {
  TTLConfig ttl() {
    return new TTLConfig(Duration.ofMillis(ttlMillis));
  }
}
