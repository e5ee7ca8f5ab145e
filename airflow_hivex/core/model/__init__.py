"""Values and rules of the warehouse: no I/O, no clock, no database."""
