//! What a controller is, and how it is run.

use std::fmt::Display;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{Instrument as _, debug, error, field, info_span, warn};

use crate::metrics::Work;
use crate::{Error, Key, Queue, TRACED, Turn};

/// When to look at something again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// After a while, or when something changes.
    After(Duration),
}

impl Next {
    /// At a time, or when something changes; at once if the time has come.
    pub fn at(time: Timestamp) -> Self {
        let wait = time.duration_since(Timestamp::now());
        Self::After(wait.try_into().unwrap_or(Duration::ZERO))
    }
}

/// Brings the world to what one object asks for.
///
/// It is asked about a name, not about a change: it looks at what there is, decides, acts, and ends
/// when its caches have seen what it wrote ([`Cache::saw`](crate::Cache::saw)). Asked again, it finds
/// nothing to do.
pub trait Reconcile<T = Key>: Send + Sync + 'static {
    /// What it is called in logs.
    fn name(&self) -> &'static str;

    /// Looks at one object and does what is to be done about it.
    fn reconcile(&self, what: &T) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// Works off a queue in its turn, until `stopping` says so; what has been begun is brought to its end.
pub(crate) async fn work<T, C>(
    controller: Arc<C>,
    queue: Queue<T>,
    told: Work,
    turn: Turn,
    mut stopping: watch::Receiver<bool>,
) where
    T: Hash + Eq + Clone + Display + Send + Sync + 'static,
    C: Reconcile<T>,
{
    loop {
        let what = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            what = async {
                turn.begins().await;
                queue.next().await
            } => what,
        };
        let name = controller.name();
        let started = Instant::now();
        let span = info_span!(
            target: TRACED, "reconcile",
            controller = name, object = %what, error = field::Empty,
        );
        let result = AssertUnwindSafe(controller.reconcile(&what))
            .catch_unwind()
            .instrument(span.clone())
            .await;
        told.duration.observe(started.elapsed().as_secs_f64());
        match result {
            Ok(Ok(next)) => {
                queue.forget(&what);
                match next {
                    Next::Wait => told.success.inc(),
                    Next::After(wait) => {
                        queue.add_after(what.clone(), wait);
                        told.later.inc()
                    }
                };
            }
            Ok(Err(error)) => {
                span.record("error", field::display(&error));
                if error.is_race() {
                    told.conflict.inc();
                    debug!(controller = name, object = %what, %error, "overtaken; trying again");
                } else {
                    told.error.inc();
                    warn!(controller = name, object = %what, %error, "failed; trying again");
                }
                queue.add_failed(what.clone());
            }
            Err(_) => {
                span.record("error", "a defect");
                told.defect.inc();
                error!(controller = name, object = %what, "a defect stopped the reconcile; trying again");
                queue.add_failed(what.clone());
            }
        }
        queue.done(&what);
    }
}
