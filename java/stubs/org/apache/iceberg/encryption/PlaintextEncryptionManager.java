package org.apache.iceberg.encryption;

/** What Iceberg's class has that ours are compiled against. */
public abstract class PlaintextEncryptionManager implements EncryptionManager {
  private PlaintextEncryptionManager() {}
}
