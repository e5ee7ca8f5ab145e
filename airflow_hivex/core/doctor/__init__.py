"""The doctor: holds the registered directories against what lies on the clusters' disks, and changes nothing."""
