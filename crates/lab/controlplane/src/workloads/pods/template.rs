//! Pods from templates.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use machinery::names::name_is_dns_subdomain;

/// The controller reference to this owner, with `blockOwnerDeletion` set.
pub(crate) fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    let meta = owner.meta();
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod from the template of its owner, with `generateName`.
pub(crate) fn pod_from_template<O: Resource<DynamicType = ()>>(
    owner: &O,
    template: &PodTemplateSpec,
) -> Pod {
    let meta = template.metadata.as_ref();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(name_prefix(
                owner.meta().name.as_deref().unwrap_or_default(),
            )),
            namespace: owner.meta().namespace.clone(),
            labels: meta.and_then(|meta| meta.labels.clone()),
            annotations: meta.and_then(|meta| meta.annotations.clone()),
            finalizers: meta.and_then(|meta| meta.finalizers.clone()),
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The owner's name and a dash, unless that is too long.
fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if name_is_dns_subdomain(&prefix, true).is_empty() {
        prefix
    } else {
        owner.to_owned()
    }
}
