//! The controllers under test.

use std::path::Path;

use runtime::Manager;
use testkit::{Process, ServedCluster, TestCluster};

/// The running controllers. Dropping them ends their tasks at their current await, like `kill -9`.
pub(crate) enum Controllers {
    Ours {
        _manager: Manager,
    },
    Genuine {
        _process: Process,
        _served: ServedCluster,
    },
}

impl Controllers {
    /// Starts the controllers; upstream's with these names if the server is kube-apiserver and
    /// `GENUINE_CONTROLLERS` is set, which verifies the expectations of a test.
    pub(crate) async fn start(cluster: &TestCluster, names: &str) -> anyhow::Result<Self> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|_| cluster.is_genuine());
        let wanted = assets.filter(|_| std::env::var_os("GENUINE_CONTROLLERS").is_some());
        let Some(assets) = wanted else {
            let manager = Manager::new(cluster.client());
            controlplane::workloads::start(&manager).await;
            return Ok(Self::Ours { _manager: manager });
        };
        let served = cluster.serve().await?;
        let names = format!("--controllers={names}");
        let arguments = [
            "--kubeconfig=kubeconfig",
            &names,
            "--leader-elect=false",
            "--secure-port=0",
        ];
        let program = Path::new(&assets).join("kube-controller-manager");
        Ok(Self::Genuine {
            _process: Process::start(&program, arguments, served.folder())?,
            _served: served,
        })
    }
}
