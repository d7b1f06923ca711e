//! Golden images beside the genuine containerized-data-importer.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

#[path = "beside/fixture.rs"]
mod fixture;
