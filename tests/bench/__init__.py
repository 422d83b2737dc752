"""The benchmark (`make bench`): loads, measurements, reports, and tests of these."""
