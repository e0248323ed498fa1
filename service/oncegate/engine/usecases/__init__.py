"""One file for each kind of request: what is checked, decided, appended and answered."""
