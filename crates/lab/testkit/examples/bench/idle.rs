//! Idle cost.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::Manager;

use crate::report::Report;
use crate::target::{self, Target};

/// Time to settle: events are emitted asynchronously.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Duration of the idle measurement.
const IDLE_DURATION: Duration = Duration::from_secs(10);
/// Budget of idle CPU usage, in percent of a core.
const CPU_BUDGET_PERCENT: f64 = 1.0;

/// Measures an idle period. The controllers of the manager are the only ones in this process;
/// `versions` returns the resource versions of all objects they write.
pub(crate) async fn quiet(
    manager: &Manager,
    target: &Target,
    versions: impl AsyncFn() -> anyhow::Result<BTreeMap<String, String>>,
    report: &mut Report,
) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE_TIME).await;
    let ours = [std::process::id()];
    let before = versions().await?;
    let reconciles = reconciles(manager);
    let (operator, server) = (target::cpu(&ours)?, target.cpu()?);
    tokio::time::sleep(IDLE_DURATION).await;
    let share = |used: f64| used / IDLE_DURATION.as_secs_f64() * 100.0;
    let (operator, server) = (target::cpu(&ours)? - operator, target.cpu()? - server);
    report.at_most(
        CPU_BUDGET_PERCENT,
        "idle: operator",
        "% of a core",
        share(operator),
    );
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

/// Number of reconciles so far.
fn reconciles(manager: &Manager) -> f64 {
    let metrics_text = manager.metrics().render();
    metrics_text
        .lines()
        .filter(|line| line.starts_with("medley_reconcile_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
