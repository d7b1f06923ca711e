//! Polling the sources of DataImportCrons, by source type.
//!
//! ```text
//! registry ------------------> polls, one request for all crons of an image
//! registry pulled by nodes --> pollers: a pod with the image, and its container status
//! image stream, volume ------> read from the API server
//! ```
//!
//! Where pods are simulated, this process polls instead of a node.

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll::{PollMethod, PollResult, PolledVersion, Stream, of_claim, way};
use golden_images::cdi::poller::PollerState;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use parking_lot::Mutex;
use runtime::{Absent as _, Error, Key, Queue};

use super::poll::Polls;
use super::pollers::Pollers;
use super::view::ImportView;

/// Polls sources; clones share the results.
#[derive(Clone)]
pub(super) struct Polling {
    view: ImportView,
    polls: Polls,
    /// Set where pods run.
    pollers: Option<Pollers>,
    /// Results of image streams and volumes.
    results: Arc<Mutex<HashMap<Key, PollResult>>>,
    crons: Queue<Key>,
}

/// State of polling a source.
#[derive(Debug, Default)]
pub(super) struct PollState {
    /// The last result.
    pub(super) polled: Option<PollResult>,
    /// Why there is no result yet, if polling is blocked.
    pub(super) hindered: Option<Failure>,
    /// Whether the result comes from a poller pod, which can be deleted.
    pub(super) by_pod: bool,
}

impl Polling {
    pub(super) fn new(
        view: ImportView,
        polls: Polls,
        pollers: Option<Pollers>,
        crons: &Queue<Key>,
    ) -> Self {
        Self {
            view,
            polls,
            pollers,
            results: Arc::default(),
            crons: crons.clone(),
        }
    }

    /// Starts polling the source of a DataImportCron, which is enqueued when there is a result.
    pub(super) async fn ask(&self, cron: &DataImportCron) -> Result<(), Error> {
        match (way(cron), &self.pollers) {
            (PollMethod::Node, Some(pollers)) => pollers.start(cron).await?,
            (PollMethod::Node | PollMethod::Server, _) => self.polls.ask(cron),
            (PollMethod::Stream(stream), _) => {
                let found = self.stream(&stream).await?;
                self.answer(cron, found);
            }
            (PollMethod::Claim(of), _) => {
                let claim = self.view.claims.get(&of.namespace, &of.name);
                let claim = claim.filter(|it| it.metadata.deletion_timestamp.is_none());
                let uid = claim.as_ref().and_then(|it| it.metadata.uid.as_deref());
                self.answer(cron, of_claim(&of, uid));
            }
            (PollMethod::Unsupported, _) => {}
        }
        Ok(())
    }

    fn answer(&self, cron: &DataImportCron, answer: Result<PolledVersion, Failure>) {
        let key = Key::of(&cron.metadata);
        let mut results = self.results.lock();
        // Timestamps of the API have a resolution of one second, and a result is recognised by its time.
        let before = results.get(&key).map(|it| it.at);
        let after = before.and_then(|it| it.checked_add(SignedDuration::from_secs(1)).ok());
        let now = Timestamp::now();
        let at = after.filter(|after| *after > now).unwrap_or(now);
        results.insert(key.clone(), PollResult { at, answer });
        self.crons.add(key);
    }

    /// The last result for a DataImportCron.
    pub(super) fn state(&self, cron: &DataImportCron) -> PollState {
        let mut state = PollState::default();
        match (way(cron), &self.pollers) {
            (PollMethod::Node, Some(pollers)) => match pollers.state(cron) {
                Some(PollerState::Answered(answer)) => {
                    // The result has no time of its own. The pod is deleted once the status
                    // holds it, so it counts as new only once.
                    let at = Timestamp::now();
                    state.polled = Some(PollResult { at, answer });
                    state.by_pod = true;
                }
                Some(PollerState::Hindered(failure)) => state.hindered = Some(failure),
                Some(PollerState::Waiting) | None => {}
            },
            (PollMethod::Node | PollMethod::Server, _) => state.polled = self.polls.answer(cron),
            (PollMethod::Stream(_) | PollMethod::Claim(_), _) => {
                let key = Key::of(&cron.metadata);
                state.polled = self.results.lock().get(&key).cloned();
            }
            (PollMethod::Unsupported, _) => {}
        }
        state
    }

    /// Deletes the poller pod once its result is in the status.
    pub(super) async fn acknowledge(
        &self,
        cron: &DataImportCron,
        state: &PollState,
    ) -> Result<(), Error> {
        match &self.pollers {
            Some(pollers) if state.by_pod => pollers.remove(cron).await,
            _ => Ok(()),
        }
    }

    /// Drops the results of a deleted DataImportCron.
    pub(super) fn forget(&self, key: &Key) {
        self.results.lock().remove(key);
        if let Some(pollers) = &self.pollers {
            pollers.forget(key);
        }
    }

    /// Reads an image stream, on OpenShift.
    async fn stream(&self, stream: &Stream) -> Result<Result<PolledVersion, Failure>, Error> {
        let client = self.view.manager.client();
        let kind = GroupVersionKind::gvk("image.openshift.io", "v1", "ImageStream");
        let of = &stream.of;
        let operation = format!("getting ImageStream {}/{}", of.namespace, of.name);
        let known = match pinned_kind(&client, &kind).await.not_found_as_none() {
            Ok(Some((known, _))) => known,
            // Without the group this is not OpenShift: a failure of the source that the user has to correct, and not
            // an error to retry with backoff.
            Ok(None) | Err(kube::Error::Discovery(_)) => return Ok(Err(stream.unknown())),
            Err(error) => return Err(Error::api(operation)(error)),
        };
        let resource: &ApiResource = &known;
        let streams: Api<DynamicObject> = Api::namespaced_with(client, &of.namespace, resource);
        let found = streams.get_opt(&of.name).await;
        let found = found.map_err(Error::api(operation))?;
        Ok(stream.found(found.as_ref().map(|it| &it.data)))
    }
}
