"""The queue of background work: jobs that are requested, claimed by lease, and done or dead."""
