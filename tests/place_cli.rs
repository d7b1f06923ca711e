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
    /// arm64), `mainframe` (s390x) and `windows` (three builds).
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
        let mut builds = Vec::new();
        for build in ["10.0.17763.6532", "10.0.20348.999", "10.0.20348.2849"] {
            let mut entry = layout.image("amd64", &[build.as_bytes()], &json!({}))?;
            entry["platform"] =
                json!({ "os": "windows", "architecture": "amd64", "os.version": build });
            builds.push(entry);
        }
        let windows = layout.index(&builds)?;
        layout.name("windows", &windows)?;
        for name in ["both", "arm", "mainframe", "windows"] {
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
        let host = self.registry.host();
        let line = [&["place"][..], line, &["--insecure", &host]].concat();
        self.medley(&line).await
    }

    async fn medley(&self, line: &[&str]) -> anyhow::Result<Said> {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
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
    has(
        &said,
        &[
            "What would make it fit:\n  add a node of linux/s390x\n  publish ",
            "also for linux/amd64, which 1 node is",
        ],
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
    assert_eq!(
        report["places"][0],
        json!({ "place": "linux/amd64", "nodes": 1, "images": 1, "ofImages": 2 })
    );
    let said = world.run(&["report"]).await?.ok()?;
    has(
        &said,
        &["Pods that can never run:\n  default/stuck: image "],
    );
    has(&said, &["Nodes without work:\n  arm-1\n  win-1"]);
    Ok(())
}

#[tokio::test]
async fn what_a_node_would_pull_is_told_with_why_it_would_pull_no_other() -> anyhow::Result<()> {
    let world = World::start().await?;
    let host = world.registry.host();
    let inspect = async |name: &str, more: &[&str]| {
        let image = world.image(name);
        let line = [&["image", "inspect", &image, "--insecure", &host], more].concat();
        world.medley(&line).await
    };
    let node = "windows(10.0.20348)/amd64";
    let said = inspect("windows", &["--platform", node]).await?.ok()?;
    has(
        &said,
        &["A node of windows(10.0.20348)/amd64 pulls sha256:"],
    );
    // Updates count as numbers.
    has(&said, &["windows(10.0.20348.2849)/amd64   pulled"]);
    has(
        &said,
        &["windows(10.0.20348.999)/amd64    not pulled   would do, but another is better"],
    );
    has(
        &said,
        &["windows(10.0.17763.6532)/amd64   not pulled   is for another version of Windows"],
    );
    let node = ["--platform", "windows(10.0.19042)/amd64"];
    let said = inspect("windows", &node).await?.refused()?;
    has(
        &said,
        &["a node of windows(10.0.19042)/amd64 finds nothing to run in "],
    );
    let isolated = [&node[..], &["--hyperv", "-o", "json"]].concat();
    let said = inspect("windows", &isolated).await?.ok()?;
    let told: Value = serde_json::from_str(&said)?;
    assert_eq!(told["chosen"]["entries"][0]["pulled"], true);
    assert_eq!(told["chosen"]["pulled"], told["platforms"][0]["digest"]);
    assert_eq!(told["chosen"]["wanted"], "windows(10.0.19042)/amd64");

    // An image that stands alone.
    let said = inspect("arm", &["--platform", "linux/arm64"]).await?.ok()?;
    has(&said, &["there is no index, but this image"]);
    let said = inspect("arm", &["--platform", "linux/amd64"])
        .await?
        .refused()?;
    has(&said, &["a node of linux/amd64 finds nothing to run in "]);
    let said = inspect("arm", &["--platform", "intel"]).await?.refused()?;
    has(&said, &["neither an operating system nor an architecture"]);
    Ok(())
}

#[tokio::test]
async fn handlers_are_printed_for_the_builds_of_a_cluster() -> anyhow::Result<()> {
    let world = World::start().await?;
    let said = world.medley(&["node-config", "containerd"]).await?.ok()?;
    has(
        &said,
        &[
            "default_runtime_name = \"runhcs-wcow-process\"",
            "# Windows Server 2022 (10.0.20348) under Hyper-V.",
            "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runhcs-wcow-hypervisor-20348.options]",
            "SandboxOsVersion = \"10.0.20348\"",
            "[plugins.\"io.containerd.cri.v1.images\".runtime_platforms.runhcs-wcow-hypervisor-20348]",
            "platform = \"windows(10.0.20348)/amd64\"",
        ],
    );
    assert!(!said.contains("17763"), "{said}");
    let offline = [
        "node-config",
        "containerd",
        "--kubeconfig",
        "/none",
        "--build",
        "17763",
    ];
    let said = world.medley(&offline).await?.ok()?;
    has(&said, &["SandboxOsVersion = \"10.0.17763\""]);
    let arm = ["node-config", "containerd", "--arch", "arm64"];
    let said = world.medley(&arm).await?.refused()?;
    has(
        &said,
        &[
            "the cluster has no node with Windows on arm64",
            "--build BUILD",
        ],
    );
    Ok(())
}

/// A pod that was put on a node before anybody looked at its image.
#[tokio::test]
async fn a_pod_on_a_node_that_cannot_run_it_is_reported() -> anyhow::Result<()> {
    let world = World::start().await?;
    let spec = json!({
        "containers": [{ "name": "app", "image": world.image("arm") }],
        "nodeName": "amd-1",
    });
    world.make("lost", spec).await?;
    let said = world.run(&["report"]).await?.ok()?;
    has(
        &said,
        &[
            "Pods that can never run:\n  default/lost: it is on node amd-1, which is linux/amd64, but image ",
        ],
    );
    has(
        &said,
        &["linux/arm64                 1       1 of 1 images"],
    );
    Ok(())
}
