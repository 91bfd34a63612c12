package freshtable.operators;

import java.io.Serializable;

/** An operator state: its name, and the policy by which its entries expire. */
public record KeptState(String name, TtlPolicy policy) implements Serializable {}
