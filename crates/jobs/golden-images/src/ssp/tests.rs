//! Stories in a world where decisions are carried out, and where imports arrive.

mod examples;
mod files;
mod laws;
mod machines;
mod stories;
mod world;
