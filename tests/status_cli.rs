//! `medley status` on clusters with different CRDs installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use api::advisor::{VirtPlatformConfig, VirtPlatformConfigSpec};
use fleet::operators::{self, Installed};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use placement::names::{GATE, WHY};
use serde_json::{Value, json};
use testkit::{CommandOutput, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");

struct StatusFixture {
    served: ServedCluster,
    client: Client,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
}

impl StatusFixture {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        Ok(Self {
            served: cluster.serve().await?,
            client: cluster.client(),
            _cluster: cluster,
        })
    }

    /// With the CRDs of Medley, CDI and KubeVirt.
    async fn installed() -> anyhow::Result<Self> {
        let fixture = Self::start().await?;
        controllers::install(&fixture.client, "medley-system").await?;
        let installed = Installed {
            cdi: true,
            virtual_machines: true,
            ..Installed::default()
        };
        operators::install(&fixture.client, &installed).await?;
        Ok(fixture)
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        self.run_as(&self.served.kubeconfig, line, &[]).await
    }

    async fn run_as(
        &self,
        kubeconfig: &Path,
        line: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("status")
            .args(line)
            .env("KUBECONFIG", kubeconfig)
            .env_remove("COLUMNS")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }

    /// A kubeconfig of a user without permissions.
    fn nobody(&self) -> anyhow::Result<PathBuf> {
        let text = std::fs::read_to_string(&self.served.kubeconfig)?;
        let mut config: Value = serde_saphyr::from_str(&text)?;
        config["users"][0]["user"]["as"] = json!("nobody");
        let path = self.served.folder().join("nobody");
        std::fs::write(&path, serde_saphyr::to_string(&config)?)?;
        Ok(path)
    }

    async fn config(&self, name: &str, status: Value) -> anyhow::Result<()> {
        let api: Api<VirtPlatformConfig> = Api::all(self.client.clone());
        let spec = VirtPlatformConfigSpec {
            profile: name.to_owned(),
            ..VirtPlatformConfigSpec::default()
        };
        api.create(&PostParams::default(), &VirtPlatformConfig::new(name, spec))
            .await?;
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn create(&self, of: (&str, &str, &str), object: Value) -> anyhow::Result<()> {
        let (group, version, kind) = of;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource);
        let mut object = object;
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = kind.into();
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    /// A VM on the only node that supports its model.
    async fn stranded(&self) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "rome0", "labels": {
                "kubevirt.io/schedulable": "true",
                "kubernetes.io/arch": "amd64",
                "cpu-vendor.node.kubevirt.io/AMD": "true",
                "cpu-model.node.kubevirt.io/EPYC-Rome": "true",
                "cpu-model-migration.node.kubevirt.io/EPYC-Rome": "true",
            } },
        });
        nodes
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        self.create(
            ("kubevirt.io", "v1", "VirtualMachineInstance"),
            json!({
                "metadata": { "name": "alone", "namespace": "default" },
                "spec": { "architecture": "amd64", "domain": { "cpu": { "model": "EPYC-Rome" } } },
                "status": { "phase": "Running", "nodeName": "rome0" },
            }),
        )
        .await
    }
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Because", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn missing_crds_are_reported_as_off() -> anyhow::Result<()> {
    let fixture = StatusFixture::start().await?;
    let result = fixture.run(&["--gate"]).await?;
    let text = result.ok()?;
    has(
        &text,
        &[
            "virtplatformconfigs.advisor.kubevirt.io is not installed in this cluster; it comes with the operator",
            "datasources.cdi.kubevirt.io is not installed in this cluster; it comes with CDI",
            "virtualmachineinstances.kubevirt.io is not installed in this cluster; it comes with KubeVirt",
            "clusterversions.config.openshift.io is not installed in this cluster; it comes with OpenShift",
            "placementpolicies.medley.dev is not installed in this cluster; it comes with the operator",
        ],
    );
    let titles = text.lines().filter(|line| line.contains(" Off "));
    assert_eq!(titles.count(), 5, "{text}");
    assert!(
        !text.contains('\u{1b}'),
        "colours without a terminal: {text}"
    );
    Ok(())
}

#[tokio::test]
async fn every_job_is_listed_with_its_conditions() -> anyhow::Result<()> {
    let fixture = StatusFixture::installed().await?;
    let waits = "the plan waits for approval";
    fixture
        .config(
            "example-profile",
            json!({
                "phase": "ReviewRequired",
                "conditions": [
                    condition("ReviewRequired", "True", waits),
                    condition("Completed", "False", "it is another phase"),
                    condition("PrerequisitesMet", "True", "all is there"),
                ],
            }),
        )
        .await?;
    fixture.stranded().await?;
    fixture
        .create(
            ("", "v1", "Pod"),
            json!({
                "metadata": {
                    "name": "nowhere", "namespace": "default",
                    "annotations": { WHY: "no node runs windows/arm64" },
                },
                "spec": {
                    "schedulingGates": [{ "name": GATE }],
                    "containers": [{ "name": "c", "image": "x" }],
                },
            }),
        )
        .await?;
    let text = fixture.run(&[]).await?.ok()?;
    has(
        &text,
        &[
            "1 configuration: 1 ReviewRequired",
            "VirtPlatformConfig/example-profile",
            waits,
            "PrerequisitesMet",
            "1 VMs: 1 cannot migrate, 0 would gain from a restart",
            "VirtualMachineInstance/default/alone",
            "Stranded:NoTarget",
            "1 pod is gated",
            "Pod/default/nowhere",
            "no node runs windows/arm64",
        ],
    );
    assert!(!text.contains("it is another phase"), "{text}");
    let result = fixture.run(&["--gate"]).await?.refused()?;
    has(
        &result,
        &[
            "not everything is ready: governance is Attention, cpu is Attention, placement is Attention",
        ],
    );
    let list = fixture.run(&["-o", "json"]).await?.json()?;
    assert_eq!(list["kind"], "List");
    let states: Vec<(&str, &str)> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| Some((it["job"].as_str()?, it["state"].as_str()?)))
        .collect();
    assert_eq!(
        states,
        [
            ("governance", "Attention"),
            ("images", "Ready"),
            ("cpu", "Attention"),
            ("release", "Off"),
            ("placement", "Attention"),
        ]
    );
    let config = &list["items"][0]["objects"][0];
    assert_eq!(config["reason"], "ReviewRequired");
    assert_eq!(
        config["conditions"].as_array().map(Vec::len),
        Some(3),
        "programs get all of them"
    );
    let yaml = fixture.run(&["governance", "-o", "yaml"]).await?.ok()?;
    has(&yaml, &["kind: List", "job: governance"]);
    assert!(!yaml.contains("job: cpu"), "{yaml}");
    Ok(())
}

#[tokio::test]
async fn lines_fit_the_terminal_and_colours_are_optional() -> anyhow::Result<()> {
    let fixture = StatusFixture::installed().await?;
    let long = "word ".repeat(60);
    let status = json!({
        "phase": "Failed", "conditions": [condition("Failed", "True", &long)],
    });
    fixture.config("example-profile", status).await?;
    let config = &fixture.served.kubeconfig;
    let narrow = [("COLUMNS", "100")];
    let text = fixture.run_as(config, &[], &narrow).await?.ok()?;
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    has(&text, &["…"]);
    let wide = fixture
        .run_as(config, &["-o", "wide"], &narrow)
        .await?
        .ok()?;
    has(&wide, &[long.trim()]);
    let coloured = fixture.run(&["--color", "always"]).await?.ok()?;
    has(&coloured, &["\u{1b}[31mAttention\u{1b}[0m"]);
    Ok(())
}

#[tokio::test]
async fn unreadable_objects_are_unknown() -> anyhow::Result<()> {
    let fixture = StatusFixture::installed().await?;
    let result = fixture
        .run_as(&fixture.nobody()?, &["governance"], &[])
        .await?;
    let text = result.ok()?;
    has(&text, &["Unknown", "nobody", "cannot list"]);
    let refused = fixture
        .run_as(&fixture.nobody()?, &["governance", "--gate"], &[])
        .await?;
    has(&refused.refused()?, &["governance is Unknown"]);
    Ok(())
}

#[tokio::test]
async fn unreachable_cluster_is_an_error() -> anyhow::Result<()> {
    let fixture = StatusFixture::start().await?;
    let text = std::fs::read_to_string(&fixture.served.kubeconfig)?;
    let port = testkit::free_port()?;
    let text = text.replace(&fixture.served.url, &format!("https://127.0.0.1:{port}"));
    let path = fixture.served.folder().join("elsewhere");
    std::fs::write(&path, text)?;
    let result = fixture.run_as(&path, &[], &[]).await?.refused()?;
    has(&result, &["reading the version of the cluster"]);
    Ok(())
}
