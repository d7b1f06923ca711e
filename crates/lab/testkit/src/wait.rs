//! Waiting for what happens elsewhere.

use std::time::{Duration, Instant};

use anyhow::bail;

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(20);

/// Looks again and again until there is something, and returns it. After `limit` the test fails
/// with what was waited for.
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
            bail!("waited {limit:?} in vain: {what}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
