//! TTL of finished Jobs.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DeleteParams;
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};

use super::job::end;

const COMPONENT: &str = "ttl-after-finished-controller";
/// kube-controller-manager's `--concurrent-ttl-after-finished-syncs`.
const WORKERS: usize = 5;

/// Starts the TTL controller.
pub(crate) async fn start(manager: &Manager) {
    let jobs = manager.cache::<Job>();
    jobs.synced().await;
    let queue = Queue::new();
    queue.enqueue_mapped(&jobs, |change| {
        let job = change.new.as_ref()?;
        expires_at(job).map(|_| Key::of(&job.metadata))
    });
    let writer = Writer::namespaced(manager.client()).shown_by(&jobs);
    manager.start(Controller { writer, jobs }, &queue, WORKERS);
}

/// When a finished Job with a TTL is to be deleted.
fn expires_at(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let finished = end(job.status.as_ref())?.last_transition_time.as_ref()?;
    finished
        .0
        .checked_add(SignedDuration::from_secs(seconds.into()))
        .ok()
}

struct Controller {
    writer: Writer<Job>,
    jobs: Cache<Job>,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(known) = self.jobs.find(key) else {
            return Ok(Next::Wait);
        };
        if let Some(next) = wait(expires_at(&known)) {
            return Ok(next);
        }
        // A deletion is final: the Job is read from the API server to check that it still applies.
        let Some(live) = self.writer.get(key).await? else {
            return Ok(Next::Wait);
        };
        if let Some(next) = wait(expires_at(&live)) {
            return Ok(next);
        }
        let by = DeleteParams::foreground();
        self.writer
            .delete_unchanged_with(&live.metadata, by)
            .await?;
        Ok(Next::Wait)
    }
}

/// The requeue instead of a deletion, if the TTL has not passed.
fn wait(expires: Option<Timestamp>) -> Option<Next> {
    let Some(expires) = expires else {
        return Some(Next::Wait);
    };
    let left = expires.duration_since(Timestamp::now());
    (left > SignedDuration::ZERO).then(|| Next::After(left.unsigned_abs()))
}
