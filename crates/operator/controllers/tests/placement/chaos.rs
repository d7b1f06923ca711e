//! Operator, webhook and registry are killed in all orders, while pods arrive: no pod stays gated, and none is refused.

use std::sync::Arc;
use std::time::Duration;

use ::placement::LeaseTiming;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use rstest::rstest;
use serde_json::json;
use testkit::wait_until;
use webhook::WebhookServer;

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, node, pod, why};

/// Rounds of one case; the cases run in parallel, each with a cluster of its own.
const ROUNDS: usize = 50;
/// Short, so that every round gets to the point where the webhook has to act.
const LEASE: LeaseTiming = LeaseTiming {
    duration: Duration::from_millis(800),
    renew: Duration::from_millis(200),
};

/// Between two looks at the pods, which are not what this test should spend its time on.
const LOOK: Duration = Duration::from_millis(100);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Operator,
    Webhook,
    Registry,
}
use Part::{Operator, Registry, Webhook};

/// The orders in which the parts are killed.
const DEATHS: [[Part; 3]; 6] = [
    [Operator, Webhook, Registry],
    [Operator, Registry, Webhook],
    [Webhook, Operator, Registry],
    [Webhook, Registry, Operator],
    [Registry, Operator, Webhook],
    [Registry, Webhook, Operator],
];
/// The orders in which some of them come back.
const RETURNS: [&[Part]; 16] = [
    &[],
    &[Operator],
    &[Webhook],
    &[Registry],
    &[Operator, Webhook],
    &[Operator, Registry],
    &[Webhook, Operator],
    &[Webhook, Registry],
    &[Registry, Operator],
    &[Registry, Webhook],
    &[Operator, Webhook, Registry],
    &[Operator, Registry, Webhook],
    &[Webhook, Operator, Registry],
    &[Webhook, Registry, Operator],
    &[Registry, Operator, Webhook],
    &[Registry, Webhook, Operator],
];

/// What became of the pods, so that the test shows that it tested something.
#[derive(Debug, Default)]
struct Tally {
    gated: usize,
    not_gated: usize,
    released_by_webhook: usize,
    released_by_user: usize,
    placed: usize,
}

struct Chaos {
    stage: Arc<Stage>,
    images: Images,
    operator: Client,
    check: Client,
    webhook: Option<WebhookServer>,
    operator_runs: bool,
    registry_runs: bool,
    tally: Tally,
}

impl Chaos {
    async fn start() -> anyhow::Result<Self> {
        let images = Images::start().await?;
        let stage = Stage::idle_with(&[&images.registry.host()], LEASE).await?;
        let (operator, check) = stage.clients().await?;
        // One second is the shortest wait for a registry.
        let spec = json!({ "timeouts": { "gateSeconds": 1 } });
        stage.policy("default", spec).await?;
        Ok(Self {
            stage,
            images,
            operator,
            check,
            webhook: None,
            operator_runs: false,
            registry_runs: true,
            tally: Tally::default(),
        })
    }

    fn kill(&mut self, part: Part) {
        match part {
            Operator => {
                self.stage.crash();
                self.operator_runs = false;
            }
            Webhook => self.webhook = None,
            Registry => {
                self.images.registry.kill();
                self.registry_runs = false;
            }
        }
    }

    async fn revive(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Operator if !self.operator_runs => {
                self.stage.work_as(self.operator.clone()).await?;
                self.operator_runs = true;
            }
            Webhook if self.webhook.is_none() => {
                self.webhook = Some(self.stage.serve_as(self.check.clone()).await?);
            }
            Registry if !self.registry_runs => {
                self.images.registry.restart().await?;
                self.registry_runs = true;
            }
            Operator | Webhook | Registry => {}
        }
        Ok(())
    }

    /// A pod arrives, and must be admitted.
    async fn arrive(&mut self, name: &str, image: &str) -> anyhow::Result<()> {
        let made = self
            .stage
            .make(&pod(name, image, &json!({})), false)
            .await?;
        anyhow::ensure!(made.code == 201, "{name} was refused: {}", made.message());
        let pod: Pod = serde_json::from_value(made.object)?;
        self.tally.gated += usize::from(!gates(&pod).is_empty());
        self.tally.not_gated += usize::from(why(&pod).starts_with("NotGated: "));
        Ok(())
    }

    async fn round(&mut self, deaths: &[Part], returns: &[Part]) -> anyhow::Result<()> {
        for part in [Registry, Operator, Webhook] {
            self.revive(part).await?;
        }
        // The registry must be there for the push; the components have not seen the images.
        let mut unknown = Vec::new();
        for index in 0..=deaths.len() + returns.len() {
            let tag = format!("{}-{index}", self.tally.placed);
            unknown.push((format!("web-{index}"), self.images.push_unknown(&tag)?));
        }
        let mut arriving = unknown.into_iter();
        let webhook = self.webhook.as_ref();
        wait_until("pods may be gated", WAIT_TIMEOUT, async || {
            Ok(webhook.is_some_and(WebhookServer::gates_pods).then_some(()))
        })
        .await?;
        if let Some((name, image)) = arriving.next() {
            self.arrive(&name, &image).await?;
        }
        for part in deaths {
            self.kill(*part);
            if let Some((name, image)) = arriving.next() {
                self.arrive(&name, &image).await?;
            }
        }
        for part in returns {
            self.revive(*part).await?;
            if let Some((name, image)) = arriving.next() {
                self.arrive(&name, &image).await?;
            }
        }
        if !self.operator_runs && self.webhook.is_none() {
            let client = self.stage.client();
            for pod in edits::gated_pods(&client, None).await? {
                let released = edits::release_pod(&client, &pod, ("tests", false)).await?;
                self.tally.released_by_user += usize::from(released);
            }
        }
        let pods: Api<Pod> = self.stage.all();
        let landed = wait_until("every pod has a node", WAIT_TIMEOUT, async || {
            tokio::time::sleep(LOOK).await;
            let all = pods.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|pod| node(pod).is_some()).then_some(all))
        });
        let all = match landed.await {
            Ok(all) => all,
            Err(error) => {
                let left = pods.list(&ListParams::default()).await?.items;
                let left = left.into_iter().filter(|pod| node(pod).is_none());
                let left: Vec<String> = left.map(|pod| json!(pod).to_string()).collect();
                return Err(error.context(left.join("\n")));
            }
        };
        anyhow::ensure!(
            all.len() == 1 + deaths.len() + returns.len(),
            "a pod was lost"
        );
        for pod in &all {
            anyhow::ensure!(gates(pod).is_empty(), "{} is gated", pod.name_any());
            let by_webhook = why(pod).contains("no placement controller is running")
                && !why(pod).starts_with("NotGated: ");
            self.tally.released_by_webhook += usize::from(by_webhook);
            self.tally.placed += 1;
        }
        let now = DeleteParams::default().grace_period(0);
        pods.delete_collection(&now, &ListParams::default()).await?;
        Ok(())
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_stays_gated_whatever_is_killed(
    #[values(0, 1, 2, 3)] part: usize,
) -> anyhow::Result<()> {
    let mut chaos = Chaos::start().await?;
    for round in part * ROUNDS..(part + 1) * ROUNDS {
        let deaths = DEATHS[round % DEATHS.len()];
        // All pairs within 96 rounds.
        let returns = RETURNS[(round / DEATHS.len()) % RETURNS.len()];
        let played = chaos.round(&deaths, returns).await;
        played.map_err(|error| {
            error.context(format!("round {round}: {deaths:?} die, {returns:?} return"))
        })?;
    }
    let tally = &chaos.tally;
    assert!(
        tally.gated > 0 && tally.not_gated > 0 && tally.released_by_webhook > 0,
        "{tally:?}"
    );
    println!("{tally:?}");
    chaos.webhook = None;
    chaos.stage.end().await;
    Ok(())
}
