"""Code shared by the ledgers on servers; `kafka` and `redis` are its two stores."""
