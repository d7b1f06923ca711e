//! Stories in a world where polls are answered, imports run and snapshots become ready; and what holds
//! whatever happens there.

mod laws;
mod sources;
mod stories;
mod world;
