//! What was read a moment ago, and is read again before it is too old.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::future::Cache;
use runtime::Error;
use tokio::time::Instant;
use tracing::debug;

/// The namespace and the name of what is read.
pub(crate) type Key = (String, String);

/// Values of objects, by namespace and name; clones share them.
///
/// However many ask at the same time, each object is read once. Whoever asks for one that has lived for half of its
/// life has it read again for those who come later, and does not wait: of those who keep asking, nobody does.
#[derive(Clone)]
pub(crate) struct Remembered<V> {
    known: Cache<Key, Arc<Known<V>>>,
    life: Duration,
}

struct Known<V> {
    value: V,
    read: Instant,
    /// Whether somebody has it read again.
    renewed: AtomicBool,
}

impl<V> Known<V> {
    fn new(value: V) -> Arc<Self> {
        Arc::new(Self {
            value,
            read: Instant::now(),
            renewed: AtomicBool::new(false),
        })
    }
}

impl<V: Clone + Send + Sync + 'static> Remembered<V> {
    /// At most so many values, each for as long as this.
    pub(crate) fn new(most: u64, life: Duration) -> Self {
        let known = Cache::builder().max_capacity(most).time_to_live(life);
        Self {
            known: known.build(),
            life,
        }
    }

    /// The value of an object, which is read if it is not known.
    pub(crate) async fn get<F>(&self, key: Key, read: impl FnOnce() -> F) -> Result<V, Error>
    where
        F: Future<Output = Result<V, Error>> + Send + 'static,
    {
        if let Some(known) = self.known.get(&key).await {
            if known.read.elapsed() >= self.life / 2 && !known.renewed.swap(true, Ordering::Relaxed)
            {
                tokio::spawn(self.clone().renew(key, read()));
            }
            return Ok(known.value.clone());
        }
        let reading = read();
        let reading = async { reading.await.map(Known::new) };
        // Hardly anybody waits, and who does not should not carry what waiting takes.
        match Box::pin(self.known.try_get_with(key, reading)).await {
            Ok(known) => Ok(known.value.clone()),
            // Others who waited have it, too.
            Err(shared) => {
                Err(Arc::try_unwrap(shared).unwrap_or_else(|it| Error::Late(it.to_string())))
            }
        }
    }

    /// What cannot be read is believed until its life ends; whoever asks after that reads it, and is told why not.
    async fn renew(self, key: Key, read: impl Future<Output = Result<V, Error>>) {
        match read.await {
            Ok(value) => self.known.insert(key, Known::new(value)).await,
            Err(error) => debug!(%error, "what is known cannot be read again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const LIFE: Duration = Duration::from_millis(400);

    /// A server that tells how often it was asked, a while later.
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
    async fn an_object_is_read_once_for_all_who_ask_at_the_same_time() {
        let (remembered, server) = (Remembered::new(10, LIFE), Server::default());
        let asking = (0..100).map(|_| remembered.get(key(), || server.clone().read()));
        let answers = join_all(asking).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(1))));
        assert_eq!(server.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn nobody_who_keeps_asking_waits_for_an_object_to_be_read_again() {
        let (remembered, server) = (Remembered::new(10, LIFE), Server::default());
        remembered
            .get(key(), || server.clone().read())
            .await
            .unwrap();
        sleep(LIFE / 2).await;
        // Many ask, one reads, and all are told what was known.
        for _ in 0..100 {
            let known = remembered.get(key(), || server.clone().read()).await;
            assert_eq!(known.unwrap(), 1);
        }
        sleep(LIFE / 4).await;
        let known = remembered.get(key(), || server.clone().read()).await;
        assert_eq!(known.unwrap(), 2);
        assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn what_cannot_be_read_again_is_believed_until_its_life_ends() {
        let (remembered, server) = (Remembered::new(10, LIFE), Server::default());
        remembered
            .get(key(), || server.clone().read())
            .await
            .unwrap();
        server.broken.store(true, Ordering::SeqCst);
        sleep(LIFE / 2).await;
        let known = remembered.get(key(), || server.clone().read()).await;
        assert_eq!(known.unwrap(), 1);
        sleep(LIFE).await;
        let refused = remembered.get(key(), || server.clone().read()).await;
        assert_eq!(refused.unwrap_err().to_string(), "nobody answers");
        // It is not remembered that it failed.
        server.broken.store(false, Ordering::SeqCst);
        let known = remembered.get(key(), || server.clone().read()).await;
        assert!(known.unwrap() > 1);
    }
}
