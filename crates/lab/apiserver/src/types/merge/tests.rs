use rstest::rstest;
use serde_json::json;

use super::*;

fn map(name: &str) -> MapType {
    let id = table().find(name).unwrap();
    let schema = merge_schema();
    schema
        .resolve(&merge_type(id))
        .unwrap()
        .map
        .clone()
        .unwrap()
}

fn list(name: &str, field: &str) -> ListRelation {
    match map(name).fields.get(field).unwrap() {
        TypeRef::Inline(ty) => ty.list.clone().unwrap().relation,
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case("core/v1.Container", "env", &[("name", Some(json!("")))])]
// The key is not that of the strategic merge, and the protocol may be left out.
#[case("core/v1.Container", "ports", &[("containerPort", Some(json!(0))), ("protocol", Some(json!("TCP")))])]
#[case("core/v1.ServiceSpec", "ports", &[("port", Some(json!(0))), ("protocol", Some(json!("TCP")))])]
#[case("core/v1.PodSpec", "topologySpreadConstraints", &[("topologyKey", Some(json!(""))), ("whenUnsatisfiable", Some(json!("")))])]
#[case("core/v1.ServiceAccount", "secrets", &[("name", None)])]
fn keyed_lists(#[case] name: &str, #[case] field: &str, #[case] keys: &[(&str, Option<Value>)]) {
    let expected = keys
        .iter()
        .map(|(name, default)| ListKey {
            name: (*name).into(),
            default: default.clone(),
        })
        .collect();
    assert_eq!(list(name, field), ListRelation::Map(expected));
}

#[test]
fn other_lists() {
    assert_eq!(list("core/v1.Container", "args"), ListRelation::Atomic);
    // A list type takes precedence over the strategic merge strategy.
    assert_eq!(
        list("batch/v1.JobStatus", "conditions"),
        ListRelation::Atomic
    );
    assert_eq!(list("core/v1.NodeSpec", "podCIDRs"), ListRelation::Set);
    // Without either a list is atomic.
    assert_eq!(list("core/v1.PodList", "items"), ListRelation::Atomic);
}

#[test]
fn atomic_and_granular_maps() {
    assert!(map("meta/v1.LabelSelector").atomic);
    assert!(map("core/v1.ObjectReference").atomic);
    assert!(!map("core/v1.PodSpec").atomic);
    let atomic = |name: &str, field: &str| match map(name).fields.get(field).unwrap() {
        TypeRef::Inline(ty) => ty.map.clone().unwrap().atomic,
        other => panic!("{other:?}"),
    };
    assert!(atomic("core/v1.PodSpec", "nodeSelector"));
    assert!(!atomic("core/v1.ConfigMap", "data"));
    // The claim reference of a volume is merged, although object references are atomic elsewhere.
    assert!(!atomic("core/v1.PersistentVolumeSpec", "claimRef"));
}

#[test]
fn fields_of_embedded_structs_are_declared() {
    let volume = map("core/v1.Volume");
    assert!(volume.fields.contains_key("hostPath"));
    assert_eq!(volume.element, None);
    assert_eq!(
        volume.fields["configMap"],
        TypeRef::Named("io.k8s.api.core.v1.ConfigMapVolumeSource".into())
    );
}

#[test]
fn any_json_is_deduced() {
    assert_eq!(
        map("apps/v1.ControllerRevision").fields["data"],
        TypeRef::Atomic
    );
    assert_eq!(
        map("apiextensions/v1.JSONSchemaProps").fields["default"],
        TypeRef::Deduced
    );
    assert_eq!(
        map("apiextensions/v1.CustomResourceSubresourceStatus").element,
        Some(TypeRef::Deduced)
    );
}

#[test]
fn every_reference_resolves() {
    let schema = merge_schema();
    let mut checked = 0;
    for (id, _) in table().structures() {
        let reference = merge_type(id);
        let ty = schema.resolve(&reference).expect("named type");
        let fields = &ty.map.as_ref().expect("struct").fields;
        for reference in fields.values() {
            let ty = schema.resolve(reference).expect("field");
            let inner = ty.list.as_ref().map(|l| &l.element);
            let element = ty.map.as_ref().and_then(|m| m.element.as_ref());
            for reference in inner.into_iter().chain(element) {
                assert!(schema.resolve(reference).is_some(), "{reference:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}
