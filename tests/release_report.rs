//! `medley release report` and `medley release verify` against a cluster with the kinds of OpenShift.
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
use support::World;
use testkit::{Said, has, wait_until};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const PATIENCE: Duration = Duration::from_mins(1);

fn pull(letter: char) -> String {
    let digest = letter.to_string().repeat(64);
    format!("quay.io/release/art@sha256:{digest}")
}

async fn account(client: &Client) -> anyhow::Result<()> {
    // On a cluster without controllers nobody makes it, and pods need it.
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    match accounts.create(&PostParams::default(), &account).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// The Deployment of an operator, as nobody looks after it here but the test.
struct Operator {
    world: World,
}

impl Operator {
    async fn start() -> anyhow::Result<Self> {
        let world = World::start().await?;
        account(&world.client).await?;
        Ok(Self { world })
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.world.client.clone(), "default")
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

    /// All pods are said to be new.
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

    async fn report(&self, image: &str, more: &[&str]) -> anyhow::Result<Said> {
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
        self.world.run(&line).await
    }

    async fn found(&self) -> anyhow::Result<DynamicObject> {
        Ok(self.world.api("ClusterOperator").get("dns").await?)
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
async fn an_operator_has_arrived_when_no_old_code_runs_any_more() -> anyhow::Result<()> {
    let operator = Operator::start().await?;
    let (old, new) = (pull('a'), pull('b'));
    let refused = operator.report(&old, &["--once"]).await?.refused()?;
    has(&refused, &["reading Deployment default/dns-operator"]);

    // Nothing is claimed before it runs.
    operator.tell(&old).await?;
    let said = operator.report(&old, &["--once"]).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    has(&said.err, &["clusteroperator/dns has not arrived"]);
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

    // The same version with another image: the old one stays until the last old pod is gone.
    let pods: Api<Pod> = Api::namespaced(operator.world.client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "dns-operator-old", "labels": { "app": "dns" } },
        "spec": { "containers": [{ "name": "operator", "image": old }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    operator.tell(&new).await?;
    operator.roll_out().await?;
    let said = operator.report(&new, &["--once", "-o", "json"]).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    let told: Value = serde_json::from_str(&said.out)?;
    assert_eq!(told["arrived"], false);
    has(
        told["missing"].as_str().unwrap_or_default(),
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

    // Whoever was started with the old image is not the one to say so.
    let said = operator.report(&old, &["--once"]).await?;
    has(&said.err, &["it is told to run", "and not"]);

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
async fn a_sidecar_follows_its_operator_until_it_is_stopped() -> anyhow::Result<()> {
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
        .env("KUBECONFIG", &operator.world.served.kubeconfig)
        .env("POD_NAMESPACE", "default")
        .env("RELEASE_VERSION", "4.18.0")
        .env("OPERATOR_IMAGE", &image)
        .env("CORE_DNS_IMAGE", pull('c'))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    wait_until("it says that it is on its way", PATIENCE, async || {
        Ok(operator.world.api("ClusterOperator").get_opt("dns").await?)
    })
    .await?;
    operator.roll_out().await?;
    let wanted = json!([
        { "name": "core-dns-image", "version": pull('c') },
        { "name": "operator", "version": "4.18.0" },
        { "name": "operator-image", "version": image },
        { "name": "router", "version": "1.2.3" },
    ]);
    wait_until("it reports", PATIENCE, async || {
        Ok((operator.versions().await? == wanted).then_some(()))
    })
    .await?;
    // What somebody takes away is said again.
    let api = operator.world.api("ClusterOperator");
    api.delete("dns", &DeleteParams::default()).await?;
    wait_until("it reports again", PATIENCE, async || {
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
async fn what_was_not_built_properly_is_not_reported() -> anyhow::Result<()> {
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

/// A cluster that has become multi-arch.
struct Migrated {
    world: World,
}

impl Migrated {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.world.client.clone())
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

    /// The release is complete since a time.
    async fn complete(&self, at: Timestamp) -> anyhow::Result<()> {
        let api = self.world.api("ClusterVersion");
        let found = api.get("version").await?;
        let mut history = found.data["status"]["history"].clone();
        history[0]["completionTime"] = json!(at.to_string());
        let patch = Patch::Merge(json!({ "status": { "history": history } }));
        api.patch_status("version", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn verify(&self, more: &[&str]) -> anyhow::Result<Said> {
        let mut line = vec!["verify"];
        line.extend(more);
        self.world.run(&line).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_another_architecture_is_the_proof() -> anyhow::Result<()> {
    let world = World::start().await?;
    account(&world.client).await?;
    let (single, multi) = (
        "quay.io/ocp/release:4.18.0-x86_64",
        "quay.io/ocp/release:4.18.0-multi",
    );
    world
        .operator("machine-config", Some(&pull('b')), false)
        .await?;
    let cluster = Migrated { world };

    // As long as the migration is not complete, nothing is waited for.
    cluster.world.version(multi, Some(single), true).await?;
    let said = cluster.verify(&["-o", "json"]).await?;
    assert_eq!(said.code, Some(2), "{said:?}");
    has(&said.err, &["has not arrived at", "nothing can be proven"]);
    let told: Value = serde_json::from_str(&said.out)?;
    assert_eq!(
        (&told["complete"], &told["proven"]),
        (&json!(false), &json!(false))
    );

    // A machine that was there before proves nothing.
    let old = cluster.node("old", "amd64").await?;
    cluster.ready("old").await?;
    let came = old.creation_timestamp().context("it has a time")?.0;
    let completed = came + Duration::from_secs(1);
    cluster.world.version(multi, Some(single), false).await?;
    cluster.complete(completed).await?;
    wait_until("it is later", PATIENCE, async || {
        Ok((Timestamp::now() > completed).then_some(()))
    })
    .await?;
    let said = cluster.verify(&["--node-timeout", "0s"]).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    has(
        &said.err,
        &["not proven within 0s: no node of another architecture than amd64 has joined"],
    );

    // One that comes is waited for until it is ready.
    let waiting = tokio::process::Command::new(MEDLEY)
        .args(["release", "verify", "--node-timeout", "1m"])
        .env("KUBECONFIG", path(&cluster.world.served.kubeconfig))
        .stdin(Stdio::null())
        .output();
    let joining = async {
        cluster.node("arm", "arm64").await?;
        cluster.ready("arm").await
    };
    let (output, joined) = tokio::join!(waiting, joining);
    joined?;
    let text = Said::of(&output?).ok()?;
    has(
        &text,
        &[
            "Before:       amd64",
            "Joined:       node arm (arm64)",
            "Machines of arm64 can join",
        ],
    );

    // Where a daemon looks after machines, it has to run there.
    let daemons: Api<DaemonSet> = Api::namespaced(cluster.world.client.clone(), "default");
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
    let said = cluster.verify(&line).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    has(
        &said.err,
        &["the daemon that looks after machines does not run there"],
    );
    let pods: Api<Pod> = Api::namespaced(cluster.world.client.clone(), "default");
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

    // Another architecture is another proof.
    let line = [&on[..], &["--arch", "s390x", "--node-timeout", "0s"]].concat();
    let said = cluster.verify(&line).await?;
    has(&said.err, &["no node of s390x has joined since completion"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_for_one_architecture_proves_nothing() -> anyhow::Result<()> {
    let world = World::start().await?;
    world
        .operator("machine-config", Some(&pull('b')), false)
        .await?;
    world
        .version("quay.io/ocp/release:4.18.0-x86_64", None, false)
        .await?;
    let said = world.run(&["verify"]).await?;
    assert_eq!(said.code, Some(2), "{said:?}");
    has(&said.err, &["is for one architecture"]);
    Ok(())
}

fn path(path: &Path) -> &str {
    support::path(path)
}
