"""Files on the gateway's machine, on Spark's file systems, in object stores and in catalogs."""
