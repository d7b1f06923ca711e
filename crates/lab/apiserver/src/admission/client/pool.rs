//! Idle connections.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connect::Connected;

/// Idle connections kept for one address.
// client-go's transport keeps 25 idle connections per host (`client-go/transport/cache.go`), and Go
// closes them after 90 s.
const MAX_IDLE: usize = 25;
/// Idle timeout of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Idle connections by address.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<String, Vec<(Connected, Instant)>>>,
}

impl Pool {
    /// A ready connection, if there is one. An HTTP/2 connection stays in the pool.
    pub(super) fn take(&self, authority: &str) -> Option<Connected> {
        let mut all = self.idle.lock();
        let idle = all.get_mut(authority)?;
        // On use rather than by a timer: connections of a webhook that is never called again cost a
        // file descriptor until the client is dropped, and nothing else.
        idle.retain(|(connection, since)| connection.is_ready() && since.elapsed() < IDLE_TIMEOUT);
        let (connection, since) = idle.pop()?;
        if let Some(shared) = connection.share() {
            idle.push((connection, since));
            return Some(shared);
        }
        Some(connection)
    }

    /// Returns a connection to the pool.
    pub(super) fn put(&self, authority: &str, connection: Connected) {
        let mut all = self.idle.lock();
        let idle = all.entry(authority.to_owned()).or_default();
        // One HTTP/2 connection carries all requests; the others would only be kept alive.
        if connection.is_multiplexed() {
            idle.clear();
        }
        if idle.len() < MAX_IDLE {
            idle.push((connection, Instant::now()));
        }
    }
}
