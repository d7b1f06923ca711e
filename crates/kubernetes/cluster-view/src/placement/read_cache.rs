//! A cache of single objects that is refreshed before entries expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::future::Cache;
use runtime::Error;
use tokio::time::Instant;
use tracing::debug;

/// The namespace and name of an object.
pub(crate) type Key = (String, String);

/// Values of objects, by namespace and name; clones share them.
///
/// Concurrent callers share one read per object. A caller that finds an entry older than half its TTL
/// starts a refresh in the background and uses the cached value, so that only the first caller ever
/// waits.
#[derive(Clone)]
pub(crate) struct ReadCache<V> {
    known: Cache<Key, Arc<Known<V>>>,
    ttl: Duration,
}

struct Known<V> {
    value: V,
    read: Instant,
    /// Whether a refresh has been started.
    refreshing: AtomicBool,
}

impl<V> Known<V> {
    fn new(value: V) -> Arc<Self> {
        Arc::new(Self {
            value,
            read: Instant::now(),
            refreshing: AtomicBool::new(false),
        })
    }
}

impl<V: Clone + Send + Sync + 'static> ReadCache<V> {
    /// A cache with this capacity and TTL.
    pub(crate) fn new(capacity: u64, ttl: Duration) -> Self {
        let known = Cache::builder().max_capacity(capacity).time_to_live(ttl);
        Self {
            known: known.build(),
            ttl,
        }
    }

    /// The value of an object, read if it is not cached.
    pub(crate) async fn get<F>(&self, key: Key, read: impl FnOnce() -> F) -> Result<V, Error>
    where
        F: Future<Output = Result<V, Error>> + Send + 'static,
    {
        if let Some(known) = self.known.get(&key).await {
            if known.read.elapsed() >= self.ttl / 2
                // One refresh for each entry: `swap` lets one caller through. `Relaxed` is enough, as the value
                // itself is not published by this flag.
                && !known.refreshing.swap(true, Ordering::Relaxed)
            {
                tokio::spawn(self.clone().refresh(key, read()));
            }
            return Ok(known.value.clone());
        }
        let reading = read();
        let reading = async { reading.await.map(Known::new) };
        // Boxed: a miss is rare, and a hit should not carry the large future.
        match Box::pin(self.known.try_get_with(key, reading)).await {
            Ok(known) => Ok(known.value.clone()),
            // Concurrent callers share the error, so it cannot be taken.
            Err(shared) => {
                Err(Arc::try_unwrap(shared).unwrap_or_else(|it| Error::Late(it.to_string())))
            }
        }
    }

    /// If the refresh fails, the old value is used until it expires; the next caller then reads it and
    /// gets the error.
    async fn refresh(self, key: Key, read: impl Future<Output = Result<V, Error>>) {
        match read.await {
            Ok(value) => self.known.insert(key, Known::new(value)).await,
            Err(error) => {
                debug!(%error, "cannot refresh a cached object; keeping it until it expires");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const TTL: Duration = Duration::from_millis(400);

    /// An API server that answers with the number of reads, after a delay.
    #[derive(Clone, Default)]
    struct Server {
        asked: Arc<AtomicUsize>,
        broken: Arc<AtomicBool>,
    }

    impl Server {
        async fn read(self) -> Result<usize, Error> {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(Duration::from_millis(20)).await;
            if self.broken.load(Ordering::SeqCst) {
                return Err(Error::Invalid("nobody answers".to_owned()));
            }
            Ok(asked)
        }
    }

    fn key() -> Key {
        ("shop".to_owned(), "default".to_owned())
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_read() {
        let (cache, server) = (ReadCache::new(10, TTL), Server::default());
        let asking = (0..100).map(|_| cache.get(key(), || server.clone().read()));
        let answers = join_all(asking).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(1))));
        assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn refresh_does_not_block_callers() {
        let (cache, server) = (ReadCache::new(10, TTL), Server::default());
        cache.get(key(), || server.clone().read()).await.unwrap();
        sleep(TTL / 2).await;
        // Many callers, one read, and all get the cached value.
        for _ in 0..100 {
            let known = cache.get(key(), || server.clone().read()).await;
            assert_eq!(known.unwrap(), 1);
        }
        sleep(TTL / 4).await;
        let known = cache.get(key(), || server.clone().read()).await;
        assert_eq!(known.unwrap(), 2);
        assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn failed_refresh_keeps_value_until_it_expires() {
        let (cache, server) = (ReadCache::new(10, TTL), Server::default());
        cache.get(key(), || server.clone().read()).await.unwrap();
        server.broken.store(true, Ordering::SeqCst);
        sleep(TTL / 2).await;
        let known = cache.get(key(), || server.clone().read()).await;
        assert_eq!(known.unwrap(), 1);
        sleep(TTL).await;
        let refused = cache.get(key(), || server.clone().read()).await;
        assert_eq!(refused.unwrap_err().to_string(), "nobody answers");
        // The failure is not cached.
        server.broken.store(false, Ordering::SeqCst);
        let known = cache.get(key(), || server.clone().read()).await;
        assert!(known.unwrap() > 1);
    }
}
