//! Reports to a ClusterOperator which versions and images an operator truly runs.
//!
//! A cluster that becomes multi-arch is updated to the version that it has, with other images. Whoever
//! waits for it can only tell from `operator-image` and `<operand>-image` beside `operator` in
//! `status.versions`, and only if an operator does not say so before nothing of the old code runs. This
//! crate does that part for any operator, and `medley release report` does it beside one that is written
//! in another language.
//!
//! ```text
//! environment, flags --Versions--.
//! Deployment, pods --Rollout--> State --status--> ClusterOperatorStatus --Reporter--> one write
//! ```
//!
//! * [`Versions`]: what is to be reported. Placeholders that nobody replaced are refused.
//! * [`Rollout`]: whether the new code truly runs, by a Deployment or DaemonSet and its pods.
//! * [`State`]: `Available`, `Progressing` and `Degraded`, and whether the operator has arrived.
//! * [`Reporter`]: writes all of it at once, again where somebody else was faster, and not at all where
//!   nothing changed.
//! * [`Follow`]: does all of that whenever something changes.
//!
//! ```no_run
//! use clusteroperator_reporter::{Reporter, Rollout, State, Versions};
//!
//! # async fn example(client: kube::Client, deployment: k8s_openapi::api::apps::v1::Deployment,
//! #     pods: Vec<k8s_openapi::api::core::v1::Pod>) -> Result<(), Box<dyn std::error::Error>> {
//! // RELEASE_VERSION, OPERATOR_IMAGE and ROUTER_IMAGE, which the release has filled in.
//! let versions = Versions::read(|name| std::env::var(name).ok(), &["router"])?;
//! let mut state = State::of(&Rollout::of_deployment(&deployment, &pods), &versions);
//! if let Some(trouble) = look_after_my_routers() {
//!     state = state.degraded("RouterDegraded", trouble);
//! }
//! Reporter::new(client, "ingress").report(&versions, &state).await?;
//! # Ok(())
//! # }
//! # fn look_after_my_routers() -> Option<String> { None }
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
