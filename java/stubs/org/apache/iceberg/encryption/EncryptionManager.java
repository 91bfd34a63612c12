package org.apache.iceberg.encryption;

/** What Iceberg's interface has that ours are compiled against. */
public interface EncryptionManager {}
