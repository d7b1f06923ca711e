use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::containers_add_up(
    json!({ "containers": [
        { "name": "a", "resources": { "requests": { "cpu": "1500m", "example.com/gpu": "1" } } },
        { "name": "b", "resources": { "requests": { "cpu": "1" } } },
        { "name": "c" },
    ] }),
    json!({ "cpu": 2500, "example.com/gpu": 1000 }),
)]
#[case::init_containers_run_before(
    json!({
        "containers": [{ "name": "a", "resources": { "requests": { "cpu": "2", "memory": "1" } } }],
        "initContainers": [
            { "name": "b", "resources": { "requests": { "cpu": "1", "memory": "3" } } },
            { "name": "c", "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } },
        ],
    }),
    json!({ "cpu": 3000, "memory": 3000 }),
)]
#[case::overhead(
    json!({
        "containers": [{ "name": "a", "resources": { "requests": { "memory": "1Ki" } } }],
        "overhead": { "memory": "1Ki" },
    }),
    json!({ "memory": 2_048_000 }),
)]
fn requests_of_a_pod_are_those_that_the_scheduler_counts(
    #[case] pod: Value,
    #[case] expected: Value,
) {
    let pod: PodSpec = serde_json::from_value(pod).unwrap();
    assert_eq!(json!(requests(&pod)), expected);
}

#[rstest]
#[case("hugepages-1Gi", 2_147_483_648_000, "2Gi")]
#[case("devices.kubevirt.io/kvm", 1000, "1")]
#[case("cpu", 500, "500m")]
fn amounts_are_printed_as_quantities(
    #[case] name: &str,
    #[case] amount: i64,
    #[case] expected: &str,
) {
    assert_eq!(printed(name, amount), expected);
}
