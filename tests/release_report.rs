//! `medley release report` and `medley release verify` on a cluster with OpenShift's CRDs.
#[path = "release_cli_support.rs"]
#[allow(dead_code, reason = "it is shared with a suite that uses more")]
mod support;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use support::OpenShiftFixture;
use testkit::{CommandOutput, has, wait_until};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

fn pull(letter: char) -> String {
    let digest = letter.to_string().repeat(64);
    format!("quay.io/release/art@sha256:{digest}")
}

async fn account(client: &Client) -> anyhow::Result<()> {
    // Without controllers no service account is created, and pods need one.
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    match accounts.create(&PostParams::default(), &account).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// The Deployment of an operator; only the test changes it.
struct Operator {
    fixture: OpenShiftFixture,
}

impl Operator {
    async fn start() -> anyhow::Result<Self> {
        let fixture = OpenShiftFixture::start().await?;
        account(&fixture.client).await?;
        Ok(Self { fixture })
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.fixture.client.clone(), "default")
    }

    async fn tell(&self, image: &str) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "dns-operator" },
            "spec": {
                "selector": { "matchLabels": { "app": "dns" } },
                "template": {
                    "metadata": { "labels": { "app": "dns" } },
                    "spec": { "containers": [{ "name": "operator", "image": image }] },
                },
            },
        });
        let params = PatchParams::apply("test").force();
        self.deployments()
            .patch("dns-operator", &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Marks all pods as updated.
    async fn roll_out(&self) -> anyhow::Result<()> {
        let seen = self.deployments().get("dns-operator").await?;
        let status = json!({ "status": {
            "observedGeneration": seen.metadata.generation,
            "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1,
        } });
        let params = PatchParams::default();
        self.deployments()
            .patch_status("dns-operator", &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    async fn report(&self, image: &str, more: &[&str]) -> anyhow::Result<CommandOutput> {
        let mut line = vec![
            "report",
            "--operator",
            "dns",
            "--namespace",
            "default",
            "--deployment",
            "dns-operator",
            "--release-version",
            "4.18.0",
            "--operator-image",
            image,
        ];
        line.extend(more);
        self.fixture.run(&line).await
    }

    async fn found(&self) -> anyhow::Result<DynamicObject> {
        Ok(self.fixture.api("ClusterOperator").get("dns").await?)
    }

    async fn versions(&self) -> anyhow::Result<Value> {
        Ok(self.found().await?.data["status"]["versions"].clone())
    }
}

fn both(image: &str) -> Value {
    json!([
        { "name": "operator", "version": "4.18.0" },
        { "name": "operator-image", "version": image },
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_reported_when_no_old_pod_runs() -> anyhow::Result<()> {
    let operator = Operator::start().await?;
    let (old, new) = (pull('a'), pull('b'));
    let refused = operator.report(&old, &["--once"]).await?.refused()?;
    has(&refused, &["reading Deployment default/dns-operator"]);

    // Nothing is reported before it runs.
    operator.tell(&old).await?;
    let result = operator.report(&old, &["--once"]).await?;
    assert_eq!(result.code, Some(1), "{result:?}");
    has(&result.err, &["clusteroperator/dns is not complete"]);
    let found = operator.found().await?;
    assert_eq!(found.data["status"]["versions"], Value::Null);
    assert_eq!(found.data["status"]["conditions"][0]["status"], "False");

    operator.roll_out().await?;
    let text = operator.report(&old, &["--once"]).await?.ok()?;
    assert_eq!(
        text,
        format!("clusteroperator/dns reports [{{operator 4.18.0}} {{operator-image {old}}}]\n")
    );
    assert_eq!(operator.versions().await?, both(&old));
    let before = operator.found().await?.resource_version();
    operator.report(&old, &["--once"]).await?.ok()?;
    assert_eq!(
        operator.found().await?.resource_version(),
        before,
        "not twice"
    );

    // The same version with another image: the old one is reported until the last old pod is gone.
    let pods: Api<Pod> = Api::namespaced(operator.fixture.client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "dns-operator-old", "labels": { "app": "dns" } },
        "spec": { "containers": [{ "name": "operator", "image": old }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    operator.tell(&new).await?;
    operator.roll_out().await?;
    let result = operator.report(&new, &["--once", "-o", "json"]).await?;
    assert_eq!(result.code, Some(1), "{result:?}");
    let document: Value = serde_json::from_str(&result.out)?;
    assert_eq!(document["arrived"], false);
    has(
        document["missing"].as_str().unwrap_or_default(),
        &["pod dns-operator-old still runs"],
    );
    assert_eq!(operator.versions().await?, both(&old));
    let conditions = operator.found().await?.data["status"]["conditions"].clone();
    let of = |kind: &str| {
        let mut all = conditions.as_array().into_iter().flatten();
        all.find(|it| it["type"] == kind)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(of("Progressing")["status"], "True");
    assert_eq!(of("Available")["status"], "True");

    // A sidecar in a pod of the old ReplicaSet reports nothing.
    let result = operator.report(&old, &["--once"]).await?;
    has(&result.err, &["its template runs", ", not "]);

    let grace = DeleteParams::default().grace_period(0);
    pods.delete("dns-operator-old", &grace).await?;
    let found = operator
        .report(&new, &["--once", "-o", "json"])
        .await?
        .json()?;
    assert_eq!(found["arrived"], true);
    assert_eq!(found["versions"]["operator-image"], new);
    assert_eq!(operator.versions().await?, both(&new));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_reports_until_it_is_stopped() -> anyhow::Result<()> {
    let operator = Operator::start().await?;
    let image = pull('a');
    operator.tell(&image).await?;
    let mut sidecar = tokio::process::Command::new(MEDLEY)
        .args([
            "release",
            "report",
            "--operator",
            "dns",
            "--deployment",
            "dns-operator",
        ])
        .args(["--operand", "core-dns", "--report", "router=1.2.3"])
        .env("KUBECONFIG", &operator.fixture.served.kubeconfig)
        .env("POD_NAMESPACE", "default")
        .env("RELEASE_VERSION", "4.18.0")
        .env("OPERATOR_IMAGE", &image)
        .env("CORE_DNS_IMAGE", pull('c'))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    wait_until("it is progressing", WAIT_TIMEOUT, async || {
        Ok(operator
            .fixture
            .api("ClusterOperator")
            .get_opt("dns")
            .await?)
    })
    .await?;
    operator.roll_out().await?;
    let wanted = json!([
        { "name": "core-dns-image", "version": pull('c') },
        { "name": "operator", "version": "4.18.0" },
        { "name": "operator-image", "version": image },
        { "name": "router", "version": "1.2.3" },
    ]);
    wait_until("it reports", WAIT_TIMEOUT, async || {
        Ok((operator.versions().await? == wanted).then_some(()))
    })
    .await?;
    // A removed version is reported again.
    let api = operator.fixture.api("ClusterOperator");
    api.delete("dns", &DeleteParams::default()).await?;
    wait_until("it reports again", WAIT_TIMEOUT, async || {
        let found = api.get_opt("dns").await?;
        Ok(found.filter(|it| it.data["status"]["versions"] == wanted))
    })
    .await?;
    let id = sidecar.id().context("it runs")?;
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &id.to_string()])
        .status()?;
    assert!(sent.success());
    assert!(sidecar.wait().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unreplaced_placeholders_are_not_reported() -> anyhow::Result<()> {
    let placeholder =
        "placeholder.url.oc.will.replace.this.org/placeholdernamespace:was-not-built-properly";
    let base = ["report", "--operator", "dns", "--deployment", "x", "--once"];
    for (more, expected) in [
        (vec![], "RELEASE_VERSION is not set"),
        (
            vec!["--release-version", "0.0.1-snapshot"],
            "should have replaced",
        ),
        (
            vec![
                "--release-version",
                "4.18.0",
                "--operator-image",
                placeholder,
            ],
            "should have replaced",
        ),
        (
            vec!["--release-version", "4.18.0", "--operand", "router"],
            "ROUTER_IMAGE is not set",
        ),
        (
            vec!["--release-version", "4.18.0", "--report", "operator=1"],
            "--release-version",
        ),
    ] {
        let line: Vec<&str> = base.iter().copied().chain(more).collect();
        let refused = support::medley(&line, None).await?.refused()?;
        has(&refused, &[expected]);
    }
    Ok(())
}

/// A cluster after a migration to multi-arch.
struct MigratedCluster {
    fixture: OpenShiftFixture,
}

impl MigratedCluster {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.fixture.client.clone())
    }

    async fn node(&self, name: &str, architecture: &str) -> anyhow::Result<Node> {
        let node = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/arch": architecture } },
        }))?;
        Ok(self.nodes().create(&PostParams::default(), &node).await?)
    }

    async fn ready(&self, name: &str) -> anyhow::Result<()> {
        let patch = json!({ "status": { "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": Timestamp::now().to_string(),
        }] } });
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    /// Sets the completion time of the release.
    async fn complete(&self, at: Timestamp) -> anyhow::Result<()> {
        let api = self.fixture.api("ClusterVersion");
        let found = api.get("version").await?;
        let mut history = found.data["status"]["history"].clone();
        history[0]["completionTime"] = json!(at.to_string());
        let patch = Patch::Merge(json!({ "status": { "history": history } }));
        api.patch_status("version", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn verify(&self, more: &[&str]) -> anyhow::Result<CommandOutput> {
        let mut line = vec!["verify"];
        line.extend(more);
        self.fixture.run(&line).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_of_another_architecture_verifies_the_migration() -> anyhow::Result<()> {
    let fixture = OpenShiftFixture::start().await?;
    account(&fixture.client).await?;
    let (single, multi) = (
        "quay.io/ocp/release:4.18.0-x86_64",
        "quay.io/ocp/release:4.18.0-multi",
    );
    fixture
        .operator("machine-config", Some(&pull('b')), false)
        .await?;
    let cluster = MigratedCluster { fixture };

    // While the migration is not complete, the command fails at once.
    cluster.fixture.version(multi, Some(single), true).await?;
    let result = cluster.verify(&["-o", "json"]).await?;
    assert_eq!(result.code, Some(2), "{result:?}");
    has(
        &result.err,
        &["has not completed", "nothing can be verified"],
    );
    let document: Value = serde_json::from_str(&result.out)?;
    assert_eq!(
        (&document["complete"], &document["proven"]),
        (&json!(false), &json!(false))
    );

    // A node that joined before completion does not count.
    let old = cluster.node("old", "amd64").await?;
    cluster.ready("old").await?;
    let came = old.creation_timestamp().context("it has a time")?.0;
    let completed = came + Duration::from_secs(1);
    cluster.fixture.version(multi, Some(single), false).await?;
    cluster.complete(completed).await?;
    wait_until("it is later", WAIT_TIMEOUT, async || {
        Ok((Timestamp::now() > completed).then_some(()))
    })
    .await?;
    let result = cluster.verify(&["--node-timeout", "0s"]).await?;
    assert_eq!(result.code, Some(1), "{result:?}");
    has(
        &result.err,
        &["not proven within 0s: no node of another architecture than amd64 has joined"],
    );

    // The command waits until a new node is ready.
    let waiting = tokio::process::Command::new(MEDLEY)
        .args(["release", "verify", "--node-timeout", "1m"])
        .env("KUBECONFIG", path(&cluster.fixture.served.kubeconfig))
        .stdin(Stdio::null())
        .output();
    let joining = async {
        cluster.node("arm", "arm64").await?;
        cluster.ready("arm").await
    };
    let (output, joined) = tokio::join!(waiting, joining);
    joined?;
    let text = CommandOutput::of(&output?).ok()?;
    has(
        &text,
        &[
            "Before:       amd64",
            "Joined:       node arm (arm64)",
            "Nodes of arm64 can join",
        ],
    );

    // If there is a machine-config daemon, it has to run on the node.
    let daemons: Api<DaemonSet> = Api::namespaced(cluster.fixture.client.clone(), "default");
    let daemon = serde_json::from_value(json!({
        "metadata": { "name": "daemon" },
        "spec": {
            "selector": { "matchLabels": { "app": "daemon" } },
            "template": {
                "metadata": { "labels": { "app": "daemon" } },
                "spec": { "containers": [{ "name": "daemon", "image": pull('b') }] },
            },
        },
    }))?;
    let daemon = daemons.create(&PostParams::default(), &daemon).await?;
    let on = ["--daemon", "default/daemon"];
    let line = [&on[..], &["--node-timeout", "0s"]].concat();
    let result = cluster.verify(&line).await?;
    assert_eq!(result.code, Some(1), "{result:?}");
    has(
        &result.err,
        &["the machine-config-daemon does not run there"],
    );
    let pods: Api<Pod> = Api::namespaced(cluster.fixture.client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "daemon-arm", "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon", "controller": true,
            "uid": daemon.uid(),
        }] },
        "spec": { "nodeName": "arm", "containers": [{ "name": "daemon", "image": pull('b') }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let patch = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "True", "lastTransitionTime": Timestamp::now().to_string(),
    }] } });
    pods.patch_status(
        "daemon-arm",
        &PatchParams::default(),
        &Patch::Strategic(patch),
    )
    .await?;
    let line = [&on[..], &["--arch", "aarch64", "-o", "json"]].concat();
    let found = cluster.verify(&line).await?.json()?;
    assert_eq!(found["proven"], true);
    assert_eq!(found["joined"][0]["daemon"]["pod"], "daemon-arm");
    assert!(found["tookSeconds"].is_u64(), "{found}");

    // Another architecture is verified separately.
    let line = [&on[..], &["--arch", "s390x", "--node-timeout", "0s"]].concat();
    let result = cluster.verify(&line).await?;
    has(
        &result.err,
        &["no node of s390x has joined since completion"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn single_arch_release_cannot_be_verified() -> anyhow::Result<()> {
    let fixture = OpenShiftFixture::start().await?;
    fixture
        .operator("machine-config", Some(&pull('b')), false)
        .await?;
    fixture
        .version("quay.io/ocp/release:4.18.0-x86_64", None, false)
        .await?;
    let result = fixture.run(&["verify"]).await?;
    assert_eq!(result.code, Some(2), "{result:?}");
    has(&result.err, &["is for one architecture"]);
    Ok(())
}

fn path(path: &Path) -> &str {
    support::path(path)
}
