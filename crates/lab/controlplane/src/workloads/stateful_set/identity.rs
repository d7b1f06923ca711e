//! Stable identity of a set's pods: names, labels and claims that outlive each pod.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::pods::pod_from_template;
use crate::object::{label, name};

/// Label with the revision of a pod.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The set's name and the ordinal in the name of a pod (`web-3`).
pub(super) fn parse(pod_name: &str) -> Option<(&str, i32)> {
    let (parent, number) = pod_name.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit an ordinal belongs to no set.
    digits
        .then(|| number.parse().ok())?
        .map(|number| (parent, number))
}

/// The ordinal of a pod; `None` if its name has none.
pub(super) fn ordinal(pod: &Pod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    parse(name).map(|(_, number)| number)
}

/// Whether the name of a pod matches the set's pattern.
pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parse(name(&pod.metadata)).is_some_and(|(parent, _)| parent == name(&set.metadata))
}

/// The revision of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    label(&pod.metadata, REVISION_LABEL).unwrap_or_default()
}

/// The pod of an ordinal, from the template of a revision.
pub(super) fn render_pod(
    set: &StatefulSet,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Pod {
    let mut pod = pod_from_template(set, template);
    pod.metadata.name = Some(pod_name(set, ordinal));
    let service = set.spec.as_ref().and_then(|it| it.service_name.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(pod_name(set, ordinal));
    spec.subdomain = service.filter(|service| !service.is_empty());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    set_identity(&mut pod, ordinal);
    set_storage(set, &mut pod, ordinal);
    pod
}

/// The pod with its identity restored; `None` if it is intact.
pub(super) fn repaired(set: &StatefulSet, pod: &Pod) -> Option<Pod> {
    let ordinal = ordinal(pod)?;
    let mut repaired = pod.clone();
    if label(&pod.metadata, POD_NAME_LABEL) != pod.metadata.name.as_deref() {
        set_identity(&mut repaired, ordinal);
    }
    if !storage_matches(set, pod, ordinal) {
        set_storage(set, &mut repaired, ordinal);
    }
    (repaired != *pod).then_some(repaired)
}

/// The claims of an ordinal, from the set's templates.
pub(super) fn render_claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let Some(spec) = &set.spec else {
        return Vec::new();
    };
    let selected = spec.selector.match_labels.clone().unwrap_or_default();
    let render = |template: &PersistentVolumeClaim| {
        let meta = &template.metadata;
        let mut labels = meta.labels.clone().unwrap_or_default();
        labels.extend(selected.clone());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(set, template, ordinal)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels).filter(|labels| !labels.is_empty()),
                annotations: meta.annotations.clone(),
                finalizers: meta.finalizers.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    };
    claim_templates(set).map(render).collect()
}

/// The names of an ordinal's claims.
pub(super) fn claim_names(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = String> {
    claim_templates(set).map(move |template| claim_name(set, template, ordinal))
}

/// The name of an ordinal's pod.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", name(&set.metadata))
}

fn claim_templates(set: &StatefulSet) -> impl Iterator<Item = &PersistentVolumeClaim> {
    set.spec
        .iter()
        .flat_map(|spec| spec.volume_claim_templates.iter().flatten())
}

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}", name(&template.metadata), pod_name(set, ordinal))
}

fn set_identity(pod: &mut Pod, ordinal: i32) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME_LABEL.to_owned(), name);
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// Volumes of claims come first, then those of the template that no claim replaces.
fn set_storage(set: &StatefulSet, pod: &mut Pod, ordinal: i32) {
    let mut volumes: Vec<Volume> = claim_templates(set)
        .map(|template| Volume {
            name: template.metadata.name.clone().unwrap_or_default(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, template, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    let spec = pod.spec.get_or_insert_default();
    for volume in spec.volumes.take().into_iter().flatten() {
        if volumes.iter().all(|claim| claim.name != volume.name) {
            volumes.push(volume);
        }
    }
    spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
}

fn storage_matches(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    claim_templates(set).all(|template| {
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        let mut claims = volumes
            .filter(|volume| Some(&volume.name) == template.metadata.name.as_ref())
            .filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.any(|claim| claim.claim_name == claim_name(set, template, ordinal))
    })
}
