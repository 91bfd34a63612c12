package freshtable.operators;

/**
 * When an entry of a state was last modified, and the instant at which it has expired.
 *
 * @param isStored whether the store has it; not if it changed its time since
 */
record EntryTime(long modified, long expires, boolean isStored) {}
