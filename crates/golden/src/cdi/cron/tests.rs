//! Stories in a world where polls are answered, imports run and snapshots become ready.

mod stories;
mod world;
