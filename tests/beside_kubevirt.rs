//! CPU models beside KubeVirt's genuine virt-controller and virt-api.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

#[path = "beside/fixture.rs"]
mod fixture;
