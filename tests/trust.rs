//! What must hold against an attacker: each test plays one attack with the means the attacker has (a role, an image, a
//! registry, a forged request, a damaged file) and asserts the state of the world afterwards. `docs/security.md` states
//! the model behind it.

#![allow(
    clippy::large_futures,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does, and its future is made once"
)]

#[path = "trust/approvals.rs"]
mod approvals;
#[path = "trust/images.rs"]
mod images;
#[path = "trust/requests.rs"]
mod requests;
#[path = "trust/secrets.rs"]
mod secrets;
#[path = "trust/storage.rs"]
mod storage;
#[path = "trust/webhook.rs"]
mod webhook;
