//! Single-flight: concurrent equal requests share one execution.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

/// Requests in flight. A request is cancelled when its last waiter drops it.
pub(crate) struct Flights<K, T: Clone> {
    // Weak, so that the map does not keep a request running that every waiter has dropped: an admission request that
    // timed out must not leave a download behind.
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
                // Cleaned only when a request starts: completed entries are a few words each, and their number is
                // bounded by the requests since.
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
