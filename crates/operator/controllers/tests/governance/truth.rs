//! The status beside an API server that prunes, defaults and mutates: no false drift, and diffs that are true.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::advisor::{DeviationClass, DriftClass, Phase, names as marks};
use fleet::operators::{HyperConvergedVersion, Installed, names};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{DeschedulerPlayer, Reply, WebhookServer, wait_until};

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, condition, item};

const DESCHEDULER: &str = "enable-load-aware-descheduling";
/// Long enough for a controller that corrects its own write to do so several times.
const QUIET_TIME: Duration = Duration::from_secs(2);

fn without_psi() -> Value {
    json!({ "loadAware": { "enablePSIMetrics": false } })
}

impl Stage {
    /// Registers a mutating webhook that sets the interval of every KubeDescheduler to two minutes.
    async fn raise_intervals(&self) -> anyhow::Result<WebhookServer> {
        let server = WebhookServer::start(|_, _| {
            let path = "/spec/deschedulingIntervalSeconds";
            Reply::patch(&json!([{ "op": "add", "path": path, "value": 120 }]))
        })
        .await?;
        let registration = serde_json::from_value(json!({
            "metadata": { "name": "interval-floor" },
            "webhooks": [{
                "name": "floor.example.com",
                "clientConfig": server.client_config("/floor"),
                "rules": [{
                    "apiGroups": ["operator.openshift.io"], "apiVersions": ["*"],
                    "resources": ["kubedeschedulers"], "operations": ["CREATE", "UPDATE"],
                }],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }],
        }))?;
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(self.cluster.client());
        registrations
            .create(&PostParams::default(), &registration)
            .await?;
        // It is called from some moment on.
        wait_until("the webhook is called", WAIT_TIMEOUT, async || {
            let object = serde_json::from_value(json!({
                "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
                "metadata": { "name": "cluster", "namespace": names::DESCHEDULER_NAMESPACE },
                "spec": { "profiles": ["LongLifecycle"] },
            }))?;
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let created = self.deschedulers().create(&params, &object).await?;
            let interval = &created.data["spec"]["deschedulingIntervalSeconds"];
            Ok((*interval == 120).then_some(()))
        })
        .await?;
        Ok(server)
    }

    /// Removes a property below the spec from the schema of a CRD; `path` has slashes.
    async fn drop_property(&self, crd: &str, version: &str, path: &str) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.cluster.client());
        let mut definition = serde_json::to_value(definitions.get(crd).await?)?;
        let versions = definition["spec"]["versions"].as_array_mut();
        let mut versions = versions.into_iter().flatten();
        let found = versions.find(|one| one["name"] == version);
        let found = found.with_context(|| format!("{crd} has no version {version}"))?;
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut properties = &mut found["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for step in above.split('/').filter(|step| !step.is_empty()) {
            properties = &mut properties["properties"][step];
        }
        let properties = properties["properties"].as_object_mut();
        let removed = properties.and_then(|properties| properties.remove(name));
        removed.with_context(|| format!("{crd} has no property {path}"))?;
        let params = PostParams::default();
        let changed = serde_json::from_value(definition)?;
        definitions.replace(crd, &params, &changed).await?;
        Ok(())
    }
}

/// The proposal's first example with plain patches: review, takeovers with manager, value and since when, apply.
#[tokio::test(flavor = "multi_thread")]
async fn reviewed_plan_takes_over_listed_fields() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "kubectl-create",
            json!({ "deschedulingIntervalSeconds": 180, "profiles": ["LongLifecycle"] }),
        )
        .await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let takeovers = &item(&status, DESCHEDULER).takeovers;
    let listed: Vec<_> = takeovers
        .iter()
        .map(|one| (one.path.as_str(), one.manager.as_str(), one.live.clone()))
        .collect();
    // Not spec.mode: its value is the CRD's default, which the creator did not send.
    assert_eq!(
        listed,
        [
            (
                "spec.deschedulingIntervalSeconds",
                "kubectl-create",
                Some(json!(180))
            ),
            (
                "spec.profiles",
                "kubectl-create",
                Some(json!(["LongLifecycle"]))
            ),
        ]
    );
    assert!(takeovers.iter().all(|one| one.since.is_some()));

    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let live = stage.descheduler().await?.unwrap_or_default();
    assert_eq!(live["spec"]["deschedulingIntervalSeconds"], 60);
    assert_eq!(live["spec"]["mode"], "Automatic");
    for item in &status.items {
        let diff = item.diff.as_deref().unwrap_or_default();
        assert!(diff.ends_with("(no changes)\n"), "{diff}");
    }
    Ok(())
}

/// Drift as a diff, of an edit and of a deletion, although another manager had created the object.
#[tokio::test(flavor = "multi_thread")]
async fn drift_is_shown_as_diff() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler("kubectl-create", json!({ "profiles": ["LongLifecycle"] }))
        .await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    stage
        .edit_descheduler(
            "kubectl-edit",
            json!({ "deschedulingIntervalSeconds": 180, "mode": "Predictive" }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Drifted).await?;
    let diff = item(&status, DESCHEDULER).diff.clone().unwrap_or_default();
    for line in [
        "-  deschedulingIntervalSeconds: 180\n+  deschedulingIntervalSeconds: 60\n",
        "-  mode: Predictive\n+  mode: Automatic\n",
    ] {
        assert!(diff.contains(line), "{diff}");
    }
    wait_until("the metrics show drift", WAIT_TIMEOUT, async || {
        let metrics = stage.metrics();
        let is_drifted = "medley_governance_drift{config=\"load-aware-rebalancing\"} 1";
        let fields = "medley_governance_drift_fields{config=\"load-aware-rebalancing\"} 2";
        Ok((metrics.contains(is_drifted) && metrics.contains(fields)).then_some(()))
    })
    .await?;

    stage
        .deschedulers()
        .delete("cluster", &kube::api::DeleteParams::default())
        .await?;
    let status = stage
        .until("the deletion is shown", LOAD_AWARE, |status| {
            let diff = item(status, DESCHEDULER).diff.clone();
            diff.unwrap_or_default().starts_with("--- /dev/null")
        })
        .await?;
    assert_eq!(status.phase, Some(Phase::Drifted));
    let shown = item(&status, DESCHEDULER).diff.clone();

    // The dry run of the next plan shows the same.
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_eq!(item(&status, DESCHEDULER).diff, shown);
    Ok(())
}

/// A webhook that changes a field: predicted in the review, no drift afterwards, and no fight with it.
#[tokio::test(flavor = "multi_thread")]
async fn field_changed_by_admission_is_no_drift() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let _server = stage.raise_intervals().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "DryRun", "options": without_psi() }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let planned = item(&status, DESCHEDULER).deviations.clone();
    let changed = planned
        .iter()
        .find(|one| one.class == DeviationClass::ChangedByAdmission);
    let changed = changed.unwrap_or_else(|| panic!("the review shows the change: {planned:#?}"));
    assert_eq!(changed.path, "spec.deschedulingIntervalSeconds");
    assert_eq!(
        (changed.wanted.clone(), changed.kept.clone()),
        (Some(json!(60)), Some(json!(120)))
    );
    let name = "webhook floor.example.com of MutatingWebhookConfiguration interval-floor";
    assert_eq!(changed.by.as_deref(), Some(name));
    let is_defaulted = |path: &str| {
        let mut defaults = planned.iter();
        defaults.any(|one| one.path == path && one.class == DeviationClass::Defaulted)
    };
    assert!(is_defaulted("spec.logLevel"), "{planned:#?}");

    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "bypassOptimisticLock": true }),
        )
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert_eq!(item(&status, DESCHEDULER).deviations, planned);
    assert!(status.drift.is_empty(), "{:?}", status.drift);
    let before = stage.deschedulers().get("cluster").await?;
    assert_eq!(before.data["spec"]["deschedulingIntervalSeconds"], 120);

    tokio::time::sleep(QUIET_TIME).await;
    let config = stage.config(LOAD_AWARE).await?;
    let status = config.status.unwrap_or_default();
    assert_eq!(status.phase, Some(Phase::Completed));
    assert_eq!(status.enforcement, None, "nothing was corrected");
    let after = stage.deschedulers().get("cluster").await?;
    assert_eq!(after.metadata.generation, before.metadata.generation);
    Ok(())
}

/// A new release of a CRD: what differs is reported as capabilities, not as another version of the operator.
#[tokio::test(flavor = "multi_thread")]
async fn changed_crd_is_reported_as_capability() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .edit(
            LOAD_AWARE,
            json!({ "action": "Apply", "options": without_psi() }),
        )
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    stage
        .drop_property(
            "kubedeschedulers.operator.openshift.io",
            "v1",
            "profileCustomizations/devEnableEvictionsInBackground",
        )
        .await?;
    let status = stage
        .reaches(LOAD_AWARE, Phase::CompletedWithUpgrade)
        .await?;
    let (on, reason, message) = condition(&status, "UpgradeAvailable");
    assert_eq!(
        (on.as_str(), reason.as_str()),
        ("True", "CapabilitiesChanged")
    );
    for part in [
        "the CustomResourceDefinition kubedeschedulers.operator.openshift.io changed",
        "spec.profileCustomizations.devEnableEvictionsInBackground from true to <none>",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("plans differently"), "{message}");
    let classes = status.drift.iter().map(|one| one.class);
    assert!(classes.clone().count() > 0);
    assert!(
        classes
            .into_iter()
            .all(|class| class == DriftClass::CapabilityChange),
        "{:?}",
        status.drift
    );
    Ok(())
}

/// Discovery: options with defaults and ranges, and prerequisites by their served versions.
#[tokio::test(flavor = "multi_thread")]
async fn advertised_configuration_describes_options() -> anyhow::Result<()> {
    for (version, served) in [
        (HyperConvergedVersion::V1Beta1, "hco.kubevirt.io/v1beta1"),
        (HyperConvergedVersion::V1, "hco.kubevirt.io/v1"),
    ] {
        let stage: Arc<Stage> = Stage::with(Installed {
            hyperconverged: Some(version),
            ..Installed::demo()
        })
        .await?;
        let _player = DeschedulerPlayer::accepting(stage.cluster.client());
        stage.operator("v0.1.30").await?;
        let config = stage.config(LOAD_AWARE).await?;
        let prerequisites = &config.annotations()[marks::PREREQUISITES];
        assert!(
            prerequisites.ends_with(&format!("HyperConverged ({served})")),
            "{prerequisites}"
        );
        let options = &config.annotations()[marks::OPTIONS];
        let interval =
            "options.loadAware.deschedulingIntervalSeconds (integer, default 60, 60 to 86400)";
        assert!(options.contains(interval), "{options}");
    }
    Ok(())
}
