//! `medley cri` beside the genuine programs of a node: critest and crictl as clients, two versions of containerd behind
//! it, and a kubelet that uses both.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;
mod cri_support;

#[path = "beside/node/containerd.rs"]
mod containerd;
#[path = "beside/node/critest.rs"]
mod critest;
#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/node/images.rs"]
mod images;
#[path = "beside/node/kubelet.rs"]
mod kubelet;
#[path = "beside/node/machine.rs"]
mod machine;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};
use testkit::{CommandOutput, has, peer, until, wait_until};

use containerd::{Containerd, Version};
use cri_support::{Service, named, of, rootfs};
use critest::Critest;
use fixture::{GenuineCluster, WAIT_TIMEOUT};
use images::{Images, host_architecture};
use kubelet::{Kubelet, NODE};
use machine::Machine;

/// Specs of critest that have to pass.
const IMAGE_SPECS: &str = include_str!("beside/node/critest_image_specs.txt");

/// Handlers of the image service: one beside those of containerd.
const ARM: &str = "[handlers.arm]\nplatform = \"linux/arm64\"\n";

/// The same, and the default one.
const ARM_AND_DEFAULT: &str =
    "default = \"runc\"\n[handlers.runc]\n[handlers.arm]\nplatform = \"linux/arm64\"\n";

/// A node with containerd, and `medley cri` in front of it. Programs end before the machine, which ends what they leave.
struct Node {
    service: Service,
    containerd: Containerd,
    /// The image that containerd pins.
    sandbox: String,
    machine: Machine,
}

impl Node {
    async fn start(
        version: Version,
        images: &mut Images,
        handlers: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let machine = Machine::start().await?;
        let sleep = json!({"Entrypoint": ["/bin/busybox", "sleep", "infinity"]});
        let sandbox = images.push("sandbox:1", &sleep)?;
        let mirrors = images.mirrors(&critest::REGISTRIES)?;
        let containerd = Containerd::start(version, &machine, &sandbox, &mirrors).await?;
        let folder = machine.folder("medley")?;
        let config = folder.join("handlers.toml");
        std::fs::write(&config, handlers).context("writing handlers")?;
        let backend = format!("unix://{}", containerd.socket.display());
        let (config, mirrors) = (config.display().to_string(), mirrors.display().to_string());
        let own = [
            "--config",
            &config,
            "--mirrors",
            &mirrors,
            "--backend",
            &backend,
        ];
        let service = Service::start(&folder, &[&own, arguments].concat());
        Ok(Self {
            service,
            containerd,
            sandbox,
            machine,
        })
    }
}

async fn image_specs_pass(version: Version) -> anyhow::Result<()> {
    let mut images = Images::start().await?;
    let node = Node::start(version, &mut images, ARM_AND_DEFAULT, &[]).await?;
    let critest = Critest::new(&mut images, &node.machine.folder("critest")?)?;
    let results = critest.run(&node.service.socket)?;
    assert_eq!(results.failed, BTreeSet::new());
    let expected: BTreeSet<String> = IMAGE_SPECS.lines().map(str::to_owned).collect();
    assert_eq!(results.passed, expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn critest_image_specs_pass_with_containerd_2_behind() -> anyhow::Result<()> {
    image_specs_pass(Version::Peer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn critest_image_specs_pass_with_containerd_1_behind() -> anyhow::Result<()> {
    image_specs_pass(Version::Debian).await
}

/// Runs crictl on a node where the image service is also the socket of the runtime.
fn crictl(node: &Node, arguments: &[&str]) -> anyhow::Result<CommandOutput> {
    let config = node.machine.folder("crictl")?.join("crictl.yaml");
    let endpoint = format!("unix://{}", node.service.socket.display());
    let text = json!({ "runtime-endpoint": endpoint, "image-endpoint": endpoint }).to_string();
    std::fs::write(&config, text).context("writing a configuration of crictl")?;
    let output = Command::new(peer("crictl")?)
        .arg("--config")
        .arg(&config)
        .args(arguments)
        .output()
        .context("running crictl")?;
    Ok(CommandOutput::of(&output))
}

/// Runtime handlers and ids of all images with a name.
fn listed(node: &Node, name: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    // Not with a filter: containerd ignores it.
    let list = crictl(node, &["images", "--output", "json"])?.json()?;
    let images = list["images"].as_array().context("a list of images")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(images
        .iter()
        .filter(|image| image["repoTags"] == json!([name]))
        .map(|image| (text(&image["spec"]["runtimeHandler"]), text(&image["id"])))
        .collect())
}

async fn crictl_manages_images_of_both(version: Version) -> anyhow::Result<()> {
    let mut images = Images::start().await?;
    let image = images.push_index("apps/both:1", &json!({}))?;
    let node = Node::start(version, &mut images, ARM, &[]).await?;
    let run = |arguments: &[&str]| crictl(&node, arguments)?.ok();
    let pull = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = run(&[&["pull"], arguments, &[&image]].concat())?;
        let id = output.trim().rsplit(' ').next();
        Ok(id.context("an id")?.to_owned())
    };
    // crictl has no option for a handler, but passes annotations on.
    let for_arm = ["--annotation", "kubernetes.io/runtimehandler=arm"];

    // containerd answers what is not about images.
    let runtime = format!("RuntimeVersion:  {}", version.prefix());
    has(&run(&["version"])?, &["RuntimeName:  containerd", &runtime]);
    let info = crictl(&node, &["info"])?.json()?;
    let conditions = info["status"]["conditions"].as_array().unwrap();
    for name in ["RuntimeReady", "NetworkReady"] {
        let holds = |found: &Value| found["type"] == name && found["status"] == true;
        assert!(conditions.iter().any(holds), "{name}: {conditions:?}");
    }

    // One name, two images.
    let (theirs, ours) = (pull(&[])?, pull(&for_arm)?);
    assert_ne!(theirs, ours);
    let their_entry = (String::new(), theirs.clone());
    let our_entry = ("arm".to_owned(), ours.clone());
    let both = BTreeSet::from([their_entry.clone(), our_entry.clone()]);
    assert_eq!(listed(&node, &image)?, both);

    // Each is inspected by its id; the name alone is that of the default handler.
    let host = host_architecture();
    for (reference, architecture) in [(&image, host), (&theirs, host), (&ours, "arm64")] {
        let found = crictl(&node, &["inspecti", reference])?.json()?;
        let config = &found["info"]["imageSpec"];
        assert_eq!(config["architecture"], architecture, "{found:#}");
        assert_eq!(found["status"]["repoTags"], json!([image]), "{found:#}");
    }
    let found = crictl(&node, &["inspecti", &ours])?.json()?;
    let files = Path::new(found["info"]["rootfs"].as_str().unwrap());
    let architecture = std::fs::read_to_string(files.join("etc/architecture"))?;
    assert_eq!(architecture, "arm64");

    let usage = crictl(&node, &["imagefsinfo", "--output", "json"])?.json()?;
    let stores = usage["status"]["imageFilesystems"].as_array().unwrap();
    assert_eq!(stores.len(), 2, "{usage:#}");
    let own = node.service.root.to_str().unwrap();
    assert_eq!(stores[0]["fsId"]["mountpoint"], own, "{usage:#}");

    // Removing one leaves the other.
    run(&["rmi", &ours])?;
    assert_eq!(listed(&node, &image)?, BTreeSet::from([their_entry]));
    pull(&for_arm)?;
    run(&["rmi", &theirs])?;
    assert_eq!(listed(&node, &image)?, BTreeSet::from([our_entry]));
    pull(&[])?;
    run(&["rmi", "--prune"])?;
    assert_eq!(listed(&node, &image)?, BTreeSet::new());
    let gone = crictl(&node, &["inspecti", &image])?;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn crictl_manages_images_of_medley_and_containerd_2() -> anyhow::Result<()> {
    crictl_manages_images_of_both(Version::Peer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn crictl_manages_images_of_medley_and_containerd_1() -> anyhow::Result<()> {
    crictl_manages_images_of_both(Version::Debian).await
}

/// A pod in the network of the node, which needs no CNI plugin.
fn pod(name: &str, image: &str, command: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "nodeName": NODE,
            "hostNetwork": true,
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": image, "command": ["/bin/busybox", "sh", "-c", command],
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_runs_pods_and_pulls_for_handlers() -> anyhow::Result<()> {
    let mut images = Images::start().await?;
    let image = images.push_index("apps/both:1", &json!({}))?;
    let node = Node::start(Version::Peer, &mut images, ARM, &[]).await?;
    let beside = GenuineCluster::start().await?;
    let runtime = &node.containerd.socket;
    let mut kubelet = Kubelet::start(
        &node.machine,
        &beside,
        runtime,
        &node.service.socket,
        &json!({}),
    )?;
    kubelet
        .node(&beside, "is ready", |node| kubelet::is(node, "Ready"))
        .await?;

    // An ordinary pod: the image is pulled through Medley, and is containerd's.
    let command = "echo \"on $(/bin/busybox cat /etc/architecture)\"";
    beside.apply(pod("ordinary", &image, command)).await?;
    let pods: Api<Pod> = Api::namespaced(beside.cluster.client(), "default");
    let done = until(&pods, "ordinary", "succeeds", WAIT_TIMEOUT, |pod| {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        phase == Some("Succeeded")
    })
    .await
    .with_context(|| format!("{}\n{}", kubelet.log(), node.containerd.log()))?;
    let status = json!(done.status);
    let ran = status["containerStatuses"][0]["imageID"].as_str().unwrap();
    let repository = image.trim_end_matches(":1");
    assert!(ran.starts_with(&format!("{repository}@sha256:")), "{ran}");
    let log = beside
        .served
        .kubectl("default", &["logs", "ordinary"])
        .await?;
    assert_eq!(log.trim(), format!("on {}", host_architecture()));
    let theirs = node.service.client.status(named(&image)).await?;
    let theirs = theirs.context("the image of the ordinary pod")?;
    assert_eq!(theirs.spec.unwrap_or_default().runtime_handler, "");

    // A pod of a RuntimeClass: the same name is pulled once more, for the platform of its handler.
    beside
        .apply(json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": { "name": "arm" }, "handler": "arm",
        }))
        .await?;
    let mut classed = pod("classed", &image, command);
    classed["spec"]["runtimeClassName"] = json!("arm");
    beside.apply(classed).await?;
    let client = &node.service.client;
    let ours = wait_until("an image for the handler", WAIT_TIMEOUT, || async {
        Ok(client.status(of(&image, "arm")).await?)
    })
    .await
    .with_context(|| kubelet.log())?;
    assert_ne!(ours.id, theirs.id);
    let files = rootfs(client, of(&image, "arm")).await;
    assert_eq!(
        std::fs::read_to_string(files.join("etc/architecture"))?,
        "arm64"
    );

    // The kubelet reports both, and the size of Medley's store.
    kubelet
        .node(&beside, "reports the image twice", |node| {
            let images = node
                .status
                .as_ref()
                .and_then(|status| status.images.as_ref());
            let named = images
                .into_iter()
                .flatten()
                .filter(|found| found.names.iter().flatten().any(|name| *name == image));
            named.count() == 2
        })
        .await?;
    let summary = kubelet.summary()?;
    let used = summary["node"]["runtime"]["imageFs"]["usedBytes"].as_u64();
    let usage = client.fs_info().await?.image_filesystems;
    assert_eq!(
        used,
        usage[0].used_bytes.map(|used| used.value),
        "{summary:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_collects_unused_images_of_both_stores() -> anyhow::Result<()> {
    let mut images = Images::start().await?;
    let unused = images.push_index("apps/unused:1", &json!({"Labels": {"name": "unused"}}))?;
    let pinned = images.push_index("apps/pinned:1", &json!({"Labels": {"name": "pinned"}}))?;
    let node = Node::start(Version::Peer, &mut images, ARM, &["--pin", &pinned]).await?;
    let client = &node.service.client;
    let specs = [
        named(&unused),
        named(&node.sandbox),
        of(&unused, "arm"),
        of(&pinned, "arm"),
    ];
    for spec in specs {
        client.pull(spec, None).await?;
    }
    let beside = GenuineCluster::start().await?;
    // As on a node whose disk is full.
    let settings = json!({
        "evictionHard": { "imagefs.available": "99.99%" },
        "imageMinimumGCAge": "1s",
    });
    let runtime = &node.containerd.socket;
    let kubelet = Kubelet::start(
        &node.machine,
        &beside,
        runtime,
        &node.service.socket,
        &settings,
    )?;
    wait_until("unused images are removed", WAIT_TIMEOUT, || async {
        let theirs = client.status(named(&unused)).await?;
        let ours = client.status(of(&unused, "arm")).await?;
        Ok((theirs.is_none() && ours.is_none()).then_some(()))
    })
    .await
    .with_context(|| kubelet.log())?;
    // Those that either service pins stay.
    let left = client.list(None).await?;
    let left: BTreeSet<&String> = left.iter().flat_map(|image| &image.repo_tags).collect();
    assert_eq!(left, BTreeSet::from([&node.sandbox, &pinned]));
    Ok(())
}
