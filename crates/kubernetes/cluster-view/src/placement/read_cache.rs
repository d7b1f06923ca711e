//! A cache of single objects that is refreshed before entries expire.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
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
    known: Arc<Cache<Key, ReadResult<V>>>,
    ttl: Duration,
}

/// A failed read is an entry only until the callers that waited for it have their copy.
type ReadResult<V> = Result<Arc<Known<V>>, Arc<Error>>;

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
    pub(crate) fn new(capacity: usize, ttl: Duration) -> Self {
        Self {
            known: Arc::new(Cache::new(capacity)),
            ttl,
        }
    }

    /// The value of an object, read if it is not cached.
    pub(crate) async fn get<F>(&self, key: Key, read: impl FnOnce() -> F) -> Result<V, Error>
    where
        F: Future<Output = Result<V, Error>> + Send + 'static,
    {
        if let Some(Ok(known)) = self.known.get(&key) {
            let age = known.read.elapsed();
            if age < self.ttl {
                if age >= self.ttl / 2
                    // One refresh for each entry: `swap` lets one caller through. `Relaxed` is enough, as the value
                    // itself is not published by this flag.
                    && !known.refreshing.swap(true, Ordering::Relaxed)
                {
                    tokio::spawn(self.clone().refresh(key, read()));
                }
                return Ok(known.value.clone());
            }
            // Only the expired entry: another caller may have replaced it.
            self.known.remove_if(
                &key,
                |it| matches!(it, Ok(it) if it.read.elapsed() >= self.ttl),
            );
        }
        let reading = read();
        let reading =
            async { Ok::<_, Infallible>(reading.await.map(Known::new).map_err(Arc::new)) };
        // Boxed: a miss is rare, and a hit should not carry the large future.
        let Ok(known) = Box::pin(self.known.get_or_insert_async(&key, reading)).await;
        known.map(|known| known.value.clone()).map_err(|shared| {
            self.known.remove_if(&key, Result::is_err);
            // Concurrent callers share the error, so it cannot be taken.
            Arc::try_unwrap(shared).unwrap_or_else(|it| Error::Late(it.to_string()))
        })
    }

    /// If the refresh fails, the old value is used until it expires; the next caller then reads it and
    /// gets the error.
    async fn refresh(self, key: Key, read: impl Future<Output = Result<V, Error>>) {
        match read.await {
            Ok(value) => self.known.insert(key, Ok(Known::new(value))),
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
