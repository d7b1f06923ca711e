//! The effect of placement, as a new user sees it under `medley up`: the same images with and
//! without it, on nodes that reject images of other platforms.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use binary::{MEDLEY, Server, text, until};
use serde_json::Value;

/// Simulation speed for a test; everything else has its default.
const FAST: [&str; 3] = ["--memory", "--speed", "100"];

struct Cluster {
    server: Server,
    registry: String,
}

impl Cluster {
    fn up(folder: &std::path::Path) -> Self {
        let server = Server::up(folder, &FAST);
        let map = [
            "get",
            "configmap",
            "medley-registry",
            "-n",
            "kube-system",
            "-o",
            "json",
        ];
        let map: Value = serde_json::from_str(&server.ask(&map)).unwrap();
        let registry = map["metadata"]["annotations"]["fleet.medley.dev/registry"].as_str();
        let registry = registry.unwrap().to_owned();
        Self { server, registry }
    }

    /// Runs an image of the registry in a pod; `more` is merged into it.
    fn run(&self, name: &str, image: &str, more: &str) {
        let image = format!("--image={}/apps/{image}:1", self.registry);
        let overrides = format!("--overrides={more}");
        self.server.ask(&["run", name, &image, &overrides]);
    }

    /// A pod, once it satisfies the predicate.
    fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        until(&format!("pod {name}: {what}"), || {
            let pod = self.server.ask(&["get", "pod", name, "-o", "json"]);
            let pod: Value = serde_json::from_str(&pod).unwrap();
            holds(&pod).then_some(pod)
        })
    }

    /// The node that a pod runs on.
    fn runs_on(&self, name: &str) -> String {
        let pod = self.until(name, "it runs", |pod| pod["status"]["phase"] == "Running");
        pod["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    fn medley(&self, arguments: &[&str]) -> String {
        let output = std::process::Command::new(MEDLEY)
            .args(arguments)
            .args(["--insecure", &self.registry])
            .env("KUBECONFIG", &self.server.kubeconfig)
            .env("HOME", &self.server.home)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

fn pull_failed(pod: &Value) -> bool {
    let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    reason == "ErrImagePull" || reason == "ImagePullBackOff"
}

#[test]
fn pod_without_placement_is_rejected_by_its_node_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::up(folder.path());
    let off = r#"{
        "metadata": { "annotations": { "medley.dev/placement": "off" } },
        "spec": { "nodeSelector": { "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" } }
    }"#;
    cluster.run("off", "arm64-only", off);
    let pod = cluster.until("off", "it is refused", pull_failed);
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    let message = message.as_str().unwrap();
    assert!(
        message.contains("no match for platform in manifest"),
        "{message}"
    );
    let report = cluster.medley(&["place", "report"]);
    assert!(report.contains("default/off: it is on node "), "{report}");

    // The same image, without any constraints on the pod.
    cluster.run("on", "arm64-only", "{}");
    let node = cluster.runs_on("on");
    assert!(node.starts_with("arm-"), "{node}");

    // A RuntimeClass selects the Windows build; node selector and tolerations come with it.
    until("there are classes", || {
        let classes = cluster.server.ask(&["get", "runtimeclasses", "-o", "name"]);
        let all = ["windows-17763", "windows-17763-hyperv", "windows-20348"];
        all.iter().all(|it| classes.contains(it)).then_some(())
    });
    for (class, node) in [
        ("windows-17763", "win2019-1"),
        ("windows-17763-hyperv", "win2022-1"),
        ("windows-20348", "win2022-1"),
    ] {
        let more = format!(r#"{{ "spec": {{ "runtimeClassName": "{class}" }} }}"#);
        cluster.run(class, "windows", &more);
        assert_eq!(cluster.runs_on(class), node);
    }
}
