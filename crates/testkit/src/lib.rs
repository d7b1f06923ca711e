//! Clusters and other real parts for tests.
