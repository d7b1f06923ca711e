//! `medley place` against a cluster of unlike nodes and a real registry.

use std::io::Write as _;
use std::process::Stdio;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use testkit::{Layout, Registry, Said, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

struct World {
    served: ServedCluster,
    client: Client,
    registry: Registry,
    /// They live as long as this.
    _cluster: TestCluster,
    _folder: TempDir,
}

impl World {
    /// Nodes of three kinds, and a registry with `both` (amd64 and arm64), `arm` (a single manifest for
    /// arm64) and `mainframe` (s390x).
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let nodes = [
            ("amd-1", "linux", "amd64", None),
            ("arm-1", "linux", "arm64", None),
            ("win-1", "windows", "amd64", Some("10.0.20348")),
        ];
        for (name, os, architecture, build) in nodes {
            let mut labels = json!({ "kubernetes.io/os": os, "kubernetes.io/arch": architecture });
            if let Some(build) = build {
                labels["node.kubernetes.io/windows-build"] = json!(build);
            }
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            let api: Api<Node> = Api::all(client.clone());
            api.create(&PostParams::default(), &serde_json::from_value(node)?)
                .await?;
        }
        let registry = Registry::start().await?;
        let folder = tempfile::tempdir()?;
        let mut layout = Layout::new(&folder.path().join("layout"))?;
        let image = |layout: &Layout, architecture: &str| {
            layout.image(architecture, &[architecture.as_bytes()], &json!({}))
        };
        let (amd, arm) = (image(&layout, "amd64")?, image(&layout, "arm64")?);
        let both = layout.index(&[amd, arm.clone()])?;
        layout.name("both", &both)?;
        layout.name("arm", &arm)?;
        let mainframe = image(&layout, "s390x")?;
        let mainframe = layout.index(&[mainframe])?;
        layout.name("mainframe", &mainframe)?;
        for name in ["both", "arm", "mainframe"] {
            registry.push(&layout.source(name), &format!("{name}:1"))?;
        }
        Ok(Self {
            served: cluster.serve().await?,
            client,
            registry,
            _cluster: cluster,
            _folder: folder,
        })
    }

    fn image(&self, name: &str) -> String {
        format!("{}/{name}:1", self.registry.host())
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<Said> {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("place")
            .args(line)
            .args(["--insecure", &self.registry.host()])
            .env("KUBECONFIG", &self.served.kubeconfig)
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("XDG_RUNTIME_DIR")
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(Said::of(&output))
    }

    async fn make(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        Ok(())
    }
}

fn file(object: &Value) -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(object.to_string().as_bytes())?;
    Ok(file)
}

#[tokio::test]
async fn a_file_is_explained_before_anything_is_made_of_it() -> anyhow::Result<()> {
    let world = World::start().await?;
    let deployment = file(&json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": { "template": { "spec": {
            "initContainers": [{ "name": "first", "image": world.image("both") }],
            "containers": [{ "name": "app", "image": world.image("arm") }],
        } } },
    }))?;
    let path = deployment.path().to_string_lossy().into_owned();
    let said = world.run(&["explain", "-f", &path]).await?.ok()?;
    has(&said, &["Placed: its images run on 1 of 3 nodes"]);
    has(&said, &["(container \"app\"): for linux/arm64"]);
    has(
        &said,
        &["(init container \"first\"): for linux/amd64, linux/arm64"],
    );
    has(&said, &["The pod would say:"]);
    let said = world
        .run(&["explain", "-f", &path, "-o", "json"])
        .await?
        .ok()?;
    let told: Value = serde_json::from_str(&said)?;
    let terms = "/change/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    assert_eq!(
        told.pointer(terms),
        Some(&json!([{ "matchExpressions": [
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        ] }]))
    );
    let service = file(&json!({ "apiVersion": "v1", "kind": "Service" }))?;
    let path = service.path().to_string_lossy().into_owned();
    let said = world.run(&["explain", "-f", &path]).await?.refused()?;
    has(&said, &["kind \"Service\" makes no pods"]);
    Ok(())
}

#[tokio::test]
async fn a_pod_that_can_never_run_is_told_with_what_would_help() -> anyhow::Result<()> {
    let world = World::start().await?;
    let container = |image: &str| json!({ "name": "app", "image": world.image(image) });
    world
        .make("stuck", json!({ "containers": [container("mainframe")] }))
        .await?;
    world
        .make(
            "fine",
            json!({ "containers": [container("both")], "nodeName": "amd-1" }),
        )
        .await?;
    world
        .make("typo", json!({ "containers": [container("no-such")] }))
        .await?;
    let said = world.run(&["explain", "stuck"]).await?.ok()?;
    has(&said, &["NoMatchingNode: image "]);
    has(
        &said,
        &[
            "is for linux/s390x; the nodes are linux/amd64 (1), linux/arm64 (1), windows(10.0.20348)/amd64 (1)",
        ],
    );
    has(
        &said,
        &["add such a node, or use an image that is for one of the nodes"],
    );
    // Where it is says nothing about where it could be.
    let said = world.run(&["explain", "fine"]).await?.ok()?;
    has(&said, &["Placed: its images run on 2 of 3 nodes"]);
    let said = world.run(&["explain", "typo"]).await?.ok()?;
    has(&said, &["cannot be looked at:"]);
    let said = world.run(&["explain", "nobody"]).await?.refused()?;
    has(&said, &["pods \"nobody\" not found"]);

    let said = world.run(&["report", "-o", "json"]).await?.ok()?;
    let report: Value = serde_json::from_str(&said)?;
    let images = report["images"].as_array().map(Vec::as_slice);
    let covered = |name: &str| {
        let image = world.image(name);
        let found = images
            .unwrap_or_default()
            .iter()
            .find(|it| it["image"] == *image);
        found.map(|it| it["nodes"].clone())
    };
    assert_eq!(covered("both"), Some(json!(2)));
    assert_eq!(covered("mainframe"), Some(json!(0)));
    assert_eq!(report["stuck"][0]["pod"], "default/stuck");
    assert_eq!(report["stuck"][0]["reason"], "NoMatchingNode");
    assert_eq!(report["stuck"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["idle"], json!(["arm-1", "win-1"]));
    let said = world.run(&["report"]).await?.ok()?;
    has(
        &said,
        &["Pods that can never run:\n  default/stuck: image "],
    );
    has(&said, &["Nodes without work:\n  arm-1\n  win-1"]);
    Ok(())
}
