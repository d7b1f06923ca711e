//! Reporting whenever something changes.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use api::openshift::ClusterOperator;
use futures::future::Either;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::Selector;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};

use crate::rollout::Rollout;
use crate::status::State;
use crate::versions::{OPERATOR_IMAGE, Versions};
use crate::write::{Reporter, WriteError, Written};

/// How often is looked when nothing seems to change.
const PERIOD: Duration = Duration::from_mins(5);
/// How long changes are gathered: one rollout is many.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a failure is waited out.
const RETRY: Duration = Duration::from_secs(5);

/// What a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A Deployment.
    Deployment,
    /// A DaemonSet.
    DaemonSet,
}

/// The workload that the code runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// What it is.
    pub kind: WorkloadKind,
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::DaemonSet => "DaemonSet",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// What was seen, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// How far the workload is.
    pub rollout: Rollout,
    /// What came of the report.
    pub written: Written,
}

/// Why nothing could be reported.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The workload or its pods cannot be looked at.
    #[error("reading {workload}: {cause}")]
    Read {
        /// The workload.
        workload: Workload,
        /// Why not.
        cause: Box<kube::Error>,
    },
    /// The workload selects pods in a way that makes no sense.
    #[error("reading {workload}: its selector makes no sense: {why}")]
    Selector {
        /// The workload.
        workload: Workload,
        /// Why not.
        why: String,
    },
    /// The report was refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Reports for a workload. For the operator itself, and for a sidecar of it.
#[derive(Clone)]
pub struct Follow {
    client: Client,
    reporter: Reporter,
    versions: Versions,
    workload: Workload,
}

/// A workload and its pods, as they are.
struct Found {
    rollout: Rollout,
    selector: Selector,
}

impl Follow {
    /// Reports these versions in the name of the reporter when this workload truly runs.
    pub fn new(client: Client, reporter: Reporter, versions: Versions, workload: Workload) -> Self {
        Self {
            client,
            reporter,
            versions,
            workload,
        }
    }

    /// Looks and reports once.
    pub async fn once(&self) -> Result<Seen, FollowError> {
        let found = self.look().await?;
        let mut rollout = found.rollout;
        if let Rollout::Underway { why, .. } = &mut rollout {
            *why = format!("{}: {why}", self.workload);
        }
        let state = State::of(&rollout, &self.versions);
        let written = self.reporter.report(&self.versions, &state).await?;
        Ok(Seen { rollout, written })
    }

    /// Looks and reports whenever the workload, its pods or the ClusterOperator change, and tells what came
    /// of it. It never ends by itself, and may be ended at any time.
    pub async fn run(&self, mut tell: impl FnMut(Result<Seen, FollowError>)) -> Infallible {
        loop {
            // What pods are looked at may have changed with the workload.
            let selector = match self.look().await {
                Ok(found) => found.selector,
                Err(error) => {
                    tell(Err(error));
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            let mut changes = self.changes(&selector);
            loop {
                let seen = self.once().await;
                let failed = seen.is_err();
                tell(seen);
                if failed {
                    tokio::time::sleep(RETRY).await;
                    break;
                }
                // That nothing came for a while is a reason to look as well.
                let _ = tokio::time::timeout(PERIOD, changes.next()).await;
                tokio::time::sleep(PAUSE).await;
                while let Some(Some(())) = futures::FutureExt::now_or_never(changes.next()) {}
            }
        }
    }

    fn changes(&self, selector: &Selector) -> BoxStream<'static, ()> {
        let Workload {
            kind,
            namespace,
            name,
        } = &self.workload;
        let named =
            |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let workload = match kind {
            WorkloadKind::Deployment => Either::Left(follow::<Deployment>(
                Api::namespaced(self.client.clone(), namespace),
                named(name),
            )),
            WorkloadKind::DaemonSet => Either::Right(follow::<DaemonSet>(
                Api::namespaced(self.client.clone(), namespace),
                named(name),
            )),
        };
        let pods = follow::<Pod>(
            Api::namespaced(self.client.clone(), namespace),
            watcher::Config::default().labels_from(selector),
        );
        let operator =
            follow::<ClusterOperator>(Api::all(self.client.clone()), named(self.reporter.name()));
        stream::select_all([workload.boxed(), pods.boxed(), operator.boxed()]).boxed()
    }

    async fn look(&self) -> Result<Found, FollowError> {
        let Workload {
            kind,
            namespace,
            name,
        } = &self.workload;
        let read = |cause| FollowError::Read {
            workload: self.workload.clone(),
            cause: Box::new(cause),
        };
        let (client, pods) = (
            self.client.clone(),
            Api::namespaced(self.client.clone(), namespace),
        );
        match kind {
            WorkloadKind::Deployment => {
                let api: Api<Deployment> = Api::namespaced(client, namespace);
                let found = api.get(name).await.map_err(read)?;
                let spec = found.spec.as_ref();
                let selector = self.selector(spec.map(|it| &it.selector))?;
                let pods = select(&pods, &selector).await.map_err(read)?;
                let rollout = Rollout::of_deployment(&found, &pods);
                Ok(self.found(rollout, spec.map(|it| &it.template), selector))
            }
            WorkloadKind::DaemonSet => {
                let api: Api<DaemonSet> = Api::namespaced(client, namespace);
                let found = api.get(name).await.map_err(read)?;
                let spec = found.spec.as_ref();
                let selector = self.selector(spec.map(|it| &it.selector))?;
                let pods = select(&pods, &selector).await.map_err(read)?;
                let rollout = Rollout::of_daemon_set(&found, &pods);
                Ok(self.found(rollout, spec.map(|it| &it.template), selector))
            }
        }
    }

    fn found(
        &self,
        rollout: Rollout,
        template: Option<&PodTemplateSpec>,
        selector: Selector,
    ) -> Found {
        let rollout = match self.versions.get(OPERATOR_IMAGE) {
            Some(image) => rollout.of_image(template, image),
            None => rollout,
        };
        Found { rollout, selector }
    }

    fn selector(&self, selector: Option<&LabelSelector>) -> Result<Selector, FollowError> {
        let selector = selector.cloned().unwrap_or_default();
        Selector::try_from(selector).map_err(|error| FollowError::Selector {
            workload: self.workload.clone(),
            why: error.to_string(),
        })
    }
}

async fn select(pods: &Api<Pod>, selector: &Selector) -> Result<Vec<Pod>, kube::Error> {
    let params = ListParams::default().labels_from(selector);
    Ok(pods.list(&params).await?.items)
}

/// That something changed, or could not be followed for a moment.
fn follow<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = ()> + Send + 'static
where
    K: Resource<DynamicType = ()>
        + Clone
        + fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    watcher(api, config).default_backoff().map(|_| ())
}
