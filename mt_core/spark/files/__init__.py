"""Files: of the gateway's machine, of Spark's file systems, of object stores, and of catalogs."""
