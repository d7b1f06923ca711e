//! `cargo xtask audit`.

use anyhow::Context as _;

use crate::shell;

/// Version to install if cargo-deny is missing.
const VERSION: &str = "0.20.2";

/// The advisory database of cargo-deny.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Checks all dependencies: bans, licenses, sources and, if the database can be fetched, advisories.
pub(crate) fn run() -> anyhow::Result<()> {
    shell::provide_subcommand("deny", VERSION)?;
    let deny = || {
        let mut deny = shell::cargo();
        deny.args(["deny", "--log-level", "error"]);
        deny
    };
    shell::run(deny().args(["check", "bans", "licenses", "sources"]))?;
    // Fetched separately: a missing network is not a finding, but an advisory is.
    let mut fetch = deny();
    let fetched = fetch.args(["fetch", "db"]).output();
    let fetched = fetched.context("starting cargo deny")?;
    if !fetched.status.success() {
        let errors = String::from_utf8_lossy(&fetched.stderr);
        let why = errors.lines().rfind(|line| !line.trim().is_empty());
        shell::say(&format!(
            "advisories NOT CHECKED: {DATABASE} cannot be fetched: {}",
            why.unwrap_or("cargo deny does not say why").trim()
        ));
        return Ok(());
    }
    shell::run(deny().args(["check", "advisories"]))
}
