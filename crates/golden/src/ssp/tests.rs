//! Stories in a world where decisions are carried out, and where imports arrive.

mod examples;
mod laws;
mod machines;
mod stories;
mod world;
