//! Images for many platforms, and the nodes that their pods land on.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::images::Images;
use crate::stage::{Stage, gates, pod, why};

/// The values of a label in the only node selector term of a pod.
fn asks(pod: &Pod, label: &str) -> Value {
    let spec = json!(pod.spec);
    let term = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions";
    let expressions = spec.pointer(term).and_then(Value::as_array);
    let expressions = expressions.into_iter().flatten();
    let mut found = expressions.filter(|it| it["key"] == label);
    found
        .next()
        .map(|it| it["values"].clone())
        .unwrap_or_default()
}

/// The first pod of an image is gated, the next one is placed at admission. Both land on nodes that run it, with the
/// same affinity.
#[tokio::test(flavor = "multi_thread")]
async fn pods_land_on_matching_nodes() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    for (image, architectures, system, nodes) in [
        ("arm", json!(["arm64"]), "linux", &["arm-"][..]),
        (
            "both",
            json!(["amd64", "arm64"]),
            "linux",
            &["amd-", "arm-"],
        ),
        ("single", json!(["arm64"]), "linux", &["arm-"]),
        ("nested", json!(["arm64"]), "linux", &["arm-"]),
        ("attested", json!(["amd64"]), "linux", &["amd-"]),
        ("bare", json!(["amd64", "s390x"]), "linux", &["amd-"]),
        (
            "windows",
            json!(["amd64"]),
            "windows",
            &["win19-", "win22-"],
        ),
        ("old-windows", json!(["amd64"]), "windows", &["win19-"]),
    ] {
        for round in ["first", "second"] {
            let name = format!("{image}-{round}");
            stage.pod(&name, &images.name(image), json!({})).await?;
            let node = stage.lands(&name).await?;
            let fits = nodes.iter().any(|prefix| node.starts_with(prefix));
            assert!(fits, "{name} is on {node}");
            let placed = stage.until(&name, "is placed", |_| true).await?;
            assert_eq!(asks(&placed, "kubernetes.io/arch"), architectures, "{name}");
            assert_eq!(asks(&placed, "kubernetes.io/os"), json!([system]), "{name}");
            assert_eq!(gates(&placed), Vec::<String>::new());
            assert!(why(&placed).starts_with("Placed: "), "{}", why(&placed));
        }
    }
    let windows = stage.until("windows-second", "is placed", |_| true).await?;
    assert_eq!(
        asks(&windows, "node.kubernetes.io/windows-build"),
        json!(["10.0.17763", "10.0.20348"])
    );
    // Once per process, webhook and controller: an index costs one request, a single manifest two.
    assert_eq!(images.reads("arm"), 2);
    assert_eq!(images.reads("single"), 4);
    stage.wait_for_event("arm-first", "Placed").await?;
    let metrics = stage.metrics();
    testkit::has(
        &metrics,
        &[
            "medley_placement_released_total{reason=\"Placed\"}",
            "medley_placement_gate_duration_seconds_count{reason=\"Placed\"}",
            "medley_placement_registry_requests{host=",
            "medley_placement_admission_registered{} 1.0",
        ],
    );
    stage.end().await;
    Ok(())
}

/// All images of a pod count: init containers and image volumes, too.
#[tokio::test(flavor = "multi_thread")]
async fn all_images_of_a_pod_narrow_its_affinity() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let volume = json!({ "volumes": [
        { "name": "data", "image": { "reference": images.name("arm"), "pullPolicy": "IfNotPresent" } },
    ] });
    stage.pod("volume", &images.name("both"), volume).await?;
    assert!(stage.lands("volume").await?.starts_with("arm-"));
    let first = json!({ "initContainers": [
        { "name": "first", "image": images.name("arm"), "imagePullPolicy": "IfNotPresent" },
    ] });
    stage.pod("first", &images.name("both"), first).await?;
    assert!(stage.lands("first").await?.starts_with("arm-"));
    // Terms are alternatives, and each is narrowed: the pod selects two nodes and gets the one that runs its image,
    // gated or at admission.
    let wants = |name: &str| {
        json!({ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": [name] },
        ] })
    };
    let affinity = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [wants("amd-0"), wants("arm-1")],
        },
    } } });
    let nodes = stage.nodes();
    let hosts = nodes.list(&kube::api::ListParams::default()).await?;
    let hosts: Vec<String> = hosts
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .collect();
    assert!(hosts.contains(&"arm-1".to_owned()), "{hosts:?}");
    for name in ["picky-first", "picky-second"] {
        stage
            .pod(name, &images.name("single"), affinity.clone())
            .await?;
        assert_eq!(stage.lands(name).await?, "arm-1");
    }
    // An explicit architecture is kept, whatever the image supports.
    let off = json!({ "metadata": { "name": "off", "labels": { "medley.dev/placement": "off" } },
        "spec": pod("off", &images.name("arm"), &json!({}))["spec"] });
    let left: Pod = stage.create(off).await?;
    assert_eq!((gates(&left), why(&left)), (Vec::new(), ""));
    stage.end().await;
    Ok(())
}
