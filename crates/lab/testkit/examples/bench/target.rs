//! The measured servers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use testkit::{Fsync, Process, ServedCluster, TestCluster, wait_until};

const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Time from the start of the process to the first answer.
    pub(crate) ready: Duration,
    kubeconfig: std::path::PathBuf,
    processes: Vec<u32>,
    running: Running,
    /// Processes besides the servers.
    others: Vec<Process>,
}

/// Handles that have to live as long as the measurement.
#[expect(dead_code, reason = "some of it is held for its destructor")]
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
        // Polled without pauses, which would dominate the measured time.
        while !process.output().contains("ready: ") {
            anyhow::ensure!(
                started.elapsed() < START_TIMEOUT,
                "not ready: {}",
                process.output()
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ready = started.elapsed();
        let processes = vec![process.id()];
        Ok(Self {
            name: "medley",
            ready,
            kubeconfig,
            processes,
            running: Running::Medley(process, folder),
            others: Vec::new(),
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
            running: Running::Genuine(cluster, served),
            others: Vec::new(),
        })
    }

    /// The released binary as a whole cluster, with its own fleet.
    pub(crate) async fn up(binary: &Path, fleet: &str, limit: Duration) -> anyhow::Result<Self> {
        testkit::install_crypto();
        let folder = TempDir::new().context("making a data folder")?;
        std::fs::write(folder.path().join("fleet.yaml"), fleet).context("writing a fleet")?;
        let kubeconfig = folder.path().join("data/kubeconfig");
        let started = Instant::now();
        let arguments = [
            "up",
            "--data",
            "data",
            "--listen",
            "127.0.0.1:0",
            "--fleet",
            "fleet.yaml",
            "--speed",
            "1000",
            "--console",
            "127.0.0.1:0",
        ];
        let process = Process::start(binary, arguments, folder.path())?;
        while !process.output().lines().any(|line| line == "ready") {
            anyhow::ensure!(started.elapsed() < limit, "not ready: {}", process.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(Self {
            name: "medley up",
            ready: started.elapsed(),
            kubeconfig,
            processes: vec![process.id()],
            running: Running::Medley(process, folder),
            others: Vec::new(),
        })
    }

    /// etcd and kube-apiserver with kube-controller-manager and kube-scheduler, without rate
    /// limits.
    pub(crate) async fn genuine_control_plane(assets: &Path) -> anyhow::Result<Self> {
        let mut target = Self::genuine(assets).await?;
        target.name = "genuine control plane";
        let Running::Genuine(_, served) = &target.running else {
            anyhow::bail!("a genuine control plane runs genuine servers");
        };
        let kubeconfig = format!("--kubeconfig={}", served.kubeconfig.display());
        let fast = [
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
            "--leader-elect=false",
        ];
        // New nodes stay tainted without the node lifecycle controller, which would in turn evict
        // nodes without heartbeats.
        let controllers = [
            "--controllers=deployment-controller,replicaset-controller,node-lifecycle-controller",
            "--node-monitor-grace-period=1h",
        ];
        for (program, own) in [
            ("kube-controller-manager", &controllers[..]),
            ("kube-scheduler", &[]),
        ] {
            let arguments = fast
                .into_iter()
                .chain([kubeconfig.as_str()])
                .chain(own.iter().copied());
            let process = Process::start(&assets.join(program), arguments, served.folder())?;
            target.processes.push(process.id());
            target.others.push(process);
        }
        Ok(target)
    }

    /// The path of its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The output of the program so far.
    pub(crate) fn output(&self) -> String {
        match &self.running {
            Running::Medley(process, _) => process.output(),
            Running::Genuine(..) => String::new(),
        }
    }

    /// CPU time of all processes, in seconds.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        cpu(&self.processes)
    }

    /// A client with its own connections.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig =
            Kubeconfig::read_from(&self.kubeconfig).context("reading the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("using the kubeconfig")?;
        let client = Client::try_from(config).context("making a client")?;
        wait_until("the server answers", START_TIMEOUT, || async {
            Ok(client.apiserver_version().await.ok())
        })
        .await?;
        Ok(client)
    }

    /// Resident memory of all processes, in MiB.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        memory(&self.processes)
    }
}

/// CPU time of processes, in seconds.
pub(crate) fn cpu(processes: &[u32]) -> anyhow::Result<f64> {
    let mut ticks = 0.0;
    for id in processes {
        let path = format!("/proc/{id}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        // The second field is the program name in brackets, which may contain any character.
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        for field in [11, 12] {
            let number = fields.get(field).copied().unwrap_or_default();
            ticks += number
                .parse::<f64>()
                .with_context(|| format!("no processor time in {path}"))?;
        }
    }
    // Linux reports ticks of 10 ms (USER_HZ).
    Ok(ticks / 100.0)
}

/// Resident memory of some processes, in MiB.
pub(crate) fn memory(processes: &[u32]) -> anyhow::Result<f64> {
    let mut kib = 0.0;
    for id in processes {
        let path = format!("/proc/{id}/status");
        let status = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
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
