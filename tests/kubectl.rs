//! The real kubectl drives a cluster; the scripts in the folder `kubectl` check its output.
//!
//! `KUBECTL` selects another kubectl than the one on the PATH.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use testkit::TestCluster;
use tokio::process::Command;

/// Far more than a script takes; a stuck one fails after this.
const SCRIPT_TIMEOUT: Duration = Duration::from_mins(5);

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() -> anyhow::Result<()> {
                run(stringify!($name)).await
            }
        )*

        #[test]
        fn every_script_is_run() {
            let mut found: Vec<String> = std::fs::read_dir(folder())
                .unwrap()
                .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
                .filter(|name| name != "lib")
                .collect();
            found.sort();
            let mut listed = vec![$(stringify!($name)),*];
            listed.sort_unstable();
            assert_eq!(found, listed);
        }
    };
}

scripts!(
    apply,
    auth,
    create,
    delete,
    describe,
    discovery,
    get,
    patch,
    server_side,
    watch
);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl")
}

async fn run(name: &str) -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let namespace = cluster.namespace(&name.replace('_', "-")).await?;
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let work = served.folder().join("work");
    std::fs::create_dir(&work)?;
    let script = Command::new("bash")
        .arg(folder().join(format!("{name}.sh")))
        .current_dir(&work)
        .env("HOME", served.folder())
        .env("KUBECONFIG", &served.kubeconfig)
        .env("KUBECTL", kubectl)
        .env("NAMESPACE", namespace)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SCRIPT_TIMEOUT, script).await??;
    assert!(
        output.status.success(),
        "{name}.sh ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    Ok(())
}
