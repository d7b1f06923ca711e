//! Connections that wait for their next request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connect::Connected;

/// Idle connections kept for one address.
const KEPT: usize = 25;
/// How long one is kept.
const PATIENCE: Duration = Duration::from_secs(90);

/// Idle connections by address.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<String, Vec<(Connected, Instant)>>>,
}

impl Pool {
    /// A connection that is ready, if there is one. One that carries many requests stays here too.
    pub(super) fn take(&self, authority: &str) -> Option<Connected> {
        let mut all = self.idle.lock();
        let idle = all.get_mut(authority)?;
        idle.retain(|(connection, since)| connection.is_ready() && since.elapsed() < PATIENCE);
        let (connection, since) = idle.pop()?;
        if let Some(shared) = connection.share() {
            idle.push((connection, since));
            return Some(shared);
        }
        Some(connection)
    }

    /// Takes a connection back.
    pub(super) fn put(&self, authority: &str, connection: Connected) {
        let mut all = self.idle.lock();
        let idle = all.entry(authority.to_owned()).or_default();
        if connection.is_multiplexed() {
            idle.clear();
        }
        if idle.len() < KEPT {
            idle.push((connection, Instant::now()));
        }
    }
}
