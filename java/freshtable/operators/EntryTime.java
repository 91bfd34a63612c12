package freshtable.operators;

/**
 * The times at which a state entry was last modified and will expire, in milliseconds.
 *
 * @param isStored whether the store has these times; false after they have changed
 */
record EntryTime(long modified, long expires, boolean isStored) {}
