//! Eviction rates.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Pace, Zones, zone_of};

const PACE: Pace = Pace {
    normal: Duration::from_secs(10),
    in_trouble: Duration::from_secs(100),
};

fn node(zone: &str, ready: bool) -> Node {
    serde_json::from_value(json!({
        "metadata": { "labels": { "topology.kubernetes.io/zone": zone } },
        "status": { "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "Unknown" } }] },
    }))
    .unwrap()
}

fn zones(total: usize, down: usize) -> Zones {
    let mut zones = Zones::default();
    for number in 0..total {
        zones.observe(&format!("n{number}"), Some(&node("a", number >= down)));
    }
    zones
}

#[rstest::rstest]
#[case::one_of_many(10, 1, Ok(()), Err(10))]
#[case::two_of_three(3, 2, Ok(()), Err(10))]
#[case::most_of_a_small_zone(5, 3, Err(10), Err(10))]
#[case::most_of_a_large_zone(60, 40, Ok(()), Err(100))]
#[case::all_of_a_zone(4, 4, Ok(()), Err(10))]
fn unhealthy_zones_evict_slower(
    #[case] total: usize,
    #[case] down: usize,
    #[case] first: Result<(), u64>,
    #[case] second: Result<(), u64>,
) {
    let mut zones = zones(total, down);
    let now = Instant::now();
    let zone = zone_of(&node("a", true));
    assert_eq!(
        zones.take_turn(&zone, PACE, now),
        first.map_err(Duration::from_secs)
    );
    assert_eq!(
        zones.take_turn(&zone, PACE, now),
        second.map_err(Duration::from_secs)
    );
}

#[test]
fn cluster_is_down_when_all_zones_are() {
    let mut zones = zones(2, 2);
    assert!(zones.all_down());
    zones.observe("m", Some(&node("b", true)));
    assert!(!zones.all_down());
    zones.observe("m", Some(&node("b", false)));
    assert!(zones.all_down());
    zones.observe("n0", Some(&node("a", true)));
    assert!(!zones.all_down());
    for name in ["n0", "n1", "m"] {
        zones.observe(name, None);
    }
    assert!(!zones.all_down(), "no nodes are not a failure");
}
