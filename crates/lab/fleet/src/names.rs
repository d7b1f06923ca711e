//! The annotations and labels the fleet reads and writes.

use kube::api::ObjectMeta;

/// `"true"` on nodes whose kubelet the fleet simulates.
pub const SIMULATED: &str = "fleet.medley.dev/simulated";
/// `"true"` on nodes whose simulated kubelet has failed.
pub const FAILED: &str = "fleet.medley.dev/failed";
/// The pool a node came from.
pub const POOL: &str = "fleet.medley.dev/pool";
/// The CPU of a node: the name of a generation, or a description in JSON as fleet files have it.
pub const CPU: &str = "fleet.medley.dev/cpu";
/// On the ConfigMap with the image revisions: the address of the registry.
pub const REGISTRY: &str = "fleet.medley.dev/registry";

/// How long the containers of a pod run before they end.
pub const RUN_FOR: &str = "fleet.medley.dev/run-for";
/// Exit code of the containers.
pub const EXIT_CODE: &str = "fleet.medley.dev/exit-code";
/// Time until containers are ready.
pub const READY_AFTER: &str = "fleet.medley.dev/ready-after";
/// Time until containers stop after SIGTERM.
pub const STOP_AFTER: &str = "fleet.medley.dev/stop-after";
/// Why image pulls fail: `ErrImagePull` or `InvalidImageName`.
pub const FAIL_IMAGE: &str = "fleet.medley.dev/fail-image";

pub(crate) const ARCH: &str = "kubernetes.io/arch";
pub(crate) const OS: &str = "kubernetes.io/os";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
pub(crate) const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub(crate) const ROLE: &str = "node-role.kubernetes.io/";

/// The name of an object; empty if it is generated.
pub(crate) fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The namespace of an object; empty for cluster-scoped ones.
pub(crate) fn namespace_of(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// A label of an object.
pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether the annotation is set to `true`.
pub(crate) fn annotation_is_true(meta: &ObjectMeta, key: &str) -> bool {
    annotation(meta, key) == Some("true")
}
