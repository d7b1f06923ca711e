//! The server responds as kube-apiserver does: every exchange of `differential/*.yaml` is repeated
//! and compared. `differential/README.md` describes the format and how the responses were recorded.

#[cfg(test)]
mod differential_support;

use std::path::Path;

use differential_support::corpus;
use differential_support::run::Run;
use testkit::TestCluster;

/// Fewer exchanges than this mean that the corpus was not found, not that it shrank.
const MIN_EXCHANGES: usize = 330;

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_kube_apiserver() -> anyhow::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let divergences = here.join("../crates/lab/apiserver/DIVERGENCES.md");
    let divergences = std::fs::read_to_string(divergences).unwrap_or_default();
    let only = std::env::var("DIFFERENTIAL").unwrap_or_default();
    let cluster = TestCluster::start().await?;

    let mut exchanges = 0;
    let mut failures = Vec::new();
    for (file, scenario) in corpus::read(&here.join("differential"))? {
        if !file.contains(&only) {
            continue;
        }
        exchanges += scenario.steps.len();
        let mut run = Run::new(&cluster, &divergences);
        for step in &scenario.steps {
            let problems = run.step(step).await;
            if !problems.is_empty() {
                let asked = format!("{} {}", step.request.method, step.request.path);
                failures.push(format!(
                    "{file}: {}\n  {asked}\n    {}",
                    step.name,
                    problems.join("\n    ")
                ));
            }
        }
    }
    assert!(
        !only.is_empty() || exchanges >= MIN_EXCHANGES,
        "only {exchanges} exchanges were found"
    );
    assert!(
        failures.is_empty(),
        "{} of {exchanges} exchanges differ:\n\n{}\n",
        failures.len(),
        failures.join("\n\n")
    );
    Ok(())
}
