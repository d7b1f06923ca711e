//! The servers that are measured.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use testkit::{Fsync, Process, ServedCluster, TestCluster, wait_until};

const START: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// From the start of the process to the first answer.
    pub(crate) ready: Duration,
    kubeconfig: std::path::PathBuf,
    processes: Vec<u32>,
    _running: Running,
}

/// What has to live as long as the measurement.
#[expect(dead_code, reason = "held for its destructor")]
enum Running {
    Medley(Process, TempDir),
    Genuine(TestCluster, ServedCluster),
}

impl Target {
    /// The released binary with a data folder.
    pub(crate) async fn medley(binary: &Path) -> anyhow::Result<Self> {
        testkit::install_crypto();
        let folder = TempDir::new().context("making a data folder")?;
        let kubeconfig = folder.path().join("data/kubeconfig");
        let started = Instant::now();
        let arguments = ["apiserver", "--data", "data", "--listen", "127.0.0.1:0"];
        let process = Process::start(binary, arguments, folder.path())?;
        // Looked for without pauses: they would be most of what is measured.
        while !process.output().contains("ready: ") {
            anyhow::ensure!(started.elapsed() < START, "not ready: {}", process.output());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ready = started.elapsed();
        let processes = vec![process.id()];
        Ok(Self {
            name: "medley",
            ready,
            kubeconfig,
            processes,
            _running: Running::Medley(process, folder),
        })
    }

    /// etcd and kube-apiserver.
    pub(crate) async fn genuine(assets: &Path) -> anyhow::Result<Self> {
        let started = Instant::now();
        let cluster = TestCluster::genuine(assets, Fsync::On).await?;
        let ready = started.elapsed();
        let served = cluster.serve().await?;
        Ok(Self {
            name: "etcd + kube-apiserver",
            ready,
            kubeconfig: served.kubeconfig.clone(),
            processes: cluster.process_ids(),
            _running: Running::Genuine(cluster, served),
        })
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig =
            Kubeconfig::read_from(&self.kubeconfig).context("reading the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("using the kubeconfig")?;
        let client = Client::try_from(config).context("making a client")?;
        wait_until("the server answers", START, || async {
            Ok(client.apiserver_version().await.ok())
        })
        .await?;
        Ok(client)
    }

    /// Resident memory of all processes, in MiB.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        let mut kib = 0.0;
        for id in &self.processes {
            let path = format!("/proc/{id}/status");
            let status =
                std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let number = line
                .and_then(|line| line.split_whitespace().next())
                .unwrap_or_default();
            kib += number
                .parse::<f64>()
                .with_context(|| format!("no memory in {path}"))?;
        }
        Ok(kib / 1024.0)
    }
}
