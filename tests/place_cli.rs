//! `medley place` on a cluster of heterogeneous nodes with a real registry.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use testkit::{CommandOutput, Layout, Registry, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

struct PlaceFixture {
    served: ServedCluster,
    client: Client,
    registry: Registry,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
    _folder: TempDir,
}

impl PlaceFixture {
    /// Nodes of three platforms, and a registry with `both` (amd64 and arm64), `arm` (a single manifest for
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

    async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let host = self.registry.host();
        let line = [&["place"][..], line, &["--insecure", &host]].concat();
        self.medley(&line).await
    }

    async fn medley(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("XDG_RUNTIME_DIR")
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
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
async fn manifest_is_explained_without_creating_it() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    let deployment = file(&json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": { "template": { "spec": {
            "initContainers": [{ "name": "first", "image": fixture.image("both") }],
            "containers": [{ "name": "app", "image": fixture.image("arm") }],
        } } },
    }))?;
    let path = deployment.path().to_string_lossy().into_owned();
    let result = fixture.run(&["explain", "-f", &path]).await?.ok()?;
    has(&result, &["Placed: its images run on 1 of 3 nodes"]);
    has(&result, &["(container \"app\"): for linux/arm64"]);
    has(
        &result,
        &["(init container \"first\"): for linux/amd64, linux/arm64"],
    );
    has(&result, &["Changes to the pod:"]);
    let result = fixture
        .run(&["explain", "-f", &path, "-o", "json"])
        .await?
        .ok()?;
    let document: Value = serde_json::from_str(&result)?;
    let terms = "/change/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    assert_eq!(
        document.pointer(terms),
        Some(&json!([{ "matchExpressions": [
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        ] }]))
    );
    let service = file(&json!({ "apiVersion": "v1", "kind": "Service" }))?;
    let path = service.path().to_string_lossy().into_owned();
    let result = fixture.run(&["explain", "-f", &path]).await?.refused()?;
    has(&result, &["kind \"Service\" does not create pods"]);
    Ok(())
}

#[tokio::test]
async fn pod_that_fits_no_node_is_explained_with_remedies() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    let container = |image: &str| json!({ "name": "app", "image": fixture.image(image) });
    fixture
        .make("stuck", json!({ "containers": [container("mainframe")] }))
        .await?;
    fixture
        .make(
            "fine",
            json!({ "containers": [container("both")], "nodeName": "amd-1" }),
        )
        .await?;
    fixture
        .make("typo", json!({ "containers": [container("no-such")] }))
        .await?;
    let result = fixture.run(&["explain", "stuck"]).await?.ok()?;
    has(&result, &["NoMatchingNode: image "]);
    has(
        &result,
        &[
            "is for linux/s390x; the nodes are linux/amd64 (1), linux/arm64 (1), windows(10.0.20348)/amd64 (1)",
        ],
    );
    has(
        &result,
        &["add such a node, or use an image that is for one of the nodes"],
    );
    has(
        &result,
        &[
            "What would make it fit:\n  add a node of linux/s390x\n  publish ",
            "also for linux/amd64, which 1 node is",
        ],
    );
    // An existing pod is explained as if it were unscheduled.
    let result = fixture.run(&["explain", "fine"]).await?.ok()?;
    has(&result, &["Placed: its images run on 2 of 3 nodes"]);
    let result = fixture.run(&["explain", "typo"]).await?.ok()?;
    has(&result, &["cannot be inspected:"]);
    let result = fixture.run(&["explain", "nobody"]).await?.refused()?;
    has(&result, &["pods \"nobody\" not found"]);

    let result = fixture.run(&["report", "-o", "json"]).await?.ok()?;
    let report: Value = serde_json::from_str(&result)?;
    let images = report["images"].as_array().map(Vec::as_slice);
    let covered = |name: &str| {
        let image = fixture.image(name);
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
    let result = fixture.run(&["report"]).await?.ok()?;
    has(
        &result,
        &["Pods that can never run:\n  default/stuck: image "],
    );
    has(&result, &["Nodes without pods:\n  arm-1\n  win-1"]);
    Ok(())
}

#[tokio::test]
async fn inspect_shows_the_image_a_node_would_pull() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    let host = fixture.registry.host();
    let inspect = async |name: &str, more: &[&str]| {
        let image = fixture.image(name);
        let line = [&["image", "inspect", &image, "--insecure", &host], more].concat();
        fixture.medley(&line).await
    };
    let node = "windows(10.0.20348)/amd64";
    let result = inspect("windows", &["--platform", node]).await?.ok()?;
    has(
        &result,
        &["A node of windows(10.0.20348)/amd64 pulls sha256:"],
    );
    // Windows revisions are compared as numbers.
    has(&result, &["windows(10.0.20348.2849)/amd64   pulled"]);
    has(
        &result,
        &["windows(10.0.20348.999)/amd64    not pulled   matches, but another is better"],
    );
    has(
        &result,
        &["windows(10.0.17763.6532)/amd64   not pulled   is for another version of Windows"],
    );
    let node = ["--platform", "windows(10.0.19042)/amd64"];
    let result = inspect("windows", &node).await?.refused()?;
    has(
        &result,
        &["a node of windows(10.0.19042)/amd64 cannot run any image of "],
    );
    let isolated = [&node[..], &["--hyperv", "-o", "json"]].concat();
    let result = inspect("windows", &isolated).await?.ok()?;
    let document: Value = serde_json::from_str(&result)?;
    assert_eq!(document["chosen"]["entries"][0]["pulled"], true);
    assert_eq!(
        document["chosen"]["pulled"],
        document["platforms"][0]["digest"]
    );
    assert_eq!(document["chosen"]["wanted"], "windows(10.0.19042)/amd64");

    // A single manifest.
    let result = inspect("arm", &["--platform", "linux/arm64"]).await?.ok()?;
    has(&result, &["the image has no index"]);
    let result = inspect("arm", &["--platform", "linux/amd64"])
        .await?
        .refused()?;
    has(&result, &["a node of linux/amd64 cannot run any image of "]);
    let result = inspect("arm", &["--platform", "intel"]).await?.refused()?;
    has(
        &result,
        &["neither an operating system nor an architecture"],
    );
    Ok(())
}

#[tokio::test]
async fn containerd_handlers_are_printed_for_the_builds_of_a_cluster() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    let result = fixture.medley(&["node-config", "containerd"]).await?.ok()?;
    has(
        &result,
        &[
            "default_runtime_name = \"runhcs-wcow-process\"",
            "# Windows Server 2022 (10.0.20348) under Hyper-V.",
            "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runhcs-wcow-hypervisor-20348.options]",
            "SandboxOsVersion = \"10.0.20348\"",
            "[plugins.\"io.containerd.cri.v1.images\".runtime_platforms.runhcs-wcow-hypervisor-20348]",
            "platform = \"windows(10.0.20348)/amd64\"",
        ],
    );
    assert!(!result.contains("17763"), "{result}");
    let offline = [
        "node-config",
        "containerd",
        "--kubeconfig",
        "/none",
        "--build",
        "17763",
    ];
    let result = fixture.medley(&offline).await?.ok()?;
    has(&result, &["SandboxOsVersion = \"10.0.17763\""]);
    let arm = ["node-config", "containerd", "--arch", "arm64"];
    let result = fixture.medley(&arm).await?.refused()?;
    has(
        &result,
        &["the cluster has no Windows node on arm64", "--build BUILD"],
    );
    Ok(())
}

/// A pod that was bound to a node before its image was inspected.
#[tokio::test]
async fn pod_on_an_incompatible_node_is_reported() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    let spec = json!({
        "containers": [{ "name": "app", "image": fixture.image("arm") }],
        "nodeName": "amd-1",
    });
    fixture.make("lost", spec).await?;
    let result = fixture.run(&["report"]).await?.ok()?;
    has(
        &result,
        &[
            "Pods that can never run:\n  default/lost: it is on node amd-1, which is linux/amd64, but image ",
        ],
    );
    has(
        &result,
        &["linux/arm64                 1       1 of 1 images"],
    );
    Ok(())
}

/// The CRDs and the Deployments of the multiarch-tuning-operator, as it installs them.
async fn install_tuning(fixture: &PlaceFixture) -> anyhow::Result<()> {
    let crd = |kind: &str, plural: &str, scope: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.multiarch.openshift.io") },
            "spec": {
                "group": "multiarch.openshift.io", "scope": scope,
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
                "versions": [{ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } } }],
            },
        })
    };
    let deployment = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "manager", "image": "x" }] },
                },
            },
        })
    };
    let registration = |name: &str, webhook: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": [{
                "name": webhook, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
                "clientConfig": { "url": "https://127.0.0.1:1/" },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            }],
        })
    };
    let objects = [
        crd(
            "ClusterPodPlacementConfig",
            "clusterpodplacementconfigs",
            "Cluster",
        ),
        crd("PodPlacementConfig", "podplacementconfigs", "Namespaced"),
        deployment("pod-placement-controller"),
        deployment("multiarch-tuning-operator-controller-manager"),
        registration(
            "pod-placement-mutating-webhook-configuration",
            "pod-placement-scheduling-gate.multiarch.openshift.io",
        ),
        registration("medley-placement", "placement.medley.dev"),
    ];
    for object in objects {
        fixture.apply(object).await?;
    }
    Ok(())
}

impl PlaceFixture {
    async fn apply(&self, object: Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply("tests").force();
        testkit::wait_until("it is served", WAIT_TIMEOUT, async || {
            let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
            match applied {
                // A CRD is served a moment after it was created.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                applied => Ok(Some(applied?)),
            }
        })
        .await?;
        Ok(())
    }

    /// The ClusterPodPlacementConfig, as the administrator creates it.
    async fn config(&self) -> anyhow::Result<()> {
        self.apply(json!({
            "apiVersion": "multiarch.openshift.io/v1beta1", "kind": "ClusterPodPlacementConfig",
            "metadata": { "name": "cluster" },
            "spec": { "namespaceSelector": { "matchExpressions": [
                { "key": "multiarch.openshift.io/exclude-pod-placement", "operator": "DoesNotExist" },
            ] } },
        }))
        .await
    }

    /// The Lease of Medley's placement controller, held or expired.
    async fn lease(&self, held: bool) -> anyhow::Result<()> {
        let year = if held { 2999 } else { 2020 };
        let renewed = format!("{year}-01-01T00:00:00.000000Z");
        self.apply(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "medley-placement", "namespace": "medley-system" },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 30, "renewTime": renewed },
        }))
        .await
    }

    async fn place(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        self.medley(&[&["place"][..], line].concat()).await
    }

    async fn kubectl_get(
        &self,
        kind: (&str, &str, &str),
        name: &str,
    ) -> anyhow::Result<Option<Value>> {
        let (group, version, kind) = kind;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        Ok(api.get_opt(name).await?.map(|it| json!(it)))
    }
}

const CONFIG: (&str, &str, &str) = (
    "multiarch.openshift.io",
    "v1beta1",
    "ClusterPodPlacementConfig",
);
const POLICY: (&str, &str, &str) = ("medley.dev", "v1alpha1", "PlacementPolicy");

#[tokio::test]
async fn placement_is_handed_over_with_a_preview() -> anyhow::Result<()> {
    let fixture = PlaceFixture::start().await?;
    controllers::install(&fixture.client, "medley-system").await?;
    install_tuning(&fixture).await?;
    fixture.config().await?;

    // Medley could place nothing.
    fixture.lease(false).await?;
    let refused = fixture.place(&["take-over", "--yes"]).await?;
    has(
        &refused.err,
        &[
            "its controller does not run",
            "pods would be placed by no operator",
        ],
    );
    assert_eq!(refused.code, Some(1));
    fixture.lease(true).await?;

    // One namespace, there and back; the selector keeps what the administrator wrote.
    let refused = fixture.place(&["take-over", "shop"]).await?;
    has(
        &refused.out,
        &[
            "set spec.namespaceSelector of ClusterPodPlacementConfig cluster to",
            "\"shop\"",
        ],
    );
    has(&refused.err, &["--yes"]);
    let taken = fixture.place(&["take-over", "shop", "--yes"]).await?.ok()?;
    assert_eq!(
        taken,
        "clusterpodplacementconfig.multiarch.openshift.io/cluster patched\n"
    );
    let config = fixture
        .kubectl_get(CONFIG, "cluster")
        .await?
        .unwrap_or_default();
    let expressions = &config["spec"]["namespaceSelector"]["matchExpressions"];
    assert_eq!(expressions[0]["operator"], "DoesNotExist");
    assert_eq!(expressions[1]["values"], json!(["shop"]));
    let again = fixture.place(&["take-over", "shop", "--yes"]).await?;
    has(&again.err, &["Nothing to change"]);
    fixture.place(&["hand-back", "shop", "--yes"]).await?.ok()?;
    let config = fixture
        .kubectl_get(CONFIG, "cluster")
        .await?
        .unwrap_or_default();
    let expressions = config["spec"]["namespaceSelector"]["matchExpressions"].as_array();
    assert_eq!(expressions.map(Vec::len), Some(1));
    let refused = fixture.place(&["hand-back", "shop", "--yes"]).await?;
    has(&refused.err, &["does not exclude namespace shop by name"]);

    // All of it is handed back, which status and check show, and taken over.
    let shown = fixture.place(&["hand-back", "--dry-run"]).await?.ok()?;
    has(
        &shown,
        &["set spec.operatorMode of PlacementPolicy default to Assist (dry run)"],
    );
    assert_eq!(fixture.kubectl_get(POLICY, "default").await?, None);
    let back = fixture.place(&["hand-back", "--yes"]).await?.ok()?;
    assert_eq!(back, "placementpolicy.medley.dev/default created\n");
    let again = fixture.place(&["hand-back", "--yes"]).await?;
    has(&again.err, &["Nothing to change"]);
    let status = fixture.medley(&["status", "placement"]).await?.ok()?;
    has(
        &status,
        &["Assist: PlacementPolicy default sets operatorMode Assist"],
    );
    let check = fixture.medley(&["check", "--pre"]).await?;
    has(
        &check.out,
        &[
            "- no multiarch-tuning-operator places pods: PlacementPolicy default sets operatorMode Assist",
        ],
    );
    let taken = fixture.place(&["take-over", "--yes"]).await?.ok()?;
    assert_eq!(
        taken,
        "placementpolicy.medley.dev/default patched\nclusterpodplacementconfig.multiarch.openshift.io/cluster deleted\n"
    );
    let policy = fixture
        .kubectl_get(POLICY, "default")
        .await?
        .unwrap_or_default();
    assert_eq!(policy["spec"]["operatorMode"], "Auto");
    // Nothing removes the webhook here, as if the operator had been removed first.
    let left = fixture.place(&["take-over", "--yes"]).await?;
    has(
        &left.err,
        &[
            "kubectl delete mutatingwebhookconfiguration pod-placement-mutating-webhook-configuration",
        ],
    );
    let refused = fixture.place(&["hand-back", "--yes"]).await?;
    has(&refused.err, &["there is no ClusterPodPlacementConfig"]);
    Ok(())
}
