//! Custom resources: the kinds of CustomResourceDefinitions.

mod controller;
mod conversion;
mod definition;
mod names;
mod scale;
mod strategy;

pub(crate) use controller::{follow, mark_terminating};
pub(crate) use definition::DefinitionStrategy;
