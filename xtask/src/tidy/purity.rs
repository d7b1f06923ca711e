//! Pure crates: no runtime, network, files, clock or randomness, not even through a dependency.

use std::collections::BTreeSet;

use crate::shell;

/// Crates that compute and do nothing else.
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

/// What no pure crate may reach.
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

/// One line for every impure crate that a pure one reaches.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for pure in PURE {
        // `cargo metadata` would show the features that the whole workspace asks for; what
        // counts is what this crate asks for.
        let tree = shell::read(shell::cargo().args([
            "tree",
            "--locked",
            "--package",
            pure,
            "--edges=normal,no-proc-macro",
            "--prefix=none",
            "--format={p}",
        ]))?;
        wrong.extend(reached(&tree).into_iter().map(|name| {
            format!(
                "crate {pure} must be pure, but reaches {name}; `cargo tree -p {pure} -e normal -i {name}` shows how"
            )
        }));
    }
    Ok(wrong)
}

/// Impure crates in a list of dependencies, each line of which begins with a name.
fn reached(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| IMPURE.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impure_crates_are_found_once() {
        let tree = "machinery v0.1.0 (/somewhere)\nbase64 v0.22.1\ntokio v1.54.1\ntokio-util v0.7.0\nredb v4.4.0 (*)\ntokio v1.54.1 (*)\n";
        assert_eq!(reached(tree), BTreeSet::from(["redb", "tokio"]));
        assert_eq!(reached("machinery v0.1.0\n"), BTreeSet::new());
    }
}
