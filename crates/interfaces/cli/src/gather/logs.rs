//! Logs of Medley's own pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client, ResourceExt as _};

/// Label of Medley's own pods.
pub(super) const OURS: &str = "app.kubernetes.io/part-of=medley";

/// Size limit of one log in bytes.
const MAX_LOG_BYTES: i64 = 16 << 20;

/// Log of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    /// Of the previous, terminated container.
    pub(super) previous: bool,
}

impl Log {
    /// Path in the bundle.
    pub(super) fn path(&self) -> String {
        let Self {
            namespace,
            pod,
            container,
            ..
        } = self;
        let which = if self.previous { "previous" } else { "current" };
        format!("namespaces/{namespace}/pods/{pod}/{container}/{container}/logs/{which}.log")
    }

    /// Reads the log.
    pub(super) async fn read(
        &self,
        client: &Client,
        since: Option<Timestamp>,
    ) -> kube::Result<String> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let params = LogParams {
            container: Some(self.container.clone()),
            previous: self.previous,
            since_time: since,
            timestamps: true,
            limit_bytes: Some(MAX_LOG_BYTES),
            ..LogParams::default()
        };
        pods.logs(&self.pod, &params).await
    }
}

/// The logs of a pod.
pub(super) fn of_pod(pod: &Pod) -> Vec<Log> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|it| it.container_statuses.as_ref());
    let restarted = |name: &str| {
        let mut statuses = statuses.into_iter().flatten();
        statuses.any(|it| it.name == name && it.restart_count > 0)
    };
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    containers
        .flat_map(|container| {
            let log = |previous| Log {
                namespace: pod.namespace().unwrap_or_default(),
                pod: pod.name_any(),
                container: container.name.clone(),
                previous,
            };
            let before = restarted(&container.name).then(|| log(true));
            [Some(log(false)), before].into_iter().flatten()
        })
        .collect()
}
