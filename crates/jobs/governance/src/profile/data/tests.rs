//! Data profiles.
