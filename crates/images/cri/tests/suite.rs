//! The image service as a kubelet sees it: over its socket, with a real registry behind it.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

mod apart;
mod backend;
mod conformance;
mod hostile;
mod node;
mod space;
mod unpacking;
