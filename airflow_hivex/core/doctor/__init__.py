"""The doctor: compares the registered directories with the files on the clusters' disks, and changes nothing."""
