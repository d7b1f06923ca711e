//! A cluster with Medley installed from its manifests, running with exactly the RBAC rules installed there.
#![allow(dead_code, reason = "no suite uses all of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleet::operators::{self, Installed};
use kube::Client;
use serde_json::{Value, json};
use testkit::{CommandOutput, Process, ServedCluster, TestCluster, free_port, wait_until};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

pub(crate) const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
pub(crate) const NAMESPACE: &str = "medley-system";
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

/// A cluster with a kubeconfig for programs.
pub(crate) struct InstallationFixture {
    pub(crate) cluster: TestCluster,
    pub(crate) served: ServedCluster,
    pub(crate) client: Client,
}

impl InstallationFixture {
    /// A cluster with nothing installed.
    pub(crate) async fn empty() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        Ok(Self {
            served: cluster.serve().await?,
            client: cluster.client(),
            cluster,
        })
    }

    /// A cluster with the CRDs of the governed operators.
    pub(crate) async fn with(installed: &Installed) -> anyhow::Result<Self> {
        let fixture = Self::empty().await?;
        operators::install(&fixture.client, installed).await?;
        Ok(fixture)
    }

    /// Runs the binary as an administrator.
    pub(crate) async fn medley(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        self.medley_as(&self.served.kubeconfig, line).await
    }

    pub(crate) async fn medley_as(
        &self,
        who: &Path,
        line: &[&str],
    ) -> anyhow::Result<CommandOutput> {
        let output = Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", who)
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }

    pub(crate) async fn kubectl(&self, line: &[&str]) -> anyhow::Result<String> {
        self.served.kubectl("default", line).await
    }

    /// `medley manifests ... | kubectl apply --server-side -f -`; returns kubectl's output.
    pub(crate) async fn install(&self, line: &[&str]) -> anyhow::Result<String> {
        let manifests = manifests(line).await?;
        self.pipe(&["apply", "--server-side", "-f", "-"], &manifests)
            .await
    }

    /// Runs kubectl with this standard input.
    pub(crate) async fn pipe(&self, line: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new("kubectl")
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .env("HOME", self.served.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("running kubectl")?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        CommandOutput::of(&output)
            .ok()
            .with_context(|| format!("kubectl {line:?}"))
    }

    /// A kubeconfig with the token of a service account.
    pub(crate) async fn account(&self, name: &str) -> anyhow::Result<PathBuf> {
        let line = ["create", "token", name];
        let token = self.served.kubectl(NAMESPACE, &line).await?;
        self.kubeconfig(name, &json!({ "token": token.trim() }))
    }

    /// A kubeconfig of a user without permissions.
    pub(crate) fn nobody(&self) -> anyhow::Result<PathBuf> {
        let mut user = self.admin()?["users"][0]["user"].clone();
        user["as"] = json!("nobody");
        self.kubeconfig("nobody", &user)
    }

    fn admin(&self) -> anyhow::Result<Value> {
        let text = std::fs::read_to_string(&self.served.kubeconfig)?;
        Ok(serde_saphyr::from_str(&text)?)
    }

    fn kubeconfig(&self, name: &str, user: &Value) -> anyhow::Result<PathBuf> {
        let mut config = self.admin()?;
        config["users"][0]["user"] = user.clone();
        let path = self.served.folder().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, serde_saphyr::to_string(&config)?)?;
        Ok(path)
    }

    /// Starts a program of the installation as its Deployment would: with these arguments and the token of its service
    /// account. The added arguments are specific to the test host (ports, addresses).
    pub(crate) async fn start(
        &self,
        name: &str,
        objects: &[Value],
        besides: &[&str],
    ) -> anyhow::Result<Process> {
        let kubeconfig = self.account(name).await?;
        let command = std::process::Command::new(MEDLEY);
        self.start_by(command, name, &kubeconfig, objects, besides)
    }

    /// Like [`Self::start`], by a command that runs the binary, with a kubeconfig for the account.
    fn start_by(
        &self,
        mut command: std::process::Command,
        name: &str,
        kubeconfig: &Path,
        objects: &[Value],
        besides: &[&str],
    ) -> anyhow::Result<Process> {
        let folder = self.served.folder().join(name);
        std::fs::create_dir(&folder)?;
        let arguments = arguments(objects, name)?;
        let own = arguments.iter().filter(|it| {
            // Addresses and mounted files of a pod.
            ![
                "--register=",
                "--metrics-address=",
                "--health-address=",
                "--ca=",
            ]
            .iter()
            .any(|own| it.starts_with(own))
        });
        command
            .args(own)
            .args(["-v", "--kubeconfig"])
            .arg(kubeconfig)
            .args(besides);
        Process::spawn(&mut command, &folder)
    }

    /// Starts the webhook and the operator, and waits until both are ready.
    pub(crate) async fn run(&self, objects: &[Value]) -> anyhow::Result<Running> {
        let kubeconfig = self.account("medley-operator").await?;
        let command = std::process::Command::new(MEDLEY);
        self.run_by(command, &kubeconfig, objects).await
    }

    /// Like [`Self::run`], with the operator started by a command that runs the binary, and with a kubeconfig for its
    /// account.
    pub(crate) async fn run_by(
        &self,
        operator: std::process::Command,
        kubeconfig: &Path,
        objects: &[Value],
    ) -> anyhow::Result<Running> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let register = format!("--register=url=https://{address}");
        let health = format!("127.0.0.1:{}", free_port()?);
        let besides = [
            "--address",
            &address,
            &register,
            "--health-address",
            &health,
        ];
        let webhook = self.start("medley-webhook", objects, &besides).await?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let besides = [
            "--namespace",
            NAMESPACE,
            "--health-address",
            &address,
            "--metrics-address",
            &metrics,
        ];
        let operator = self.start_by(operator, "medley-operator", kubeconfig, objects, &besides)?;
        let running = Running { operator, webhook };
        wait_until("both work", WAIT_TIMEOUT, async || {
            let outputs = [running.operator.output(), running.webhook.output()];
            let failed = outputs.iter().find(|it| it.contains("error: "));
            ensure!(failed.is_none(), "{failed:?}");
            let ready = |output: &String| output.lines().any(|line| line == "ready");
            Ok(outputs.iter().all(ready).then_some(()))
        })
        .await
        .with_context(|| {
            let (operator, webhook) = (running.operator.output(), running.webhook.output());
            format!("operator:\n{operator}\nwebhook:\n{webhook}")
        })?;
        Ok(running)
    }

    /// Marks the Deployments as available, because no kubelet runs pods here.
    pub(crate) async fn deployed(&self) -> anyhow::Result<()> {
        for name in ["medley-operator", "medley-webhook"] {
            let replicas = 2;
            let status = json!({ "status": {
                "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
                "availableReplicas": replicas, "readyReplicas": replicas,
            } });
            let line = [
                "patch",
                "deployment",
                name,
                "--subresource=status",
                "--type=merge",
                "-p",
                &status.to_string(),
            ];
            self.served.kubectl(NAMESPACE, &line).await?;
        }
        Ok(())
    }
}

/// The operator and the webhook.
pub(crate) struct Running {
    pub(crate) operator: Process,
    pub(crate) webhook: Process,
}

impl Running {
    fn alive(&mut self) -> anyhow::Result<()> {
        for process in [&mut self.operator, &mut self.webhook] {
            let ended = process.ended()?;
            ensure!(ended.is_none(), "{ended:?}: {}", process.output());
        }
        Ok(())
    }

    /// Fails if a request was rejected as forbidden.
    pub(crate) fn assert_nothing_forbidden(&mut self) -> anyhow::Result<()> {
        self.alive()?;
        for process in [&self.operator, &self.webhook] {
            let output = process.output();
            let refused = output.lines().find(|line| {
                let line = line.to_lowercase();
                line.contains("forbidden")
                    || line.contains("cannot ") && line.contains(" resource ")
            });
            ensure!(refused.is_none(), "{refused:?} in\n{output}");
        }
        Ok(())
    }
}

/// The output of `medley manifests`.
pub(crate) async fn manifests(line: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(MEDLEY)
        .arg("manifests")
        .args(line)
        // It needs no cluster.
        .env("KUBECONFIG", "/nowhere")
        .stdin(Stdio::null())
        .output()
        .await?;
    CommandOutput::of(&output).ok()
}

/// The output of `medley manifests` as objects.
pub(crate) async fn objects(line: &[&str]) -> anyhow::Result<Vec<Value>> {
    let text = manifests(line).await?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// Objects by kind and name.
pub(crate) fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        format!(
            "{} {} {}",
            object["kind"], metadata["namespace"], metadata["name"]
        )
    };
    objects.into_iter().map(|it| (key(&it), it)).collect()
}

/// The container arguments of a Deployment.
fn arguments(objects: &[Value], name: &str) -> anyhow::Result<Vec<String>> {
    let found = objects
        .iter()
        .find(|it| it["kind"] == "Deployment" && it["metadata"]["name"] == name)
        .with_context(|| format!("no Deployment {name}"))?;
    let arguments = &found["spec"]["template"]["spec"]["containers"][0]["args"];
    Ok(serde_json::from_value(arguments.clone())?)
}
