//! Custom resources: what a CustomResourceDefinition brings into being.

mod controller;
mod conversion;
mod definition;
mod names;
mod strategy;

pub(crate) use controller::run;
pub(crate) use definition::{DefinitionStrategy, resources_of};
