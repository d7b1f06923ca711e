//! Release payloads, and whether a cluster has reached one completely.
//!
//! ```text
//! operators' folders + images --build--> files --mirror--> files --lint--> findings
//! files --payload--> Payload --evaluate--> Evaluation --conditions--> conditions of a ClusterVersion
//!                                 ^             `--report--> status, explain
//!                        ClusterOperators; conditions of the ClusterVersion --applied--> other manifests
//! images + inspection results --preflight--> whether a migration may start
//! history --history--> kind of each change
//! pods --evidence--> rollout state of operators, whether or not they report their images
//! all of it + former status --control--> status of the ReleasePolicy and, without another manager, of the
//!                                        ClusterVersion
//! ```
//!
//! A cluster that becomes multi-arch is updated to the same version with other images. By versions alone the update
//! would count as done at once. Operators therefore report their images along with their versions, and are done when
//! both equal those of the release. Rules, messages and limits are those of OpenShift's cluster-version operator, so
//! that results can be compared with it.
//!
//! Nothing here reads a file, a cluster, a registry or a clock.

pub mod adoption;
pub mod alerts;
pub mod applied;
pub mod build;
pub mod conditions;
pub mod control;
pub mod dashboard;
pub mod diagnose;
pub mod eta;
pub mod evaluate;
pub mod evidence;
pub mod explain;
pub mod failure;
pub mod history;
pub mod lint;
pub mod migrate;
pub mod mirror;
pub mod payload;
pub mod preflight;
pub mod reasons;
pub mod replace;
pub mod report;
pub mod roles;
pub mod rollout;
pub mod target;
pub mod verify;
