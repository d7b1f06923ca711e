use std::collections::BTreeMap;

use placement::{Decision, Inspection, Platforms, Settings, decide};
use platform::Platform;
use serde_json::json;

use super::*;

fn node(platform: &str) -> Node {
    let platform: Platform = platform.parse().unwrap();
    let node = json!({ "metadata": { "name": "changing", "labels": {
        "kubernetes.io/os": platform.os, "kubernetes.io/arch": platform.architecture,
        "node.kubernetes.io/windows-build": platform.os_version,
    } } });
    Node::read(&serde_json::from_value(node).unwrap())
}

#[test]
fn node_changes_invalidate_fits() {
    let platforms = ["windows(10.0.17763.805)/amd64", "linux/s390x"];
    let platforms: Platforms = platforms.iter().map(|it| it.parse().unwrap()).collect();
    let known = BTreeMap::from([("a".to_owned(), Inspection::Platforms(platforms))]);
    let pod = json!({ "spec": {
        "os": { "name": "windows" }, "containers": [{ "name": "c", "image": "a" }],
    } });
    let mut nodes = PlacementNodes::default();
    for (becomes, fits) in [
        (None, false),
        (Some("windows(10.0.17763)/amd64"), true),
        (Some("windows(10.0.20348)/amd64"), false),
        (Some("windows(10.0.17763)/amd64"), true),
        (None, false),
    ] {
        match becomes {
            Some(platform) => nodes.upsert(node(platform)),
            None => nodes.remove("changing"),
        }
        for _ in 0..2 {
            let settings = Settings::default();
            let decision = decide(&pod, &known, &BTreeMap::new(), &nodes, &settings);
            assert_eq!(matches!(decision, Decision::Place(_)), fits, "{becomes:?}");
            assert_eq!(
                nodes.fits.0.lock().len(),
                1,
                "the second decision reuses the fit"
            );
        }
    }
}

#[test]
fn number_of_fits_is_bounded() {
    let table = FitTable::default();
    for n in 0..3 * MAX_FITS {
        let platforms = Platforms::from_iter([Platform::new("linux", n.to_string())]);
        table.insert((vec![platforms], "linux".to_owned()), Arc::default());
    }
    assert!(table.0.lock().len() <= MAX_FITS);
}
