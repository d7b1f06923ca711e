//! Expansion of claims.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::{begun, ended, wanted};

fn claim(asks: &str, has: &str, phase: &str) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "spec": { "resources": { "requests": { "storage": asks } } },
        "status": { "phase": phase, "capacity": { "storage": has } },
    }))
    .unwrap()
}

#[rstest::rstest]
#[case::more("6Gi", "5Gi", "Bound", Some("6Gi"))]
#[case::the_same("5Gi", "5120Mi", "Bound", None)]
#[case::less("1Gi", "5Gi", "Bound", None)]
#[case::not_bound("6Gi", "5Gi", "Pending", None)]
fn only_larger_requests_expand(
    #[case] asks: &str,
    #[case] has: &str,
    #[case] phase: &str,
    #[case] expected: Option<&str>,
) {
    let found = wanted(&claim(asks, has, phase));
    assert_eq!(found.map(|it| it.0).as_deref(), expected);
}

#[test]
fn status_reports_expansion_progress() {
    let claim = claim("6Gi", "5Gi", "Bound");
    let size = Quantity("6Gi".to_owned());
    let during = begun(claim.status.as_ref().unwrap(), &size);
    assert_eq!(
        json!(during)["allocatedResources"],
        json!({ "storage": "6Gi" })
    );
    assert_eq!(
        json!(during)["allocatedResourceStatuses"],
        json!({ "storage": "ControllerResizeInProgress" })
    );
    assert_eq!(json!(during)["conditions"][0]["type"], json!("Resizing"));
    assert_eq!(begun(&during, &size), during, "it is said once");
    let after = ended(&during, &size);
    assert_eq!(
        json!(after),
        json!({ "phase": "Bound", "capacity": { "storage": "6Gi" }, "allocatedResources": { "storage": "6Gi" } })
    );
}
