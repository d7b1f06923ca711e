//! Judging a release for a large cluster, without one: what a look costs whenever an operator says something.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::ensure;
use api::openshift::ClusterOperator;
use release::evaluate::{Phase, Plan};
use release::payload::{Manifest, Payload};
use serde_json::json;

use crate::report::Report;

/// How long a flip of one image may take to be seen, in milliseconds.
const FLIP: f64 = 100.0;

/// How much is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Operators.
    pub(crate) operators: usize,
    /// Manifests, operators included.
    pub(crate) manifests: usize,
    /// How often an operator says something.
    pub(crate) rounds: usize,
}

fn image(new: bool) -> String {
    let letter = if new { "b" } else { "a" };
    format!("quay.io/release@sha256:{}", letter.repeat(64))
}

fn operator(name: &str, new: bool) -> anyhow::Result<ClusterOperator> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {},
        "status": {
            "versions": [
                { "name": "operator", "version": "4.18.0" },
                { "name": "operator-image", "version": image(new) },
            ],
            "conditions": [
                { "type": "Available", "status": "True" }, { "type": "Degraded", "status": "False" },
            ],
        },
    }))?)
}

fn payload(size: Size) -> anyhow::Result<Payload> {
    let each = size.manifests / size.operators.max(1);
    let mut manifests = Vec::new();
    for number in 0..size.operators {
        let name = format!("operator-{number:03}");
        // Ten levels, so that some wait for others.
        let level = 10 + number * 10 / size.operators;
        for place in 1..each {
            manifests.push(Manifest {
                file: format!("0000_{level}_{name}_{place:03}.yaml"),
                object: json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": { "name": format!("c-{place}"), "namespace": name },
                }),
            });
        }
        let mut object = serde_json::to_value(operator(&name, true)?)?;
        object["apiVersion"] = json!("config.openshift.io/v1");
        object["kind"] = json!("ClusterOperator");
        manifests.push(Manifest {
            file: format!("0000_{level}_{name}_999_co.yaml"),
            object,
        });
    }
    Ok(Payload {
        manifests,
        ..Payload::default()
    })
}

/// Measures.
pub(crate) fn measure(size: Size, report: &mut Report) -> anyhow::Result<()> {
    report.column("medley");
    let payload = payload(size)?;
    let started = Instant::now();
    let plan = Plan::new(&payload);
    report.less_is_better("plan", "ms", started.elapsed().as_secs_f64() * 1e3);
    let names: Vec<String> = plan.operators().iter().map(|it| it.name.clone()).collect();
    let mut actual = BTreeMap::new();
    for name in &names {
        actual.insert(name.clone(), operator(name, false)?);
    }
    let mut slowest = 0.0_f64;
    let started = Instant::now();
    for round in 0..size.rounds {
        let name = &names[round % names.len()];
        actual.insert(
            name.clone(),
            operator(name, (round / names.len()).is_multiple_of(2))?,
        );
        let look = Instant::now();
        let evaluation = plan.evaluate(&actual, Phase::Updating);
        slowest = slowest.max(look.elapsed().as_secs_f64() * 1e3);
        ensure!(
            evaluation.total == payload.manifests.len(),
            "manifests are lost"
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    let judged = size.rounds * payload.manifests.len();
    let rate = f64::from(u32::try_from(judged)?) / seconds;
    let (operators, manifests) = (size.operators, payload.manifests.len());
    report.more_is_better(
        &format!("manifests judged, {operators} operators, {manifests} manifests"),
        "/s",
        rate,
    );
    report.at_most(
        FLIP,
        "an image flips until it is seen, slowest",
        "ms",
        slowest,
    );
    Ok(())
}
