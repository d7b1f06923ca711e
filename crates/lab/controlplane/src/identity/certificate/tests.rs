use k8s_openapi::api::core::v1::ConfigMap;

use super::{DESCRIPTION, publish};

fn published() -> ConfigMap {
    publish(None, "PEM").expect("there is none yet")
}

#[test]
fn current_config_map_is_left_alone() {
    assert_eq!(publish(Some(&published()), "PEM"), None);
    let mut described = published();
    described.metadata.annotations = Some([(DESCRIPTION.into(), "mine".into())].into());
    assert_eq!(publish(Some(&described), "PEM"), None);
}

#[test]
fn changed_certificate_is_restored_and_other_keys_kept() {
    let mut changed = published();
    changed.metadata.resource_version = Some("7".into());
    changed.metadata.annotations = Some([("mine".into(), "kept".into())].into());
    changed.data = Some(
        [
            ("ca.crt".into(), "else".into()),
            ("more".into(), String::new()),
        ]
        .into(),
    );
    let repaired = publish(Some(&changed), "PEM").expect("it is not as it should be");
    assert_eq!(repaired.data, published().data);
    assert_eq!(repaired.metadata.resource_version.as_deref(), Some("7"));
    let annotations = repaired.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get("mine").map(String::as_str), Some("kept"));
    assert!(annotations.contains_key(DESCRIPTION));
}

#[test]
fn new_certificate_is_published() {
    assert!(publish(Some(&published()), "OTHER").is_some());
}
