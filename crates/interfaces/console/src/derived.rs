//! Values computed from objects, cached until the objects change.
//!
//! A cluster may have thousands of nodes and tens of thousands of pods. Pages are requested far
//! more often than the objects change, and by several tabs at once: expensive computations run
//! once, on a blocking thread.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::viewer::Unavailable;

/// Values that can be compared cheaply, by identity.
pub(crate) trait Same {
    /// Whether both are identical.
    fn is_same(&self, other: &Self) -> bool;
}

impl<T> Same for Arc<T> {
    fn is_same(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }
}

/// Caches replace objects when they change, and never mutate them.
impl<T: Same> Same for Vec<T> {
    fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(one, two)| one.is_same(two))
    }
}

impl<A: Same, B: Same> Same for (A, B) {
    fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0) && self.1.is_same(&other.1)
    }
}

impl<A: Same, B: Same, C: Same> Same for (A, B, C) {
    fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0) && self.1.is_same(&other.1) && self.2.is_same(&other.2)
    }
}

/// A computed value. Clones are cheap.
pub(crate) trait Derived: Clone + Send + Sync + 'static {
    /// Its inputs.
    type From: Same + Send + Sync + 'static;

    /// Computes it. `before` holds the previous inputs and value, if any, to reuse unchanged parts.
    fn compute(from: &Self::From, before: Option<(Self::From, Self)>) -> Self;
}

/// The last value with its inputs.
type Last<W> = tokio::sync::Mutex<Option<(<W as Derived>::From, W)>>;

/// All computed values of a session.
#[derive(Default)]
pub(crate) struct DerivedCache {
    known: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl DerivedCache {
    /// The value for these inputs. Concurrent callers wait for one computation.
    pub(crate) async fn get<W: Derived>(&self, from: W::From) -> Result<W, Unavailable> {
        let last = self.last::<W>();
        // Held during the computation, so that several tabs wait for one result instead of
        // computing it each.
        let mut last = last.lock().await;
        if let Some((known, derived)) = &*last
            && known.is_same(&from)
        {
            return Ok(derived.clone());
        }
        // Taken, not cloned, so that the computation can reuse parts of it. If it panics, the next
        // request starts without a previous value.
        let before = last.take();
        let compute = move || {
            let derived = W::compute(&from, before);
            (from, derived)
        };
        // Other requests are answered meanwhile.
        match tokio::task::spawn_blocking(compute).await {
            Ok((from, derived)) => {
                *last = Some((from, derived.clone()));
                Ok(derived)
            }
            Err(error) => Err(Unavailable::Failed(format!(
                "The content of this page could not be computed: {error}"
            ))),
        }
    }

    fn last<W: Derived>(&self) -> Arc<Last<W>> {
        let mut known = self.known.lock();
        let slot = known
            .entry(TypeId::of::<W>())
            .or_insert_with(|| Arc::new(Last::<W>::default()));
        // The key is the type, so the downcast succeeds.
        Arc::clone(slot).downcast().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its computations.
    #[derive(Debug, Clone, PartialEq)]
    struct Sum {
        sum: u32,
        times: u32,
    }

    impl Derived for Sum {
        type From = Vec<Arc<u32>>;

        fn compute(from: &Self::From, before: Option<(Self::From, Self)>) -> Self {
            Self {
                sum: from.iter().map(|it| **it).sum(),
                times: before.map_or(0, |(_, before)| before.times) + 1,
            }
        }
    }

    #[tokio::test]
    async fn equal_inputs_are_computed_once() {
        let derived_cache = DerivedCache::default();
        let from = vec![Arc::new(1), Arc::new(2)];
        for _ in 0..2 {
            let sum = derived_cache.get::<Sum>(from.clone()).await.unwrap();
            assert_eq!(sum, Sum { sum: 3, times: 1 });
        }
        // A replaced object is another one, even with equal content.
        let replaced = vec![from[0].clone(), Arc::new(2)];
        let sum = derived_cache.get::<Sum>(replaced.clone()).await.unwrap();
        assert_eq!(sum, Sum { sum: 3, times: 2 });
        let (one, two) = tokio::join!(
            derived_cache.get::<Sum>(from.clone()),
            derived_cache.get::<Sum>(from.clone())
        );
        assert_eq!(one.unwrap(), Sum { sum: 3, times: 3 });
        assert_eq!(two.unwrap().times, 3);
        let fewer = derived_cache.get::<Sum>(from[..1].to_vec()).await.unwrap();
        assert_eq!(fewer, Sum { sum: 1, times: 4 });
    }
}
