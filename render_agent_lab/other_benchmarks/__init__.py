"""Benchmarks of other authors about the scans of ScanNet, ScanNet++ and ARKitScenes."""
