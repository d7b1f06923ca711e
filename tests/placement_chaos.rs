//! Operator, webhook and registry as processes that are killed with SIGKILL, in the order in which it hurts: no pod stays
//! gated, and none is refused. `crates/operator/controllers/tests/placement/chaos.rs` does all orders within a process.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use binary::{MEDLEY, stop};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{
    CommandOutput, Layout, Process, Registry, ServedCluster, TestCluster, free_port, has,
    wait_until,
};

/// Longer than the Lease of the controller lasts.
const WAIT_TIMEOUT: Duration = Duration::from_mins(3);
const GATE: &str = "medley.dev/placement";

struct Cluster {
    served: ServedCluster,
    client: Client,
    registry: Registry,
    arm: Value,
    started: usize,
    /// Ends with the last program.
    _api: TestCluster,
    _folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        controllers::install(&client, "medley-system").await?;
        for (name, architecture) in [("amd-1", "amd64"), ("arm-1", "arm64")] {
            let labels = json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture });
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            let nodes: Api<Node> = Api::all(client.clone());
            let node = serde_json::from_value(node)?;
            nodes.create(&PostParams::default(), &node).await?;
        }
        let registry = Registry::start().await?;
        let folder = tempfile::tempdir()?;
        let mut layout = Layout::new(&folder.path().join("layout"))?;
        let arm = layout.image("arm64", &[b"arm"], &json!({}))?;
        layout.name("arm", &arm)?;
        registry.push(&layout.source("arm"), "arm:1")?;
        Ok(Self {
            served: cluster.serve().await?,
            client,
            registry,
            arm,
            started: 0,
            _api: cluster,
            _folder: folder,
        })
    }

    /// Starts `medley run` or `medley webhook`, and waits until it is ready.
    async fn run(&mut self, command: &str, more: &[&str]) -> anyhow::Result<Process> {
        self.started += 1;
        let folder = self
            .served
            .folder()
            .join(format!("{command}-{}", self.started));
        std::fs::create_dir(&folder)?;
        let (kubeconfig, host) = (self.served.kubeconfig.clone(), self.registry.host());
        let mut line = vec![command, "-v", "--health-address", "127.0.0.1:0"];
        line.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        line.extend(["--insecure", &host, "--allow-address", "127.0.0.0/8"]);
        line.extend(more);
        let mut process = Process::start(Path::new(MEDLEY), line, &folder)?;
        let ready = wait_until("it is ready", WAIT_TIMEOUT, async || {
            let output = process.output();
            Ok(output.lines().any(|line| line == "ready").then_some(()))
        });
        if let Err(error) = ready.await {
            process.check()?;
            return Err(error);
        }
        Ok(process)
    }

    async fn operator(&mut self) -> anyhow::Result<Process> {
        self.run("run", &["--controllers", "placement"]).await
    }

    async fn webhook(&mut self) -> anyhow::Result<Process> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let url = format!("url=https://{address}");
        let place = ["--address", &address, "--register", &url];
        let jobs = ["--controllers", "placement"];
        self.run("webhook", &[&place[..], &jobs].concat()).await
    }

    /// Creates a pod with an image for arm64 that no component has inspected.
    async fn pod(&self, name: &str) -> anyhow::Result<Pod> {
        self.pod_of(name, &self.unknown(name)?, false).await
    }

    async fn pod_of(&self, name: &str, image: &str, dry_run: bool) -> anyhow::Result<Pod> {
        let pod = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "app", "image": image }] },
        }))?;
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        Ok(self.pods().create(&params, &pod).await?)
    }

    /// Pushes an image that no component has inspected.
    fn unknown(&self, tag: &str) -> anyhow::Result<String> {
        let index = json!({ "schemaVersion": 2, "manifests": [self.arm] }).to_string();
        self.registry
            .put_index(&format!("arm:{tag}"), index.as_bytes())?;
        Ok(format!("{}/arm:{tag}", self.registry.host()))
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Waits until a new pod would be gated, or would not.
    async fn until_new_pods_are(&self, what: &str, gated: bool) -> anyhow::Result<()> {
        let round = Cell::new(0);
        wait_until(what, WAIT_TIMEOUT, async || {
            round.set(round.get() + 1);
            let tag = format!("{}-{}", what.replace(' ', "-"), round.get());
            let made = self.pod_of("probe", &self.unknown(&tag)?, true).await?;
            Ok((is_gated(&made) == gated).then_some(()))
        })
        .await
    }

    /// Waits until a pod has no gate; returns it.
    async fn released(&self, name: &str) -> anyhow::Result<Pod> {
        testkit::until(&self.pods(), name, "is released", WAIT_TIMEOUT, |pod| {
            !is_gated(pod)
        })
        .await
    }

    fn medley(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::null())
            .output()?;
        Ok(CommandOutput::of(&output))
    }
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| &spec.scheduling_gates);
    gates.flatten().any(|gate| gate.name == GATE)
}

fn is_for_arm(pod: &Pod) -> bool {
    json!(pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()))
        .to_string()
        .contains("arm64")
}

fn why(pod: &Pod) -> &str {
    let annotations = pod.metadata.annotations.as_ref();
    let why = annotations.and_then(|all| all.get("medley.dev/placement-reason"));
    why.map(String::as_str).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_at_the_gate_survive_the_death_of_every_process() -> anyhow::Result<()> {
    let mut cluster = Cluster::start().await?;

    // Healthy: gated, and released to nodes that run the image.
    let mut operator = cluster.operator().await?;
    let mut webhook = cluster.webhook().await?;
    cluster.until_new_pods_are("gated", true).await?;
    cluster.pod("healthy").await?;
    assert!(is_for_arm(&cluster.released("healthy").await?));

    // The operator is killed for good; the webhook restarts and finds the registry down. The Lease is still fresh for
    // the first pod, and the webhook that releases it has not gated it.
    stop(&mut operator, "-KILL");
    let stranded = cluster.pod("stranded").await?;
    assert!(is_gated(&stranded), "{}", why(&stranded));
    stop(&mut webhook, "-KILL");
    cluster.registry.kill();
    cluster
        .pod_of("unserved", "registry.invalid/app:1", false)
        .await?;
    let mut webhook = cluster.webhook().await?;
    let stranded = cluster.released("stranded").await?;
    assert!(
        why(&stranded).ends_with("no placement controller is running"),
        "{}",
        why(&stranded)
    );
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    wait_until("there is an event", WAIT_TIMEOUT, async || {
        let events = events.list(&ListParams::default()).await?.items;
        let message = |event: &Event| event.message.clone().unwrap_or_default();
        let of = |event: &&Event| event.involved_object.name.as_deref() == Some("stranded");
        let mut messages = events.iter().filter(of).map(message);
        Ok(messages.find(|it| it.ends_with("no placement controller is running")))
    })
    .await?;

    // An operator that leads, without the placement controller.
    cluster.registry.restart().await?;
    let mut other = cluster.run("run", &["--controllers", "governance"]).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "medley-system");
    assert!(leases.get_opt("medley").await?.is_some());
    let admitted = cluster.pod("not-gated").await?;
    assert!(!is_gated(&admitted));
    assert!(
        why(&admitted).starts_with("NotGated: "),
        "{}",
        why(&admitted)
    );
    stop(&mut other, "-TERM");

    // It comes back with placement, and everything is killed while a pod is gated: the user releases it.
    let mut operator = cluster.operator().await?;
    cluster.until_new_pods_are("gated again", true).await?;
    stop(&mut operator, "-KILL");
    let left = cluster.pod("left").await?;
    assert!(is_gated(&left), "{}", why(&left));
    stop(&mut webhook, "-KILL");
    cluster.registry.kill();
    let refused = cluster.medley(&["place", "release", "--all"])?;
    has(&refused.out, &["NAMESPACE", "default", "left", "Waiting: "]);
    has(&refused.err, &["--yes"]);
    assert!(is_gated(&cluster.pods().get("left").await?));
    for mode in ["--dry-run", "--dry-run=server"] {
        let shown = cluster.medley(&["place", "release", "left", mode])?.ok()?;
        has(
            &shown,
            &["pod/left of namespace default released", "dry run"],
        );
        assert!(is_gated(&cluster.pods().get("left").await?));
    }
    let released = cluster
        .medley(&["place", "release", "--all", "--yes"])?
        .ok()?;
    has(&released, &["pod/left of namespace default released\n"]);
    let left = cluster.pods().get("left").await?;
    assert!(!is_gated(&left));
    assert_eq!(
        why(&left),
        "NotPlaced: released without node affinity: by a user"
    );
    // Nothing is left to do, and pods arrive as if Medley had never been there.
    let nothing = cluster.medley(&["place", "release", "--all", "--yes"])?;
    has(&nothing.err, &["No pod is held at the gate"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), ""));
    let unknown = cluster.medley(&["place", "release", "left"])?;
    has(&unknown.err, &["no pod left is held", "--all"]);
    let after = cluster
        .pod_of("after", "registry.invalid/app:1", false)
        .await?;
    assert_eq!((is_gated(&after), why(&after)), (false, ""));
    Ok(())
}
