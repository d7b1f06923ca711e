//! Secrets: none in a support bundle or a snapshot, and none readable beyond what a job needs.
