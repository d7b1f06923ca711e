//! Reporting on every change.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::openshift::ClusterOperator;
use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, Client};
use runtime::{Cache, Kind};
use tokio::sync::Notify;

use crate::rollout::Rollout;
use crate::status::State;
use crate::versions::{OPERATOR_IMAGE, Versions};
use crate::write::{Reporter, WriteError, Written};

/// Resync interval, in case a watch event was missed.
// Five minutes bound how long a missed event can delay the report of a completed rollout.
const RESYNC_INTERVAL: Duration = Duration::from_mins(5);
/// Interval of passes while ClusterOperators are not served.
// The reflector of a kind that is not served backs off by minutes, so it does not announce a CRD that was just installed.
const NOT_INSTALLED_INTERVAL: Duration = Duration::from_secs(30);
/// Batch window of changes: a rollout causes many.
const BATCH_WINDOW: Duration = Duration::from_millis(100);
/// Delay after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Kind of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A Deployment.
    Deployment,
    /// A DaemonSet.
    DaemonSet,
}

/// The workload that runs the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Deployment or DaemonSet.
    pub kind: WorkloadKind,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
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

/// Result of one pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// State of the rollout.
    pub rollout: Rollout,
    /// Result of the write.
    pub written: Written,
}

/// Why nothing could be reported.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The workload or its pods cannot be read.
    #[error("reading {workload}: {cause}")]
    Read {
        /// The workload.
        workload: Workload,
        /// Error of the API client.
        cause: Box<kube::Error>,
    },
    /// The selector of the workload is invalid.
    #[error("reading {workload}: invalid selector: {why}")]
    Selector {
        /// The workload.
        workload: Workload,
        /// What is invalid.
        why: String,
    },
    /// The ClusterOperator cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Reports for a workload, in the operator itself or in a sidecar.
#[derive(Clone)]
pub struct Follow {
    client: Client,
    reporter: Reporter,
    versions: Versions,
    workload: Workload,
}

/// A workload and its pods.
struct WorkloadState {
    rollout: Rollout,
    selector: Selector,
}

impl Follow {
    /// Reports these versions through `reporter` once the workload runs them.
    pub fn new(client: Client, reporter: Reporter, versions: Versions, workload: Workload) -> Self {
        Self {
            client,
            reporter,
            versions,
            workload,
        }
    }

    /// Runs one pass.
    pub async fn once(&self) -> Result<Seen, FollowError> {
        let found = self.read().await?;
        let mut rollout = found.rollout;
        if let Rollout::Underway { why, .. } = &mut rollout {
            *why = format!("{}: {why}", self.workload);
        }
        let state = State::of(&rollout, &self.versions);
        let written = self.reporter.report(&self.versions, &state).await?;
        Ok(Seen { rollout, written })
    }

    /// Runs a pass whenever the workload, its pods or the ClusterOperator change, and calls `notify` with the result.
    /// Never returns; may be dropped at any time.
    pub async fn run(&self, mut notify: impl FnMut(Result<Seen, FollowError>)) -> Infallible {
        loop {
            // The selector may have changed with the workload.
            let selector = match self.read().await {
                Ok(found) => found.selector,
                Err(error) => {
                    notify(Err(error));
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            let changed = Arc::new(Notify::new());
            let passes = self.passes(&changed, &mut notify);
            tokio::select! {
                () = passes => {}
                // Reflectors reconnect by themselves and do not end.
                _ = future::join_all(self.reflectors(&selector, &changed)) => {}
            }
        }
    }

    /// Runs passes until one fails, or until the kind is served: reflectors are then started anew.
    async fn passes(&self, changed: &Notify, notify: &mut impl FnMut(Result<Seen, FollowError>)) {
        let mut was_missing = false;
        loop {
            let seen = self.once().await;
            let failed = seen.is_err();
            let missing = matches!(&seen, Ok(seen) if seen.written == Written::NotInstalled);
            notify(seen);
            if failed {
                return tokio::time::sleep(RETRY_DELAY).await;
            }
            if was_missing && !missing {
                return;
            }
            was_missing = missing;
            let interval = if missing {
                NOT_INSTALLED_INTERVAL
            } else {
                RESYNC_INTERVAL
            };
            // A timeout is a resync.
            let _ = tokio::time::timeout(interval, changed.notified()).await;
            tokio::time::sleep(BATCH_WINDOW).await;
            // Consumes the permit of changes within the window, which the pass that follows sees anyway.
            let _ = changed.notified().now_or_never();
        }
    }

    /// Watches of everything that a pass reads.
    fn reflectors(
        &self,
        selector: &Selector,
        changed: &Arc<Notify>,
    ) -> [BoxFuture<'static, ()>; 3] {
        let Workload {
            kind,
            namespace,
            name,
        } = &self.workload;
        let client = || self.client.clone();
        let workload = match kind {
            WorkloadKind::Deployment => {
                let api: Api<Deployment> = Api::namespaced(client(), namespace);
                reflector(Cache::follow_named(api, name), changed)
            }
            WorkloadKind::DaemonSet => {
                let api: Api<DaemonSet> = Api::namespaced(client(), namespace);
                reflector(Cache::follow_named(api, name), changed)
            }
        };
        let pods: Api<Pod> = Api::namespaced(client(), namespace);
        // Only that pods change matters here: a pass reads them.
        let trim = |pod: &mut Pod| (pod.spec, pod.status) = (None, None);
        let pods = Cache::follow_labelled(pods, &selector.to_string(), trim);
        let operators: Api<ClusterOperator> = Api::all(client());
        let operator = Cache::follow_named(operators, self.reporter.name());
        [
            workload,
            reflector(pods, changed),
            reflector(operator, changed),
        ]
    }

    async fn read(&self) -> Result<WorkloadState, FollowError> {
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
    ) -> WorkloadState {
        let rollout = match self.versions.get(OPERATOR_IMAGE) {
            Some(image) => rollout.of_image(template, image),
            None => rollout,
        };
        WorkloadState { rollout, selector }
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

/// The reflector of a cache, which notifies of every change.
fn reflector<K: Kind>(
    (cache, reflector): (Cache<K>, impl Future<Output = ()> + Send + 'static),
    changed: &Arc<Notify>,
) -> BoxFuture<'static, ()> {
    let changed = Arc::clone(changed);
    cache.on_change(move |_| changed.notify_one());
    reflector.boxed()
}
