//! Scenarios in a simulated cluster, where decisions are applied and imports complete.

mod adopted;
mod examples;
mod files;
mod fixture;
mod laws;
mod stories;
mod vm_templates;
