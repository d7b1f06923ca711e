//! Single-flight: concurrent equal requests share one execution.

use std::collections::HashMap;
use std::hash::Hash;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

/// Requests in flight. A request is cancelled when its last waiter drops it.
pub(crate) struct Flights<K, T: Clone> {
    under_way: Mutex<HashMap<K, WeakShared<BoxFuture<'static, T>>>>,
}

impl<K, T: Clone> Default for Flights<K, T> {
    fn default() -> Self {
        Self {
            under_way: Mutex::new(HashMap::new()),
        }
    }
}

impl<K: Hash + Eq, T: Clone> Flights<K, T> {
    /// Waits for the request in flight under this key, or starts one.
    pub(crate) async fn join(&self, key: K, make: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let shared: Shared<BoxFuture<'static, T>> = {
            let mut under_way = self.under_way.lock();
            let found = under_way
                .get(&key)
                .and_then(WeakShared::upgrade)
                // A completed request is not joined: its result may be as old as its slowest waiter.
                .filter(|shared| shared.peek().is_none());
            if let Some(shared) = found {
                shared
            } else {
                under_way.retain(|_, weak| weak.upgrade().is_some());
                let shared = make().shared();
                if let Some(weak) = shared.downgrade() {
                    under_way.insert(key, weak);
                }
                shared
            }
        };
        shared.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    fn counting(count: &Arc<AtomicUsize>) -> impl FnOnce() -> BoxFuture<'static, usize> + use<> {
        let count = Arc::clone(count);
        move || {
            async move {
                sleep(Duration::from_millis(20)).await;
                count.fetch_add(1, Ordering::SeqCst)
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn concurrent_equal_requests_are_sent_once() {
        let flights = Flights::default();
        let count = Arc::new(AtomicUsize::new(0));
        let both = futures::join!(
            flights.join("a", counting(&count)),
            flights.join("a", counting(&count))
        );
        assert_eq!(both, (0, 0));
        // A later caller starts a new request.
        assert_eq!(flights.join("a", counting(&count)).await, 1);
        let others = futures::join!(
            flights.join("a", counting(&count)),
            flights.join("b", counting(&count))
        );
        assert_ne!(others.0, others.1);
    }

    #[tokio::test]
    async fn remaining_waiter_gets_the_result() {
        let flights = Flights::default();
        let count = Arc::new(AtomicUsize::new(0));
        let mut first = Box::pin(flights.join("a", counting(&count)));
        let mut second = Box::pin(flights.join("a", counting(&count)));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, 0);
        // When all waiters are gone, the request is cancelled.
        let mut gone = Box::pin(flights.join("a", counting(&count)));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(gone);
        assert_eq!(flights.join("a", counting(&count)).await, 1);
    }
}
