//! Scenarios with simulated polls, imports and snapshots, and properties that hold for any sequence
//! of events.

mod fixture;
mod laws;
mod sources;
mod stories;
