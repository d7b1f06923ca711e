//! Behaviour of the field manager, against a custom resource with every kind of field.

mod appliers;
mod entries;
mod laws;
mod names;
mod scale;
mod sets;
mod support;
mod updates;
mod versions;
