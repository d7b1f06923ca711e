//! The metrics as Prometheus scrapes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use testkit::{TestCluster, wait_until};

use super::Metrics;
use crate::{Error, Key, Manager, Next, Queue, Reconcile};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    plan: String,
    phase: &'static str,
}

fn step(plan: &str, phase: &'static str) -> Step {
    Step {
        plan: plan.to_owned(),
        phase,
    }
}

/// The rendered lines of a metric.
fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.render();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with(name))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

#[test]
fn series_of_an_object_are_removed_with_it() {
    let metrics = Metrics::default();
    let phases = metrics.gauges::<Step>("plan_phase", "Where plans are");
    let (a, b) = (Key::new("", "a"), Key::new("", "b"));
    phases.set(&a, [(step("a", "Drafting"), 1.0)]);
    phases.set(
        &b,
        [(step("b", "Drafting"), 1.0), (step("b", "Ready"), 0.5)],
    );
    assert_eq!(
        lines(&metrics, "medley_plan_phase"),
        [
            r#"medley_plan_phase{plan="a",phase="Drafting"} 1.0"#,
            r#"medley_plan_phase{plan="b",phase="Drafting"} 1.0"#,
            r#"medley_plan_phase{plan="b",phase="Ready"} 0.5"#,
        ]
    );
    phases.set(&b, [(step("b", "Ready"), 1.0)]);
    phases.forget(&a);
    assert_eq!(
        lines(&metrics, "medley_plan_phase"),
        [r#"medley_plan_phase{plan="b",phase="Ready"} 1.0"#]
    );
}

#[test]
fn counters_and_histograms_have_conventional_names() {
    let metrics = Metrics::default();
    let applied = metrics.counter::<Step>("plan_items", "Items");
    applied.get_or_create(&step("a", "Done")).inc();
    let took = metrics.seconds::<Step>("plan_seconds", "Time");
    took.get_or_create(&step("a", "Done")).observe(0.25);
    assert_eq!(
        lines(&metrics, "medley_plan_items"),
        [r#"medley_plan_items_total{plan="a",phase="Done"} 1"#]
    );
    let took = lines(&metrics, "medley_plan_seconds_sum");
    assert_eq!(
        took,
        [r#"medley_plan_seconds_sum{plan="a",phase="Done"} 0.25"#]
    );
}

/// Acts by the name of the key, and sets `busy` when it begins to hang.
struct ScriptedReconciler {
    busy: Arc<AtomicBool>,
}

impl Reconcile<String> for ScriptedReconciler {
    fn name(&self) -> &'static str {
        "obedient"
    }

    async fn reconcile(&self, what: &String) -> Result<Next, Error> {
        match what.as_str() {
            "fail" => Err(Error::Invalid("on purpose".into())),
            "later" => Ok(Next::After(Duration::from_hours(1))),
            "hang" => {
                self.busy.store(true, Ordering::SeqCst);
                std::future::pending().await
            }
            _ => Ok(Next::Wait),
        }
    }
}

#[tokio::test]
async fn controllers_report_reconciles_and_queue_length() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let manager = Manager::new(cluster.client());
    let queue = Queue::new();
    let busy = Arc::new(AtomicBool::new(false));
    let reconciler = ScriptedReconciler {
        busy: Arc::clone(&busy),
    };
    manager.start(reconciler, &queue, 1);
    for what in ["well", "fail", "later"] {
        queue.add(what.to_owned());
    }
    let metrics = manager.metrics().clone();
    let count = |result: &str| -> u64 {
        let name = format!(r#"medley_reconcile_total{{controller="obedient",result="{result}"}} "#);
        let line = lines(&metrics, &name).pop().unwrap_or_default();
        line[name.len()..].parse().unwrap()
    };
    wait_until(
        "all keys are reconciled",
        Duration::from_secs(20),
        async || {
            let done = count("success") == 1 && count("requeue_after") == 1 && count("error") >= 1;
            Ok(done.then_some(()))
        },
    )
    .await?;
    assert_eq!((count("conflict"), count("panic")), (0, 0));

    // One key is being processed by the only worker, the others are queued.
    queue.add("hang".to_owned());
    wait_until("the worker is busy", Duration::from_secs(20), async || {
        Ok(busy.load(Ordering::SeqCst).then_some(()))
    })
    .await?;
    queue.forget(&"fail".to_owned());
    for what in ["a", "b"] {
        queue.add(what.to_owned());
    }
    let line = lines(&metrics, "medley_queue_length").pop().unwrap();
    let waiting: usize = line.rsplit(' ').next().unwrap().parse()?;
    assert!(
        (2..=3).contains(&waiting),
        "{line}: the failed one may be due"
    );
    assert!(line.contains(r#"controller="obedient""#), "{line}");
    let took = lines(&metrics, "medley_reconcile_duration_seconds_count").pop();
    assert!(took.is_some_and(|line| !line.ends_with(" 0")));
    // The reconcile hangs on purpose; do not wait for it.
    drop(manager);
    Ok(())
}
