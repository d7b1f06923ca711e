//! Permission to clone from another namespace, with the same checks as CDI.
//!
//! The permission is `create` on `datavolumes/source` there. A user who may create pods there can
//! read its PVCs anyway, and needs no other; for a snapshot, that user must also be able to create
//! PVCs.

use api::cdi::{DataSourceRef, Named, Source};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};

/// The service account that clones unless the spec names another.
pub const ACCOUNT: &str = "default";

/// A service account as the subject of a SubjectAccessReview.
pub fn service_account(namespace: &str, name: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        groups: Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]),
        ..SubjectAccessReviewSpec::default()
    }
}

/// The alternative sets of permissions; one complete set is enough to clone.
pub fn permissions(of: &Source) -> Vec<Vec<ResourceAttributes>> {
    let (of, snapshot): (&Named, bool) = match of.which() {
        Some(DataSourceRef::Pvc(of)) => (of, false),
        Some(DataSourceRef::Snapshot(of)) => (of, true),
        Some(DataSourceRef::DataSource(_)) | None => return Vec::new(),
    };
    let create = |group: &str, resource: &str, part: Option<&str>| ResourceAttributes {
        namespace: Some(of.namespace.clone()),
        verb: Some("create".to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: part.map(str::to_owned),
        name: Some(of.name.clone()),
        ..ResourceAttributes::default()
    };
    let mut pods = vec![create("", "pods", None)];
    if snapshot {
        pods.push(create("", "persistentvolumeclaims", None));
    }
    vec![
        // In this order the explicit permission decides with one review, the usual case. The rules
        // are in authorize_utils.go of CDI's API module.
        vec![create(api::cdi::GROUP, "datavolumes", Some("source"))],
        pods,
    ]
}

/// The denial message, in CDI's words.
pub fn denial(user: &str, namespace: &str) -> String {
    format!("User {user} has insufficient permissions in clone source namespace {namespace}")
}
