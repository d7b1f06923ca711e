//! The ways an import can go.
