//! From DataImportCrons to imports, and from imports to what can be cloned.

pub mod admission;
