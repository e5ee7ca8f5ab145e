"""The calls of Hive's interface, one module for each subject. The calls only translate, and add no rules."""
