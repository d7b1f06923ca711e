//! What is worked out from objects, and kept until they are others.
//!
//! A cluster may have thousands of nodes and tens of thousands of pods. Pages are asked for far more often than what
//! they are about changes, and by several tabs at once: what takes long is done once, beside what else goes on.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::viewer::Unseen;

/// What can be told to be the same without looking into it.
pub(crate) trait Same {
    /// Whether it is.
    fn is_same(&self, other: &Self) -> bool;
}

impl<T> Same for Arc<T> {
    fn is_same(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }
}

/// Objects of a cache are replaced when they change, and never changed.
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

/// Something that is worked out. Clones are cheap.
pub(crate) trait Worked: Clone + Send + Sync + 'static {
    /// What from.
    type From: Same + Send + Sync + 'static;

    /// Works it out. `before` is what it was, and what from, if that was anything: what did not change need
    /// not be looked at again.
    fn work(from: &Self::From, before: Option<(Self::From, Self)>) -> Self;
}

/// What was last worked out, and what from.
type Last<W> = tokio::sync::Mutex<Option<(<W as Worked>::From, W)>>;

/// All that was worked out for somebody.
#[derive(Default)]
pub(crate) struct Workshop {
    known: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Workshop {
    /// What comes of this. Who asks for the same while it is worked out waits for it.
    pub(crate) async fn get<W: Worked>(&self, from: W::From) -> Result<W, Unseen> {
        let last = self.last::<W>();
        let mut last = last.lock().await;
        if let Some((known, worked)) = &*last
            && known.is_same(&from)
        {
            return Ok(worked.clone());
        }
        let before = last.take();
        let work = move || {
            let worked = W::work(&from, before);
            (from, worked)
        };
        // Others are answered meanwhile.
        match tokio::task::spawn_blocking(work).await {
            Ok((from, worked)) => {
                *last = Some((from, worked.clone()));
                Ok(worked)
            }
            Err(error) => Err(Unseen::Failed(format!(
                "What is shown here could not be worked out: {error}"
            ))),
        }
    }

    fn last<W: Worked>(&self) -> Arc<Last<W>> {
        let mut known = self.known.lock();
        let slot = known
            .entry(TypeId::of::<W>())
            .or_insert_with(|| Arc::new(Last::<W>::default()));
        // It is of this type, because the key says so.
        Arc::clone(slot).downcast().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it was worked out.
    #[derive(Debug, Clone, PartialEq)]
    struct Sum {
        sum: u32,
        times: u32,
    }

    impl Worked for Sum {
        type From = Vec<Arc<u32>>;

        fn work(from: &Self::From, before: Option<(Self::From, Self)>) -> Self {
            Self {
                sum: from.iter().map(|it| **it).sum(),
                times: before.map_or(0, |(_, before)| before.times) + 1,
            }
        }
    }

    #[tokio::test]
    async fn the_same_is_worked_out_once() {
        let workshop = Workshop::default();
        let from = vec![Arc::new(1), Arc::new(2)];
        for _ in 0..2 {
            let sum = workshop.get::<Sum>(from.clone()).await.unwrap();
            assert_eq!(sum, Sum { sum: 3, times: 1 });
        }
        // An object that was replaced is another one, whatever is in it.
        let replaced = vec![from[0].clone(), Arc::new(2)];
        let sum = workshop.get::<Sum>(replaced.clone()).await.unwrap();
        assert_eq!(sum, Sum { sum: 3, times: 2 });
        let (one, two) = tokio::join!(
            workshop.get::<Sum>(from.clone()),
            workshop.get::<Sum>(from.clone())
        );
        assert_eq!(one.unwrap(), Sum { sum: 3, times: 3 });
        assert_eq!(two.unwrap().times, 3);
        let fewer = workshop.get::<Sum>(from[..1].to_vec()).await.unwrap();
        assert_eq!(fewer, Sum { sum: 1, times: 4 });
    }
}
