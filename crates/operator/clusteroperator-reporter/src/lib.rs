//! Reports the versions and images that an operator runs in `status.versions` of its ClusterOperator.
//!
//! A cluster migrates to multi-arch by an update to its own version with other images. Progress is visible only in
//! `operator-image` and `<operand>-image` beside `operator` in `status.versions`, and only if an operator reports them
//! not before the last old pod has ended. This crate implements that rule for any operator; `medley release report`
//! runs it as a sidecar of operators in other languages.
//!
//! ```text
//! environment, flags --Versions--.
//! Deployment, pods --Rollout--> State --status--> ClusterOperatorStatus --Reporter--> one write
//! ```
//!
//! * [`Versions`]: the versions to report. Placeholders of an incomplete release build are rejected.
//! * [`Rollout`]: whether all pods of a Deployment or DaemonSet run the new code.
//! * [`State`]: `Available`, `Progressing` and `Degraded`, and whether the operator has arrived.
//! * [`Reporter`]: writes all of it in one status update; retries on conflict, and skips unchanged statuses.
//! * [`Follow`]: reports on every change.
//!
//! ```no_run
//! use clusteroperator_reporter::{Reporter, Rollout, State, Versions};
//!
//! # async fn example(client: kube::Client, deployment: k8s_openapi::api::apps::v1::Deployment,
//! #     pods: Vec<k8s_openapi::api::core::v1::Pod>) -> Result<(), Box<dyn std::error::Error>> {
//! // RELEASE_VERSION, OPERATOR_IMAGE and ROUTER_IMAGE, which the release build sets.
//! let versions = Versions::read(|name| std::env::var(name).ok(), &["router"])?;
//! let mut state = State::of(&Rollout::of_deployment(&deployment, &pods), &versions);
//! if let Some(message) = check_routers() {
//!     state = state.degraded("RouterDegraded", message);
//! }
//! Reporter::new(client, "ingress").report(&versions, &state).await?;
//! # Ok(())
//! # }
//! # fn check_routers() -> Option<String> { None }
//! ```

mod follow;
pub mod roles;
mod rollout;
mod status;
mod versions;
mod write;

pub use follow::{Follow, FollowError, Seen, Workload, WorkloadKind};
pub use rollout::Rollout;
pub use status::{Claim, State, next};
pub use versions::{
    OPERATOR, OPERATOR_IMAGE, OPERATOR_IMAGE_VARIABLE, RELEASE_VARIABLE, Versions, VersionsError,
};
pub use write::{Reporter, WriteError, Written};
