package freshtable.operators;

import java.io.Serializable;

/** The state of an operator: its name, and when its entries expire. */
public record KeptState(String name, TtlPolicy policy) implements Serializable {}
