//! The permission to view and clone golden images: all users of the cluster have it, as in
//! upstream's SSP operator.

use api::cdi::GROUP;
use api::ssp::{GOLDEN_NAMESPACE, SSP};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Owner;

/// The name of the role and its binding.
pub const NAME: &str = "os-images.kubevirt.io:view";

const RBAC: &str = "rbac.authorization.k8s.io";
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
/// All authenticated users and all service accounts.
const AUTHENTICATED_GROUPS: [&str; 2] = ["system:authenticated", "system:serviceaccounts"];

/// The RBAC rules of the role, in upstream's order: it rewrites any other when it takes over. Its
/// creator must have them, too.
pub fn rules() -> Vec<PolicyRule> {
    let read = ["get", "list", "watch"].as_slice();
    let claims = ["persistentvolumeclaims", "persistentvolumeclaims/status"];
    let snapshots = ["volumesnapshots", "volumesnapshots/status"];
    [
        ("", claims.as_slice(), read),
        (SNAPSHOTS, &snapshots, read),
        (GROUP, &["datavolumes"], read),
        (GROUP, &["datavolumes/source"], &["create"]),
        (GROUP, &["datasources"], read),
        (GROUP, &["dataimportcrons"], read),
        ("", &["namespaces"], read),
    ]
    .into_iter()
    .map(|(group, resources, verbs)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    })
    .collect()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The role, owned by an SSP.
pub fn role(ssp: &SSP) -> Role {
    Role {
        metadata: meta(ssp),
        rules: Some(rules()),
    }
}

/// The binding to all users, owned by an SSP.
pub fn binding(ssp: &SSP) -> RoleBinding {
    let subjects = AUTHENTICATED_GROUPS.map(|name| Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "Group".to_owned(),
        name: name.to_owned(),
        namespace: None,
    });
    RoleBinding {
        metadata: meta(ssp),
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "Role".to_owned(),
            name: NAME.to_owned(),
        },
        subjects: Some(subjects.into()),
    }
}

fn meta(ssp: &SSP) -> ObjectMeta {
    let notes = Owner::of(ssp).annotations();
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(GOLDEN_NAMESPACE.to_owned()),
        annotations: Some(notes.map(|(name, value)| (name.to_owned(), value)).into()),
        ..ObjectMeta::default()
    }
}

/// Whether an object was created for an SSP, by Medley or by the upstream operator. Other objects
/// are not touched.
pub fn is_of(meta: &ObjectMeta, ssp: &SSP) -> bool {
    Owner::of(ssp).owns(meta)
}
