//! What it costs when nothing happens.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::Manager;

use crate::report::Report;
use crate::target::{self, Target};

/// How long it takes until nothing is left to do: events are told after the fact.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the quiet is watched.
const QUIET: Duration = Duration::from_secs(10);
/// What "idle" may cost, in percent of a core.
const IDLE: f64 = 1.0;

/// Looks on while nothing happens. The controllers of the manager are the only ones in this process;
/// `versions` tells the version of everything that they write.
pub(crate) async fn quiet(
    manager: &Manager,
    target: &Target,
    versions: impl AsyncFn() -> anyhow::Result<BTreeMap<String, String>>,
    report: &mut Report,
) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE).await;
    let ours = [std::process::id()];
    let before = versions().await?;
    let reconciles = reconciles(manager);
    let (operator, server) = (target::cpu(&ours)?, target.cpu()?);
    tokio::time::sleep(QUIET).await;
    let share = |used: f64| used / QUIET.as_secs_f64() * 100.0;
    let (operator, server) = (target::cpu(&ours)? - operator, target.cpu()? - server);
    report.at_most(IDLE, "idle: operator", "% of a core", share(operator));
    report.less_is_better("idle: server", "% of a core", share(server));
    let looked = self::reconciles(manager) - reconciles;
    report.at_most(0.0, "idle: reconciles", "", looked);
    let after = versions().await?;
    let written = after
        .iter()
        .filter(|(key, it)| before.get(*key) != Some(it));
    let written = f64::from(u32::try_from(written.count())?);
    report.at_most(0.0, "idle: objects written", "", written);
    report.less_is_better("memory of the operator", "MiB", target::memory(&ours)?);
    report.less_is_better("memory of the server", "MiB", target.memory()?);
    Ok(())
}

/// How often a controller has looked at anything.
fn reconciles(manager: &Manager) -> f64 {
    let told = manager.metrics().render();
    told.lines()
        .filter(|line| line.starts_with("medley_reconcile_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
