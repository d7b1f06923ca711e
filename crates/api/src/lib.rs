//! The kinds that Medley owns, as types and as definitions for the API server.
//!
//! A kind is a module: its types say what the program reads and writes, its `definition` says what
//! the API server accepts. Both are written by hand, so that the definition is the published one to
//! the letter; a test holds them together.

pub mod advisor;
