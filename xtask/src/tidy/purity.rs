//! What crates may reach. Pure ones: no async runtime, network, files, clock or randomness, not even through a dependency.

use std::collections::BTreeSet;

use crate::shell;

/// Crates that only compute.
const PURE: [&str; 9] = [
    "api",
    "cpu-models",
    "golden-images",
    "governance",
    "machinery",
    "manifests",
    "placement",
    "platform",
    "release-migration",
];

/// Dependencies that no pure crate may have, not even transitively.
const IMPURE: [&str; 10] = [
    "aws-lc-rs",
    "getrandom",
    "hyper",
    "kube-client",
    "mio",
    "redb",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
];

/// The lab: the program that runs in a cluster does not contain it.
const LAB: [&str; 4] = ["apiserver", "controlplane", "fleet", "testkit"];

/// One line for every impure crate that a pure one reaches, and for every crate of the lab in the cluster program.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for pure in PURE {
        let tree = dependencies(&["--package", pure])?;
        problems.extend(reached(&tree, &IMPURE).into_iter().map(|name| {
            format!(
                "crate {pure} must be pure, but reaches {name}; `cargo tree -p {pure} -e normal -i {name}` shows how"
            )
        }));
    }
    let tree = dependencies(&["--package", "medley", "--no-default-features"])?;
    problems.extend(reached(&tree, &LAB).into_iter().map(|name| {
        format!(
            "the cluster program must not contain the lab, but reaches {name}; `cargo tree -p medley --no-default-features -e normal -i {name}` shows how"
        )
    }));
    Ok(problems)
}

/// The dependencies of a package, one a line. `cargo metadata` would show the features that the whole workspace requests; what
/// counts is what this package requests.
fn dependencies(package: &[&str]) -> anyhow::Result<String> {
    shell::read(
        shell::cargo()
            .args(["tree", "--locked"])
            .args(package)
            .args([
                "--edges=normal,no-proc-macro",
                "--prefix=none",
                "--format={p}",
            ]),
    )
}

/// Those of these crates that are in a list of dependencies, each line of which begins with a name.
fn reached<'t>(tree: &'t str, crates: &[&str]) -> BTreeSet<&'t str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| crates.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impure_crates_are_found_once() {
        let tree = "machinery v0.1.0 (/somewhere)\nbase64 v0.22.1\ntokio v1.54.1\ntokio-util v0.7.0\nredb v4.4.0 (*)\ntokio v1.54.1 (*)\n";
        assert_eq!(reached(tree, &IMPURE), BTreeSet::from(["redb", "tokio"]));
        assert_eq!(reached("machinery v0.1.0\n", &IMPURE), BTreeSet::new());
    }
}
