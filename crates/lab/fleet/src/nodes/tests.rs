use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::address::{Addresses, of_node, place, pod_addresses};
use super::{heartbeat, register, status};
use crate::model::{Fleet, expand};

fn node(name: &str) -> Node {
    Node {
        metadata: kube::api::ObjectMeta {
            name: Some(name.into()),
            ..kube::api::ObjectMeta::default()
        },
        ..Node::default()
    }
}

#[rstest]
#[case(1, 10, 300)]
#[case(500, 10, 300)]
#[case(5000, 100, 500)]
fn heartbeat_interval_grows_with_the_fleet(
    #[case] nodes: usize,
    #[case] renew: u64,
    #[case] report: u64,
) {
    assert_eq!(heartbeat::renew_every(nodes), Duration::from_secs(renew));
    assert_eq!(heartbeat::report_every(nodes), Duration::from_secs(report));
}

#[test]
fn no_two_nodes_share_an_address() {
    let mut addresses = Addresses::default();
    let (mut hosts, mut pods) = (HashSet::new(), HashSet::new());
    for number in 0..300 {
        let mut node = node(&format!("n{number}"));
        let number = addresses
            .assign(node.metadata.name.as_deref().unwrap_or_default())
            .expect("there are enough");
        place(&mut node, number);
        assert!(hosts.insert(of_node(&node).expect("an address").to_owned()));
        for address in pod_addresses(&node).expect("a range") {
            assert!(pods.insert(address));
        }
    }
    assert!(pods.len() >= 300 * 250);
}

#[test]
fn node_keeps_its_number_and_freed_ones_are_reused() {
    let mut addresses = Addresses::default();
    let mut first = node("first");
    let number = addresses.assign("first").expect("one");
    place(&mut first, number);
    assert_eq!(addresses.assign("first").expect("the same"), number);

    let mut restarted = Addresses::default();
    restarted.learn(&first);
    assert_ne!(restarted.assign("second").expect("another"), number);
    assert_eq!(restarted.assign("first").expect("the same"), number);
    restarted.release(&first);
    assert_eq!(restarted.assign("third").expect("the freed one"), number);
}

#[test]
fn incomplete_status_is_filled_and_complete_one_kept() {
    let now = Timestamp::now();
    let every = Duration::from_mins(5);
    let mut bare = node("bare");
    bare.metadata.labels = Some([("kubernetes.io/arch".to_owned(), "arm64".to_owned())].into());
    let wanted = status::refreshed(&bare, now, every).expect("there is much to say");
    assert_eq!(wanted["nodeInfo"]["architecture"], "arm64");
    assert_eq!(wanted["capacity"]["pods"], "110");
    assert_eq!(wanted["conditions"][3]["type"], "Ready");

    crate::model::complete(&mut bare);
    place(&mut bare, 1);
    let conditions = status::conditions(&bare, now);
    bare.status.get_or_insert_default().conditions = Some(conditions);
    assert_eq!(status::refreshed(&bare, now, every), None);
    let later = now + SignedDuration::from_secs(301);
    let again = status::refreshed(&bare, later, every).expect("a sign of life");
    assert!(again.get("capacity").is_none(), "only conditions: {again}");
    assert_eq!(
        again["conditions"][3]["lastTransitionTime"],
        serde_json::json!(Time(now)),
        "nothing changed since"
    );
}

#[test]
fn node_marked_unknown_reports_ready_at_once() {
    let now = Timestamp::now();
    let mut lost = node("lost");
    crate::model::complete(&mut lost);
    place(&mut lost, 1);
    let mut conditions = status::conditions(&lost, now);
    for condition in &mut conditions {
        condition.status = "Unknown".into();
    }
    lost.status.get_or_insert_default().conditions = Some(conditions);
    let wanted = status::refreshed(&lost, now, Duration::from_mins(5)).expect("it is back");
    assert_eq!(wanted["conditions"][3]["status"], "True");
}

#[test]
fn only_nodes_never_registered_are_registered() {
    let fleet = Fleet::demo().expect("valid");
    let all: BTreeSet<String> = expand(&fleet)
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect();
    assert_eq!(register::missing(&fleet, &all).len(), 0);
    let mut some = all.clone();
    some.remove("arm-2");
    let fresh = register::missing(&fleet, &some);
    assert_eq!(fresh.len(), 1);
    assert_eq!(fresh[0].metadata.name.as_deref(), Some("arm-2"));
}
