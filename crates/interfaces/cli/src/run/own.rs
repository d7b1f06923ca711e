//! The operator's own ClusterOperator, where a release includes Medley.

use clap::Args;
use clusteroperator_reporter::{
    Follow, FollowError, OPERATOR_IMAGE_VARIABLE, RELEASE_VARIABLE, Reporter, Seen, Versions,
    Workload, WorkloadKind, Written,
};
use kube::Client;
use tracing::{debug, info, warn};

/// Name of the ClusterOperator.
const NAME: &str = "medley";

/// Flags that a release sets on its operators.
#[derive(Debug, Args)]
pub(super) struct OwnArguments {
    /// Version to report to ClusterOperator medley, if the cluster has the CRD.
    /// [default: report nothing]
    #[arg(long, value_name = "VERSION", env = RELEASE_VARIABLE)]
    release_version: Option<String>,

    /// Image to report to ClusterOperator medley, as in the release.
    #[arg(long, value_name = "IMAGE", env = OPERATOR_IMAGE_VARIABLE)]
    operator_image: Option<String>,

    /// Deployment that this process runs in. Nothing is reported before its rollout is complete.
    #[arg(long, value_name = "NAME", env = "MEDLEY_OPERATOR_DEPLOYMENT")]
    #[arg(default_value = controllers::ACCOUNT)]
    operator_deployment: String,
}

impl OwnArguments {
    /// The reporter's configuration, if a version is set.
    pub(super) fn follow(self, client: Client, namespace: &str) -> Option<Follow> {
        let version = self.release_version.filter(|it| !it.is_empty())?;
        let variable = |name: &str| match name {
            RELEASE_VARIABLE => Some(version.clone()),
            OPERATOR_IMAGE_VARIABLE => self.operator_image.clone(),
            _ => None,
        };
        // Other controllers still run if the release was built incorrectly.
        let versions = match Versions::read(variable, &[]) {
            Ok(versions) => versions,
            Err(error) => {
                warn!(%error, "not reporting to ClusterOperator {NAME}");
                return None;
            }
        };
        let related = api::openshift::ObjectReference {
            resource: "namespaces".to_owned(),
            name: namespace.to_owned(),
            ..api::openshift::ObjectReference::default()
        };
        let reporter = Reporter::new(client.clone(), NAME).with_related(vec![related]);
        let workload = Workload {
            kind: WorkloadKind::Deployment,
            namespace: namespace.to_owned(),
            name: self.operator_deployment,
        };
        Some(Follow::new(client, reporter, versions, workload))
    }
}

/// Reports until it is cancelled.
pub(super) async fn report(follow: Follow) {
    let never = follow.run(log_result).await;
    match never {}
}

fn log_result(seen: Result<Seen, FollowError>) {
    match seen {
        Ok(seen) => match seen.written.event(NAME) {
            Some(message) => info!(message),
            None if seen.written == Written::NotInstalled => {
                debug!("the cluster has no ClusterOperators: not reporting");
            }
            None => debug!(missing = seen.rollout.why(), "ClusterOperator {NAME}"),
        },
        Err(error) => debug!(%error, "reporting to ClusterOperator {NAME} failed"),
    }
}
