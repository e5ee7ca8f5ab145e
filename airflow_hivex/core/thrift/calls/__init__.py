"""The calls of Hive's interface, one module for each subject. Each translates, and adds no rule of its own."""
