//! Reconcilers and the workers that run them.

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
use crate::{Backoff, Error, Key, Queue, TRACE_TARGET, WriteFence};

/// When to requeue an object after a successful reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Not before a watched object changes.
    Wait,
    /// After this time, or earlier when a watched object changes.
    After(Duration),
}

impl Next {
    /// At this time, or earlier when a watched object changes; immediately if the time has passed.
    pub fn at(time: Timestamp) -> Self {
        let wait = time.duration_since(Timestamp::now());
        Self::After(wait.try_into().unwrap_or(Duration::ZERO))
    }
}

/// Moves the cluster towards the desired state of one object.
///
/// It is level-triggered: called with a key, not with a change. It reads the current state, decides,
/// writes, and returns once its caches have observed the writes ([`Cache::saw`](crate::Cache::saw)). A
/// second call finds nothing left to do.
pub trait Reconcile<T = Key>: Send + Sync + 'static {
    /// The controller's name in logs, metrics and traces.
    fn name(&self) -> &'static str;

    /// Reconciles one object.
    fn reconcile(&self, what: &T) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// Processes a queue while this process leads, until `stopping` is set; a reconcile that has begun is
/// completed.
pub(crate) async fn work<T, C>(
    controller: Arc<C>,
    queue: Queue<T>,
    metrics: Work,
    fence: WriteFence,
    backoff: Backoff,
    mut stopping: watch::Receiver<bool>,
) where
    T: Hash + Eq + Clone + Display + Send + Sync + 'static,
    C: Reconcile<T>,
{
    loop {
        let what = tokio::select! {
            // Stopping first: with a long queue, both branches are always ready, and an unbiased choice would start
            // more reconciles after SIGTERM.
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            what = async {
                // Followers let the queue fill up. Keys are deduplicated, so it holds each object once at most, and
                // the new leader begins with all of them.
                fence.wait_for_leadership().await;
                queue.next().await
            } => what,
        };
        let name = controller.name();
        let started = Instant::now();
        let span = info_span!(
            target: TRACE_TARGET, "reconcile",
            controller = name, object = %what, error = field::Empty,
        );
        // controller-runtime recovers panics as well (`RecoverPanic`, on by default since 0.19). One object that
        // triggers a defect must not stop the reconciliation of all others. Unwind safety is no concern: controllers
        // hold no lock across an await and read their state from caches.
        let result = AssertUnwindSafe(controller.reconcile(&what))
            .catch_unwind()
            .instrument(span.clone())
            .await;
        metrics.duration.observe(started.elapsed().as_secs_f64());
        match result {
            Ok(Ok(next)) => {
                // Before `add_after`: a periodic requeue is not a failure, and the next
                // one starts with the shortest backoff.
                queue.forget(&what);
                match next {
                    Next::Wait => metrics.success.inc(),
                    Next::After(wait) => {
                        queue.add_after(what.clone(), wait);
                        metrics.later.inc()
                    }
                };
            }
            Ok(Err(error)) => {
                span.record("error", field::display(&error));
                if error.is_conflict() {
                    metrics.conflict.inc();
                    debug!(controller = name, object = %what, %error, "conflicting write; requeueing");
                } else {
                    metrics.error.inc();
                    warn!(controller = name, object = %what, %error, "reconcile failed; requeueing");
                }
                queue.add_failed(what.clone(), backoff);
            }
            Err(_) => {
                span.record("error", "panic");
                metrics.defect.inc();
                error!(controller = name, object = %what, "reconcile panicked; requeueing");
                queue.add_failed(what.clone(), backoff);
            }
        }
        // Last: a key that was added while the reconcile ran becomes ready here, and its
        // backoff or delay has been recorded by then.
        queue.done(&what);
    }
}
