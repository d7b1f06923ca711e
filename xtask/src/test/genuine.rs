//! `cargo xtask test --genuine`: suites on the genuine API server, and beside genuine operators.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use super::upstream;
use crate::{peers, shell};

/// What every group needs. With kube-controller-manager, namespaces are deleted and owners are respected.
const CONTROL_PLANE: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
];

/// Tests that run beside the same programs.
struct Group {
    /// Programs and CRDs beside [`CONTROL_PLANE`].
    peers: &'static [&'static str],
    /// Selects the tests, in nextest's filter language.
    tests: &'static str,
    /// The part of them for `--smoke`. A test starts an API server of its own, which takes about five CPU seconds, so
    /// that all groups together take more than half an hour.
    smoke: &'static str,
}

const GROUPS: &[Group] = &[
    Group {
        peers: &[],
        // Suites that start a `TestCluster` and make no claims about the embedded server itself.
        tests: "package(suites) + (package(controllers) & kind(test)) + (package(webhook) & kind(test)) \
                + (package(medley) & (binary(trust) + binary(governance_cli) + binary(cpu_cli) + binary(place_cli) \
                + binary(images_cluster_cli) + binary(status_cli) + binary(webhook_command) + binary(networks)))",
        smoke: "package(suites) + (package(medley) & (binary(trust) + binary(networks)))",
    },
    Group {
        peers: &[
            "cluster-kube-descheduler-operator",
            "cluster-kube-descheduler-operator-crds",
        ],
        tests: "binary(beside_descheduler)",
        smoke: "all()",
    },
    Group {
        peers: &["cdi-controller", "containerized-data-importer-crds"],
        tests: "binary(beside_cdi)",
        smoke: "all()",
    },
    Group {
        peers: &[
            "cdi-controller",
            "containerized-data-importer-crds",
            "kubevirt-crds",
            "ssp-operator",
            "ssp-operator-crds",
        ],
        tests: "binary(beside_ssp)",
        smoke: "all()",
    },
    Group {
        peers: &[
            "crictl",
            "critest",
            "containerd",
            "containerd-shim-runc-v2",
            "kubelet",
        ],
        tests: "binary(beside_node)",
        smoke: "all()",
    },
    Group {
        peers: &[
            "virt-api",
            "virt-controller",
            "kubevirt-crds",
            "kube-scheduler",
        ],
        tests: "binary(beside_kubevirt)",
        smoke: "test(=vm_is_handed_over_with_a_model_and_migrates_within_it)",
    },
    Group {
        peers: &[
            "cluster-version-operator",
            "cluster-version-operator-crds",
            "oc",
        ],
        tests: "binary(beside_release)",
        smoke: "test(migration_is_judged_by_both)",
    },
    Group {
        peers: &["oc"],
        // It reads the examples of the module.
        tests: "binary(beside_oc)",
        smoke: "all()",
    },
    Group {
        peers: &[
            "multiarch-tuning-operator",
            "multiarch-tuning-operator-crds",
        ],
        tests: "binary(beside_multiarch)",
        smoke: "test(medley_leaves_pods_to_tuning_until_it_is_uninstalled)",
    },
    Group {
        peers: &["helm"],
        tests: "binary(beside_helm)",
        smoke: "all()",
    },
];

/// Programs that only these suites call, and their Debian packages: containerd 1 is tested beside the pinned 2, and its
/// package requires runc, which is not on the path of every user.
pub(super) const PROGRAMS: [(&str, &str); 2] =
    [("busybox", "busybox-static"), ("containerd", "containerd")];

/// Builds missing programs, and returns their folder.
pub(super) fn build(smoke: bool) -> anyhow::Result<PathBuf> {
    let suites = upstream::peers(smoke);
    let names: Vec<String> = GROUPS
        .iter()
        .flat_map(|group| group.peers)
        .chain(&CONTROL_PLANE)
        .chain(&suites)
        .map(|name| (*name).to_owned())
        .collect();
    peers::provide(&names, shell::say)
}

/// Builds missing programs and runs the tests of each group. A word as an argument selects tests whose names contain it.
pub(super) fn run(smoke: bool, rest: &[OsString]) -> anyhow::Result<()> {
    let assets = build(smoke)?;
    let mut results = Vec::new();
    let mut failed = None;
    for group in GROUPS {
        let filter = if smoke {
            format!("({}) & ({})", group.tests, group.smoke)
        } else {
            group.tests.to_owned()
        };
        let beside: Vec<&str> = CONTROL_PLANE.iter().chain(group.peers).copied().collect();
        let beside = peers::versions(&beside)?;
        let count = count(&assets, &filter, rest)?;
        if count > 0 {
            shell::say(&format!("{count} tests beside {beside}"));
            let begin = Instant::now();
            let outcome = shell::run(nextest(&assets, "run", &filter).args(rest));
            results.push(format!(
                "{count} tests beside {beside}: {} in {} s",
                if outcome.is_ok() { "passed" } else { "FAILED" },
                begin.elapsed().as_secs()
            ));
            // The other groups run all the same: one run names all failures.
            failed = failed.or_else(|| outcome.err());
        }
    }
    // Arguments select tests of the workspace.
    if rest.is_empty() {
        let (lines, outcome) = upstream::run(&assets, smoke);
        results.extend(lines);
        failed = failed.or_else(|| outcome.err());
    }
    for line in results {
        shell::say(&line);
    }
    failed.map_or(Ok(()), Err)
}

/// How many tests a filter selects.
fn count(assets: &Path, filter: &str, rest: &[OsString]) -> anyhow::Result<usize> {
    let mut list = nextest(assets, "list", filter);
    let list = shell::read(list.args(["--message-format", "oneline"]).args(rest))
        .context("listing tests")?;
    Ok(list.lines().count())
}

fn nextest(assets: &Path, command: &str, filter: &str) -> Command {
    let mut nextest = shell::cargo();
    nextest
        .args(["nextest", command, "--workspace"])
        // The default leaves out the suites that need these programs.
        .args(["--ignore-default-filter", "--filterset", filter])
        .env("KUBEBUILDER_ASSETS", assets)
        // The kubectl of the same release.
        .env("KUBECTL", assets.join("kubectl"));
    nextest
}
