//! Asking the sources of DataImportCrons for their version, each in its way.
//!
//! ```text
//! registry ------------------> polls, once for all who ask the same
//! registry that nodes reach -> pollers: a pod of the image, and what the kubelet says of it
//! image stream, volume ------> looked at here
//! ```
//!
//! Where no pods run, this process is the node.

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll::{Found, Polled, Stream, Way, of_claim, way};
use golden_images::cdi::poller::Seen;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use parking_lot::Mutex;
use runtime::{Error, Key, Queue};

use super::poll::Polls;
use super::pollers::Pollers;
use super::world::World;

/// Asks; clones share what was answered.
#[derive(Clone)]
pub(super) struct Asking {
    world: World,
    polls: Polls,
    /// Where pods run.
    pollers: Option<Pollers>,
    /// Of image streams and volumes.
    answers: Arc<Mutex<HashMap<Key, Polled>>>,
    crons: Queue<Key>,
}

/// What was heard of a source.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The last answer.
    pub(super) polled: Option<Polled>,
    /// Why there is none yet, if something is in the way.
    pub(super) hindered: Option<Failure>,
    /// Whether the answer is that of a pod, which is not needed any more.
    pub(super) by_pod: bool,
}

impl Asking {
    pub(super) fn new(
        world: World,
        polls: Polls,
        pollers: Option<Pollers>,
        crons: &Queue<Key>,
    ) -> Self {
        Self {
            world,
            polls,
            pollers,
            answers: Arc::default(),
            crons: crons.clone(),
        }
    }

    /// Has the source of a DataImportCron asked. When there is an answer, it is in the queue again.
    pub(super) async fn ask(&self, cron: &DataImportCron) -> Result<(), Error> {
        match (way(cron), &self.pollers) {
            (Way::Node, Some(pollers)) => pollers.start(cron).await?,
            (Way::Node | Way::Server, _) => self.polls.ask(cron),
            (Way::Stream(stream), _) => {
                let found = self.stream(&stream).await?;
                self.answer(cron, found);
            }
            (Way::Claim(of), _) => {
                let claim = self.world.claims.get(&of.namespace, &of.name);
                let claim = claim.filter(|it| it.metadata.deletion_timestamp.is_none());
                let uid = claim.as_ref().and_then(|it| it.metadata.uid.as_deref());
                self.answer(cron, of_claim(&of, uid));
            }
            (Way::Nobody, _) => {}
        }
        Ok(())
    }

    fn answer(&self, cron: &DataImportCron, answer: Result<Found, Failure>) {
        let key = Key::of(&cron.metadata);
        let mut answers = self.answers.lock();
        // Objects keep whole seconds, and no two answers may have the same.
        let before = answers.get(&key).map(|it| it.at);
        let after = before.and_then(|it| it.checked_add(SignedDuration::from_secs(1)).ok());
        let now = Timestamp::now();
        let at = after.filter(|after| *after > now).unwrap_or(now);
        answers.insert(key.clone(), Polled { at, answer });
        self.crons.add(key);
    }

    /// What the source of a DataImportCron said last.
    pub(super) fn hear(&self, cron: &DataImportCron) -> Heard {
        let mut heard = Heard::default();
        match (way(cron), &self.pollers) {
            (Way::Node, Some(pollers)) => match pollers.look(cron) {
                Some(Seen::Answered(answer)) => {
                    let at = Timestamp::now();
                    heard.polled = Some(Polled { at, answer });
                    heard.by_pod = true;
                }
                Some(Seen::Hindered(failure)) => heard.hindered = Some(failure),
                Some(Seen::Waiting) | None => {}
            },
            (Way::Node | Way::Server, _) => heard.polled = self.polls.answer(cron),
            (Way::Stream(_) | Way::Claim(_), _) => {
                let key = Key::of(&cron.metadata);
                heard.polled = self.answers.lock().get(&key).cloned();
            }
            (Way::Nobody, _) => {}
        }
        heard
    }

    /// What was heard is written down.
    pub(super) async fn noted(&self, cron: &DataImportCron, heard: &Heard) -> Result<(), Error> {
        match &self.pollers {
            Some(pollers) if heard.by_pod => pollers.remove(cron).await,
            _ => Ok(()),
        }
    }

    /// A DataImportCron is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.answers.lock().remove(key);
        if let Some(pollers) = &self.pollers {
            pollers.forget(key);
        }
    }

    /// Looks at an image stream, where the cluster has such.
    async fn stream(&self, stream: &Stream) -> Result<Result<Found, Failure>, Error> {
        let client = self.world.manager.client();
        let kind = GroupVersionKind::gvk("image.openshift.io", "v1", "ImageStream");
        let of = &stream.of;
        let operation = format!("getting ImageStream {}/{}", of.namespace, of.name);
        let known = match pinned_kind(&client, &kind).await {
            Ok((known, _)) => known,
            Err(kube::Error::Discovery(_)) => return Ok(Err(stream.unknown())),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Ok(Err(stream.unknown()));
            }
            Err(error) => return Err(Error::api(operation)(error)),
        };
        let resource: &ApiResource = &known;
        let streams: Api<DynamicObject> = Api::namespaced_with(client, &of.namespace, resource);
        let found = streams.get_opt(&of.name).await;
        let found = found.map_err(Error::api(operation))?;
        Ok(stream.found(found.as_ref().map(|it| &it.data)))
    }
}
