//! Polling for a condition.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(20);

/// Polls until `look` returns a value, and returns it. After `limit` the test fails with `what` it
/// waited for.
pub async fn wait_until<T, F, Look>(what: &str, limit: Duration, mut look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Look,
    Look: Future<Output = anyhow::Result<Option<T>>>,
{
    let started = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if started.elapsed() > limit {
            bail!("timed out after {limit:?} waiting for: {what}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
