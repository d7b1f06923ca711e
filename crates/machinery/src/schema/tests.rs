//! What the reference says, in tables.
