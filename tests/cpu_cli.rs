//! `medley cpu` and its subcommands on a cluster with KubeVirt's CRDs, whose objects are as KubeVirt
//! and the operator write them.

use std::process::Stdio;

use api::cpu::{GROUP, PLURAL};
use cpu_models::names::{MODEL_ANNOTATION, REQUESTED_MODEL_ANNOTATION};
use fleet::operators::{self, Installed};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::wait_until_served;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{CommandOutput, ServedCluster, TestCluster, has};
use tokio::io::AsyncWriteExt as _;

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

struct CpuFixture {
    served: ServedCluster,
    client: Client,
    folder: TempDir,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
}

/// A node with the labels of KubeVirt's node labeller.
fn node(name: &str, vendor: &str, host_model: &str, models: &[&str]) -> Value {
    let mut labels = json!({
        "kubevirt.io/schedulable": "true",
        "kubernetes.io/arch": "amd64",
        format!("cpu-vendor.node.kubevirt.io/{vendor}"): "true",
        format!("host-model-cpu.node.kubevirt.io/{host_model}"): "true",
    });
    for model in models {
        labels[format!("cpu-model.node.kubevirt.io/{model}")] = json!("true");
        labels[format!("cpu-model-migration.node.kubevirt.io/{model}")] = json!("true");
    }
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } })
}

impl CpuFixture {
    /// A cluster without nodes, with or without KubeVirt's CRDs.
    async fn empty(kubevirt: bool) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let installed = Installed {
            virtual_machines: kubevirt,
            ..Installed::default()
        };
        operators::install(&client, &installed).await?;
        Ok(Self {
            served: cluster.serve().await?,
            client,
            folder: TempDir::new()?,
            _cluster: cluster,
        })
    }

    /// Two Rome nodes, three Naples nodes, one Intel node; VMs on some of them.
    async fn start() -> anyhow::Result<Self> {
        let fixture = Self::empty(true).await?;
        let (old, new) = (["EPYC", "Opteron_G3"], ["EPYC", "EPYC-Rome", "Opteron_G3"]);
        for number in 0..2 {
            let name = format!("rome{number}");
            fixture.node(node(&name, "AMD", "EPYC-Rome", &new)).await?;
        }
        for number in 0..3 {
            let name = format!("naples{number}");
            fixture.node(node(&name, "AMD", "EPYC", &old)).await?;
        }
        let intel = node(
            "intel0",
            "Intel",
            "Haswell",
            &["Haswell", "Penryn", "Novel"],
        );
        fixture.node(intel).await?;
        fixture.chosen("newest", "rome0", "EPYC-Rome").await?;
        fixture.chosen("older", "naples0", "EPYC").await?;
        fixture.chosen("alone", "intel0", "host-model").await?;
        fixture
            .create(
                "VirtualMachineInstance",
                json!({
                    "metadata": { "name": "fixed", "namespace": "default" },
                    "spec": { "architecture": "amd64", "domain": { "cpu": { "model": "EPYC" } } },
                    "status": { "phase": "Running", "nodeName": "rome1" },
                }),
            )
            .await?;
        Ok(fixture)
    }

    async fn node(&self, object: Value) -> anyhow::Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let new = serde_json::from_value(object)?;
        let made = api.create(&PostParams::default(), &new).await?;
        // The API server taints nodes that have not been reported as ready.
        let name = made.metadata.name.unwrap_or_default();
        let patch = Patch::Merge(json!({ "spec": { "taints": null } }));
        api.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A VMI with a model chosen by Medley.
    async fn chosen(&self, name: &str, node: &str, model: &str) -> anyhow::Result<()> {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "default",
                "annotations": { REQUESTED_MODEL_ANNOTATION: "best-match-model", MODEL_ANNOTATION: model },
            },
            "spec": { "architecture": "amd64", "domain": { "cpu": { "model": model } } },
            "status": { "phase": "Running", "nodeName": node },
        });
        self.create("VirtualMachineInstance", object).await
    }

    async fn create(&self, kind: &str, mut object: Value) -> anyhow::Result<()> {
        let kind = GroupVersionKind::gvk("kubevirt.io", "v1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource);
        object["apiVersion"] = json!("kubevirt.io/v1");
        object["kind"] = json!(kind.kind);
        let new: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &new).await?;
        Ok(())
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        self.run_with(line, "").await
    }

    async fn run_with(&self, line: &[&str], input: &str) -> anyhow::Result<CommandOutput> {
        let mut child = tokio::process::Command::new(MEDLEY)
            .arg("cpu")
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        Ok(CommandOutput::of(&child.wait_with_output().await?))
    }

    /// A file with this content.
    fn file(&self, name: &str, content: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

/// Cells of a table, by line.
fn cells(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.split("   ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect()
}

#[tokio::test]
async fn nodes_are_shown_by_make() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let result = fixture.run(&[]).await?;
    has(
        &result.err,
        &["Models without a known launch year are never chosen: Novel."],
    );
    let text = result.ok()?;
    assert_eq!(
        cells(&text),
        [
            vec![
                "ARCHITECTURE",
                "VENDOR",
                "HOST MODEL",
                "NODES",
                "NEWEST MODEL",
                "SHARED BY",
                "MODELS"
            ],
            vec!["amd64", "AMD", "EPYC", "3", "EPYC", "5", "2/2"],
            vec!["amd64", "AMD", "EPYC-Rome", "2", "EPYC-Rome", "2", "3/3"],
            vec!["amd64", "Intel", "Haswell", "1", "Haswell", "1", "2/3"],
        ]
    );
    has(
        &fixture.run(&["-o", "wide"]).await?.ok()?,
        &["EPYC:5,Opteron_G3:5", "naples0,naples1,naples2"],
    );
    has(
        &fixture.run(&["-o", "name"]).await?.ok()?,
        &["node/rome0\n", "node/intel0\n"],
    );
    let data = fixture.run(&["-o", "json"]).await?.json()?;
    assert_eq!(
        data["items"][1]["models"][0],
        json!({ "model": "EPYC-Rome", "year": 2019, "nodes": 2 })
    );
    assert_eq!(data["unknownModels"], json!(["Novel"]));
    has(
        &fixture.run(&["-o", "yaml"]).await?.ok()?,
        &["hostModel: EPYC-Rome"],
    );
    Ok(())
}

#[tokio::test]
async fn machines_that_could_fare_better_are_shown() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let text = fixture.run(&["vms"]).await?.ok()?;
    assert_eq!(
        cells(&text),
        [
            vec!["NAME", "NODE", "MODEL", "TARGETS", "STATE"],
            vec!["alone", "intel0", "host-model", "0", "Stranded:NoTarget"],
            vec!["fixed", "rome1", "EPYC", "4", "Fine"],
            vec!["newest", "rome0", "EPYC-Rome", "1", "Fine"],
            vec!["older", "naples0", "EPYC", "4", "Stale"],
        ]
    );
    let names = fixture.run(&["vms", "--stale", "-o", "name"]).await?.ok()?;
    assert_eq!(names, "virtualmachineinstance.kubevirt.io/older\n");
    let names = fixture
        .run(&["vms", "--stranded", "-A", "-o", "name"])
        .await?
        .ok()?;
    assert_eq!(names, "virtualmachineinstance.kubevirt.io/alone\n");
    let data = fixture
        .run(&["vms", "--stale", "--stranded", "-o", "json"])
        .await?
        .json()?;
    assert_eq!(data["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        data["items"][1]["review"]["stale"],
        json!({ "model": "EPYC-Rome", "here": false })
    );
    let wide = fixture.run(&["vms", "-A", "-o", "wide"]).await?.ok()?;
    has(&wide, &["NAMESPACE", "best-match-model", "EPYC-Rome"]);
    let none = fixture.run(&["vms", "-n", "kube-system"]).await?;
    has(
        &none.err,
        &["No virtual machines run in namespace kube-system; use -A for all namespaces."],
    );
    assert_eq!(none.ok()?, "");
    Ok(())
}

#[tokio::test]
async fn a_decision_is_explained() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let text = fixture.run(&["explain", "newest"]).await?.ok()?;
    has(
        &text,
        &[
            "default/newest requested best-match-model and has EPYC-Rome; on node rome0 it would get it again",
            "State: Fine; other nodes that could run it: 1",
            "node rome0: vendor AMD, host model EPYC-Rome",
            "supporting nodes required: 2, a third of 5 eligible nodes, but not less than 2",
            "EPYC-Rome (2019) is supported by 2 nodes: rome0, rome1",
            "EPYC (2017) is the next candidate: 5 nodes",
            "intel0: its vendor is Intel",
            "EPYC-Rome can spare none of its nodes",
        ],
    );
    let text = fixture.run(&["explain", "alone"]).await?.ok()?;
    has(
        &text,
        &[
            "no model has enough nodes: Haswell",
            "Haswell (2013) needs 1 more node",
        ],
    );
    let text = fixture.run(&["explain", "fixed"]).await?.ok()?;
    has(
        &text,
        &[
            "default/fixed requests EPYC; with best-match-model it would get EPYC-Rome on node rome1",
        ],
    );
    let text = fixture
        .run(&["explain", "newest", "--node", "naples1"])
        .await?
        .ok()?;
    has(&text, &["on node naples1 it would now get EPYC"]);
    let data = fixture
        .run(&["explain", "older", "-o", "json"])
        .await?
        .json()?;
    assert_eq!(data["recorded"], "EPYC");
    assert_eq!(
        data["explanation"]["decision"]["verdict"],
        json!({ "kind": "model", "value": "EPYC" })
    );
    let error = fixture.run(&["explain", "gone"]).await?.refused()?;
    has(
        &error,
        &["no VirtualMachineInstance and no VirtualMachine gone in namespace default"],
    );
    Ok(())
}

#[tokio::test]
async fn a_machine_that_does_not_run_is_explained_for_every_make() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let spec = json!({
        "architecture": "amd64", "domain": { "cpu": { "model": "best-match-model" } },
        "nodeSelector": { "cpu-vendor.node.kubevirt.io/AMD": "true" },
    });
    let machine = json!({
        "metadata": { "name": "halted", "namespace": "default" },
        "spec": { "runStrategy": "Halted", "template": { "spec": spec } },
    });
    fixture.create("VirtualMachine", machine).await?;
    let text = fixture.run(&["explain", "halted"]).await?.ok()?;
    has(&text, &["default/halted is not on a node"]);
    let rows = cells(&text);
    assert_eq!(
        rows[1],
        ["VENDOR", "HOST MODEL", "NODES", "MODEL", "REASON"]
    );
    assert!(
        rows.contains(&vec!["AMD", "EPYC", "3", "EPYC", "BestMatch"]),
        "{text}"
    );
    assert!(
        rows.contains(&vec!["AMD", "EPYC-Rome", "2", "EPYC-Rome", "BestMatch"]),
        "{text}"
    );

    // The enhancement proposal has an example VirtualMachine with `domain` directly under its spec.
    let proposed = "kind: VirtualMachine\nmetadata: {name: seed, namespace: default}\nspec:\n  domain:\n    cpu:\n      model: best-match-model\n";
    let usual = "kind: VirtualMachine\nmetadata: {name: seed, namespace: default}\nspec:\n  template:\n    spec:\n      domain:\n        cpu:\n          model: best-match-model\n";
    for manifest in [proposed, usual] {
        let result = fixture
            .run_with(&["explain", "-f", "-", "--node", "rome0"], manifest)
            .await?;
        has(
            &result.ok()?,
            &["default/seed requests best-match-model; on node rome0 it would get EPYC-Rome"],
        );
    }
    let pod = fixture
        .run_with(&["explain", "-f", "-"], "kind: Pod\n")
        .await?
        .refused()?;
    has(
        &pod,
        &["\"Pod\" is neither a VirtualMachine nor a VirtualMachineInstance"],
    );
    Ok(())
}

#[tokio::test]
async fn the_default_model_of_kubevirt_counts() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let kubevirt = json!({
        "metadata": { "name": "kubevirt", "namespace": "default" },
        "spec": { "configuration": { "cpuModel": "best-match-model", "obsoleteCPUModels": { "EPYC-Rome": false } } },
    });
    fixture.create("KubeVirt", kubevirt).await?;
    let manifest = "kind: VirtualMachineInstance\nmetadata: {name: plain, namespace: default}\nspec: {domain: {}}\n";
    let result = fixture
        .run_with(&["explain", "-f", "-", "--node", "rome0"], manifest)
        .await?;
    let text = result.ok()?;
    has(
        &text,
        &[
            "default/plain requests best-match-model; on node rome0 it would get EPYC",
            "EPYC-Rome: it is obsolete",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn other_nodes_are_tried_on_all_machines() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let text = fixture
        .run(&["what-if", "--remove-node", "rome1"])
        .await?
        .ok()?;
    has(
        &text,
        &[
            "VMs:            4\n",
            "Stranded:       1 -> 2\n",
            "Without node:   0 -> 1\n",
        ],
    );
    has(
        &text,
        &[
            "loses its last migration target; becomes stranded",
            "must move (targets: 4)",
        ],
    );
    assert_eq!(cells(&text).len(), 9, "older is not stale any more: {text}");
    let names = fixture
        .run(&["what-if", "--remove-node", "naples2", "-o", "name"])
        .await?
        .ok()?;
    assert_eq!(names, "", "enough are left");

    let more = node("intel1", "Intel", "Haswell", &["Haswell", "Penryn"]);
    let file = fixture.file("node.yaml", &serde_json::to_string(&more)?)?;
    let data = fixture
        .run(&["what-if", "--add-node", &file, "-o", "json"])
        .await?
        .json()?;
    assert_eq!(data["before"]["stranded"], 1);
    assert_eq!(data["after"]["stranded"], 0);
    assert_eq!(data["changes"][0]["name"], "alone");
    let bare = "apiVersion: v1\nkind: Node\nmetadata: {name: bare}\n";
    let result = fixture
        .run_with(&["what-if", "--add-node", "-"], bare)
        .await?;
    has(&result.err, &["Node bare has no vendor label"]);
    has(&result.ok()?, &["No virtual machine would change."]);

    let error = fixture
        .run(&["what-if", "--remove-node", "gone"])
        .await?
        .refused()?;
    has(
        &error,
        &["--remove-node gone: there is no such node; there are: intel0, naples0"],
    );
    let error = fixture
        .run_with(&["what-if", "--add-node", "-"], "kind: Pod\n")
        .await?
        .refused()?;
    has(&error, &["\"Pod\" is not a Node"]);
    let usage = fixture.run(&["what-if"]).await?.refused()?;
    has(
        &usage,
        &["--add-node <FILE>|--remove-node <NAME>|--policy <FILE>"],
    );
    Ok(())
}

#[tokio::test]
async fn another_policy_is_tried_and_the_policy_of_the_cluster_counts() -> anyhow::Result<()> {
    let fixture = CpuFixture::start().await?;
    let policy = |spec: &str| {
        format!(
            "apiVersion: medley.dev/v1alpha1\nkind: CpuModelPolicy\nmetadata: {{name: default}}\nspec: {spec}\n"
        )
    };
    let strict = policy("{threshold: {support: 3}}");
    let text = fixture
        .run_with(&["what-if", "--policy", "-"], &strict)
        .await?
        .ok()?;
    has(
        &text,
        &["Stranded:       1 -> 2", "newest", "becomes stranded"],
    );
    let wrong = policy("{threshold: {support: half}}");
    let error = fixture
        .run_with(&["what-if", "--policy", "-"], &wrong)
        .await?
        .refused()?;
    has(
        &error,
        &["spec.threshold.support: \"half\" is neither a number of nodes nor a share"],
    );

    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    definitions
        .create(&PostParams::default(), &api::cpu::definition())
        .await?;
    wait_until_served(&fixture.client, &format!("{PLURAL}.{GROUP}")).await?;
    let policies: Api<api::cpu::CpuModelPolicy> = Api::all(fixture.client.clone());
    let create = |spec: Value| {
        let object = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "CpuModelPolicy",
            "metadata": { "name": "default" }, "spec": spec,
        });
        let api: Api<DynamicObject> = Api::all_with(
            fixture.client.clone(),
            &ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "CpuModelPolicy")),
        );
        async move {
            let new: DynamicObject = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &new).await?;
            anyhow::Ok(())
        }
    };
    for wrong in [
        json!({ "threshold": { "support": 0 } }),
        json!({ "threshold": { "support": "half" } }),
        json!({ "threshold": { "minimum": 5, "maximum": 3 } }),
        json!({ "threshold": { "support": 4, "minimum": 3 } }),
        json!({ "models": [{ "name": "x" }] }),
        json!({ "bias": "Oldest" }),
    ] {
        let refused = create(wrong.clone()).await;
        assert!(refused.is_err(), "{wrong} was taken");
    }
    create(json!({ "threshold": { "support": 3 } })).await?;
    let found = policies.get("default").await?;
    assert_eq!(
        found.spec.minimal_launch_year,
        Some(2007),
        "the server fills in defaults"
    );
    let names = fixture
        .run(&["vms", "--stranded", "-o", "name"])
        .await?
        .ok()?;
    has(&names, &["newest"]);
    Ok(())
}

#[tokio::test]
async fn without_kubevirt_the_nodes_are_shown_all_the_same() -> anyhow::Result<()> {
    let fixture = CpuFixture::empty(false).await?;
    let none = fixture.run(&[]).await?;
    has(&none.err, &["No nodes found."]);
    assert_eq!(none.ok()?, "");
    fixture
        .node(node("rome0", "AMD", "EPYC-Rome", &["EPYC-Rome"]))
        .await?;
    has(&fixture.run(&[]).await?.ok()?, &["EPYC-Rome"]);
    let error = fixture.run(&["vms"]).await?.refused()?;
    has(
        &error,
        &[
            "CustomResourceDefinition virtualmachineinstances.kubevirt.io is not installed; it comes with KubeVirt",
        ],
    );
    Ok(())
}
