"""What a server bears: throughput, overload, a long run, and a large store. ``python -m benchmarks.load``, see README.md."""
