//! Settings read from RuntimeClasses.

use platform::windows::Isolation;
use rstest::rstest;
use serde_json::{Value, json};

use super::RuntimeClass;

#[rstest]
#[case::process(json!({ "handler": "runhcs-wcow-process" }), Isolation::Process)]
#[case::hyper_v(json!({ "handler": "runhcs-wcow-hypervisor" }), Isolation::HyperV)]
#[case::of_a_build(json!({ "handler": "runhcs-wcow-hypervisor-17763" }), Isolation::HyperV)]
#[case::said(
    json!({ "handler": "vm", "metadata": { "annotations": { "medley.dev/isolation": "hyperv" } } }),
    Isolation::HyperV
)]
#[case::said_not(
    json!({ "handler": "runhcs-wcow-hypervisor", "metadata": { "annotations": { "medley.dev/isolation": "process" } } }),
    Isolation::Process
)]
fn isolation_comes_from_annotation_or_handler(#[case] class: Value, #[case] isolation: Isolation) {
    assert_eq!(RuntimeClass::read(&class).isolation, isolation);
}

#[test]
fn platform_comes_from_the_handler_build() {
    let class = RuntimeClass::read(&json!({ "handler": "runhcs-wcow-hypervisor-17763" }));
    let platform = class.platform.map(|it| it.to_string());
    assert_eq!(platform.as_deref(), Some("windows(10.0.17763)/amd64"));
}

#[test]
fn scheduling_and_platform_of_a_class_are_read() {
    let class = RuntimeClass::read(&json!({
        "metadata": {
            "name": "windows-1809-hyperv",
            "annotations": { "medley.dev/platform": "windows(10.0.17763)/amd64" },
        },
        "handler": "containerd-hyperv-17763",
        "scheduling": {
            "nodeSelector": { "kubernetes.io/os": "windows" },
            "tolerations": [{ "key": "windows", "operator": "Exists" }],
        },
    }));
    assert_eq!(class.name, "windows-1809-hyperv");
    assert_eq!(
        class.platform.map(|it| it.to_string()).as_deref(),
        Some("windows(10.0.17763)/amd64")
    );
    assert_eq!(class.node_selector["kubernetes.io/os"], "windows");
    assert_eq!(class.tolerations.len(), 1);
}
