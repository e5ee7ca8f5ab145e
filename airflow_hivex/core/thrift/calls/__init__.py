"""The calls of Hive's interface, one module for each subject. They only translate, and add no rules of their own."""
