//! Medley on hosts without any way out but the proxy: the workstation that installs it, and the operator.
//!
//! The API server reaches the webhook directly, as it reaches pods of its own network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use fleet::operators::Installed;
use serde_json::{Value, json};
use testkit::{CommandOutput, IsolatedHost, Proxy, has, same_bytes, wait_until};

use crate::installation_support::{InstallationFixture, MEDLEY, WAIT_TIMEOUT, objects};
use crate::support::path;
use crate::{API, REGISTRY, Site, VARIABLES, kubeconfig};

const FLAGS: [&str; 2] = [
    "--controllers=governance,placement",
    "--enable-profile=example-profile",
];

/// A workstation, or a node, behind the proxy.
struct Workstation {
    host: IsolatedHost,
    kubeconfig: PathBuf,
    ca: PathBuf,
}

impl Workstation {
    /// A program with the environment that is usual behind a proxy.
    fn program(&self, program: &str) -> Command {
        let mut command = self.host.command(program);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("XDG_RUNTIME_DIR")
            .env("HOME", self.kubeconfig.with_extension("home"))
            .env("HTTPS_PROXY", self.host.proxy_url())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("MEDLEY_CA", &self.ca)
            .stdin(Stdio::null());
        command
    }

    fn output(mut command: Command) -> anyhow::Result<CommandOutput> {
        Ok(CommandOutput::of(&command.output()?))
    }

    /// A line as users type it, with `medley` on the PATH.
    fn shell(&self, line: &str) -> anyhow::Result<String> {
        let folder = Path::new(MEDLEY).parent().context("a folder")?;
        let search = std::env::var("PATH").unwrap_or_default();
        let mut command = self.program("bash");
        command
            .args(["-c", &format!("set -o pipefail; {line}")])
            .env("PATH", format!("{}:{search}", folder.display()));
        let output = Self::output(command)?.ok();
        output.with_context(|| line.to_owned())
    }
}

/// Lets a cluster take images of a registry from a mirror, as OpenShift does.
async fn mirror(fixture: &InstallationFixture, source: &str, mirror: &str) -> anyhow::Result<()> {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "imagetagmirrorsets.config.openshift.io" },
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": { "kind": "ImageTagMirrorSet", "plural": "imagetagmirrorsets", "singular": "imagetagmirrorset" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": open } }],
        },
    });
    let apply = ["apply", "-f", "-"];
    fixture.pipe(&apply, &definition.to_string()).await?;
    let crd = "crd/imagetagmirrorsets.config.openshift.io";
    fixture
        .kubectl(&["wait", "--for=condition=Established", crd])
        .await?;
    let set = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet",
        "metadata": { "name": "apps" },
        "spec": { "imageTagMirrors": [{
            "source": source, "mirrors": [mirror], "mirrorSourcePolicy": "NeverContactSource",
        }] },
    });
    fixture.pipe(&apply, &set.to_string()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn medley_is_installed_and_works_without_a_direct_way_out() -> anyhow::Result<()> {
    let site = Site::new().await?;
    let fixture = InstallationFixture::with(&Installed::demo()).await?;
    let proxy = Proxy::start(&[API, REGISTRY]).await?;
    let folder = fixture.served.folder();
    let (admin, own) = (folder.join("admin"), folder.join("operator"));
    kubeconfig(&fixture.served.kubeconfig, &admin, None)?;
    let workstation = Workstation {
        host: IsolatedHost::behind(&proxy)?,
        kubeconfig: admin,
        ca: site.ca.clone(),
    };

    // Without the proxy there is no way to anything.
    let mut direct = workstation.program(MEDLEY);
    direct.args(["check", "--pre"]).env_remove("HTTPS_PROXY");
    let refused = Workstation::output(direct)?.refused()?;
    has(&refused, &[API]);

    // The installation, as the guide has it.
    workstation.shell("medley check --pre")?;
    let flags = FLAGS.join(" ");
    workstation.shell(&format!(
        "medley manifests {flags} | kubectl apply --server-side -f -"
    ))?;
    let account = fixture.account("medley-operator").await?;
    kubeconfig(&account, &own, None)?;
    let operator = workstation.program(MEDLEY);
    let mut running = fixture
        .run_by(operator, &own, &objects(&FLAGS).await?)
        .await?;
    fixture.deployed().await?;
    workstation.shell("medley check")?;
    let status = workstation.shell("medley status")?;
    has(&status, &["Governance", "Placement"]);

    // A plan is made, reviewed, approved and applied.
    workstation.shell(
        "kubectl create namespace openshift-cnv --dry-run=client -o yaml | kubectl apply -f -",
    )?;
    let config = json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1", "kind": "VirtPlatformConfig",
        "metadata": { "name": "example-profile" },
        "spec": { "profile": "example-profile", "action": "DryRun" },
    });
    fixture
        .pipe(&["apply", "-f", "-"], &config.to_string())
        .await?;
    let wait = "kubectl wait virtplatformconfig example-profile --timeout 60s --for=condition=";
    workstation.shell(&format!("{wait}ReviewRequired"))?;
    let diff = workstation.shell("medley diff example-profile || test $? = 1")?;
    has(&diff, &["example-key"]);
    workstation.shell("medley approve example-profile --yes")?;
    workstation.shell(&format!("{wait}Completed"))?;
    workstation.shell("kubectl -n openshift-cnv get configmap example-config")?;

    // The webhook does not reach the registry. The operator does: through the mirror that the cluster has for it, and the proxy.
    mirror(&fixture, "apps.example", &site.host()).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "containers": [{ "name": "web", "image": "apps.example/disks/all:1" }] },
    });
    fixture
        .pipe(&["create", "-f", "-"], &pod.to_string())
        .await?;
    let placed = wait_until("the pod is placed", WAIT_TIMEOUT, async || {
        let pod = fixture
            .kubectl(&["get", "pod", "web", "-o", "json"])
            .await?;
        let pod: Value = serde_json::from_str(&pod)?;
        let spec = &pod["spec"];
        Ok(
            (spec["schedulingGates"].is_null() && !spec["affinity"].is_null())
                .then(|| spec.clone()),
        )
    });
    let placed = placed.await.with_context(|| running.operator.output())?;
    has(
        &placed["affinity"]["nodeAffinity"].to_string(),
        &["kubernetes.io/arch", "amd64", "arm64"],
    );
    running.assert_nothing_forbidden()?;

    // Commands read the mirrors of the cluster, too.
    let explained = workstation.shell("medley place explain web")?;
    has(&explained, &["apps.example/disks/all:1", "linux/arm64"]);
    let image = site.image();
    let inspected = workstation.shell(&format!("medley image inspect {image}"))?;
    has(&inspected, &["linux/amd64", "linux/arm64"]);
    let disk = folder.join("disk.raw");
    workstation.shell(&format!(
        "medley images import {image} --arch arm64 --to {}",
        path(&disk)
    ))?;
    same_bytes(&disk, &site.fixture.raw("arm64"))?;

    let requests = proxy.requests();
    for name in [API, REGISTRY] {
        let tunnel = format!("200 CONNECT {name}:");
        assert!(
            requests.iter().any(|it| it.starts_with(&tunnel)),
            "{requests:?}"
        );
    }
    Ok(())
}
