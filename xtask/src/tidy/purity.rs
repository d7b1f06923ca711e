//! What crates may reach. Pure ones: no async runtime, network, files, clock or randomness, not even through a dependency;
//! and no lock in their own code.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context as _;

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

/// What holds a lock, or is one. `LazyLock` is not listed: a table that is built once is a constant.
const LOCKS: [&str; 5] = ["Mutex", "RwLock", "OnceLock", "Condvar", "parking_lot"];

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
    problems.extend(locks_in_pure_crates()?);
    let tree = dependencies(&["--package", "medley", "--no-default-features"])?;
    problems.extend(reached(&tree, &LAB).into_iter().map(|name| {
        format!(
            "the cluster program must not contain the lab, but reaches {name}; `cargo tree -p medley --no-default-features -e normal -i {name}` shows how"
        )
    }));
    Ok(problems)
}

/// One line for every lock in the sources of a pure crate. Tests may use them.
fn locks_in_pure_crates() -> anyhow::Result<Vec<String>> {
    let files = shell::read(shell::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "crates/*/src/*.rs",
    ]))?;
    let mut problems = Vec::new();
    for path in files.lines().filter(|path| is_product_of_pure_crate(path)) {
        let full = shell::root().join(path);
        // Deleted but not yet committed.
        if full.is_file() {
            let text = fs::read_to_string(&full).with_context(|| format!("reading {path}"))?;
            problems.extend(locks(path, &text));
        }
    }
    Ok(problems)
}

fn is_product_of_pure_crate(path: &str) -> bool {
    let mut parts = path.split('/').skip(2);
    parts.next().is_some_and(|name| PURE.contains(&name))
        && !parts.any(|part| part == "tests" || part == "tests.rs")
}

fn locks(path: &str, text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = product.unwrap_or_default().lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = lines.filter_map(|(index, line)| {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let lock = words.find(|word| LOCKS.contains(word))?;
        Some(format!(
            "{path}:{}: a pure crate holds no lock, but names {lock}; keep shared state in cluster-view or in the caller",
            index + 1
        ))
    });
    found.collect()
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

    #[test]
    fn locks_of_pure_crates_are_found() {
        let text = "//! A Mutex.\nuse std::sync::LazyLock;\nstruct A(parking_lot::Mutex<u8>);\n#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        let found = locks("crates/jobs/placement/src/a.rs", text);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/jobs/placement/src/a.rs:3: "),
            "{found:?}"
        );
        for (path, checked) in [
            ("crates/jobs/placement/src/a.rs", true),
            ("crates/jobs/placement/src/a/tests.rs", false),
            ("crates/kubernetes/runtime/src/cache.rs", false),
        ] {
            assert_eq!(is_product_of_pure_crate(path), checked, "{path}");
        }
    }
}
