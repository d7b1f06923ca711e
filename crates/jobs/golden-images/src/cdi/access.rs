//! Who may copy what is in another namespace, as CDI asks it.
//!
//! The right is to create `datavolumes/source` there. Whoever may make pods there may read the volumes
//! anyway, and needs no other right; for a snapshot, that takes claims as well.

use api::cdi::{DataSourceRef, Named, Source};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};

/// Who makes copies, if nobody says otherwise.
pub const ACCOUNT: &str = "default";

/// A service account, as the cluster is asked about it.
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

/// The rights of which one list is enough to copy something.
pub fn rights(of: &Source) -> Vec<Vec<ResourceAttributes>> {
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
        vec![create(api::cdi::GROUP, "datavolumes", Some("source"))],
        pods,
    ]
}

/// What is said to whoever may not, in the words of CDI.
pub fn denial(user: &str, namespace: &str) -> String {
    format!("User {user} has insufficient permissions in clone source namespace {namespace}")
}
