//! Equal requests at the same time are one.

use std::collections::HashMap;
use std::hash::Hash;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

/// What is under way. It ends when nobody waits for it any more.
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
    /// Waits for what is under way under this key, or else for what is made now.
    pub(crate) async fn join(&self, key: K, make: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let shared: Shared<BoxFuture<'static, T>> = {
            let mut under_way = self.under_way.lock();
            let found = under_way
                .get(&key)
                .and_then(WeakShared::upgrade)
                // What is done may be as old as its slowest reader: it is no longer under way.
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
