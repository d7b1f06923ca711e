//! What the operator says of itself where a release has it: its own ClusterOperator.

use clap::Args;
use clusteroperator_reporter::{
    Follow, FollowError, OPERATOR_IMAGE_VARIABLE, RELEASE_VARIABLE, Reporter, Seen, Versions,
    Workload, WorkloadKind, Written,
};
use kube::Client;
use tracing::{debug, info, warn};

/// The ClusterOperator.
const NAME: &str = "medley";

/// What a release tells its operators.
#[derive(Debug, Args)]
pub(super) struct OwnArguments {
    /// The version to report to ClusterOperator medley, where the cluster has the kind. Nothing is reported
    /// without one.
    #[arg(long, value_name = "VERSION", env = RELEASE_VARIABLE)]
    release_version: Option<String>,

    /// The image to report there, as the release writes it.
    #[arg(long, value_name = "IMAGE", env = OPERATOR_IMAGE_VARIABLE)]
    operator_image: Option<String>,

    /// The Deployment that this one runs in: nothing is reported before all of it is new.
    #[arg(
        long,
        value_name = "NAME",
        env = "MEDLEY_OPERATOR_DEPLOYMENT",
        default_value = controllers::ACCOUNT
    )]
    operator_deployment: String,
}

impl OwnArguments {
    /// What is to be reported, if anything is.
    pub(super) fn follow(self, client: Client, namespace: &str) -> Option<Follow> {
        let version = self.release_version.filter(|it| !it.is_empty())?;
        let variable = |name: &str| match name {
            RELEASE_VARIABLE => Some(version.clone()),
            OPERATOR_IMAGE_VARIABLE => self.operator_image.clone(),
            _ => None,
        };
        // A release that was not built properly is no reason to do nothing else.
        let versions = match Versions::read(variable, &[]) {
            Ok(versions) => versions,
            Err(error) => {
                warn!(%error, "nothing is reported to ClusterOperator {NAME}");
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

/// Reports until it is ended.
pub(super) async fn report(follow: Follow) {
    let never = follow.run(tell).await;
    match never {}
}

fn tell(seen: Result<Seen, FollowError>) {
    match seen {
        Ok(seen) => match seen.written.event(NAME) {
            Some(message) => info!(message),
            None if seen.written == Written::NotInstalled => {
                debug!("the cluster has no ClusterOperators: nothing is reported");
            }
            None => debug!(missing = seen.rollout.why(), "ClusterOperator {NAME}"),
        },
        Err(error) => debug!(%error, "nothing could be reported to ClusterOperator {NAME}"),
    }
}
