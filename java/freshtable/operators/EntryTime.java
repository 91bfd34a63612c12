package freshtable.operators;

/**
 * The times at which a state entry was last modified and expires.
 *
 * @param isStored whether the store has these times; false once they have changed
 */
record EntryTime(long modified, long expires, boolean isStored) {}
