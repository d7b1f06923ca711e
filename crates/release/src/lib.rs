//! Payloads of a release.
