//! PlatformProfiles: a profile of an administrator's own, from its creation to drift, and what keeps it from running.

use std::sync::Arc;

use api::advisor::{Phase, VirtPlatformConfig};
use api::profile::{PlatformProfile, READY};
use fleet::operators::Installed;
use governance::profile::data::{Names, compile};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{Patch, PostParams};
use serde_json::{Value, json};
use testkit::{by, wait_until};

use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT, condition, item};

const NAME: &str = "greeting.example.com";

/// Keeps a greeting in a ConfigMap, and one in a CronTab-like kind if `resource` is another.
fn profile(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "PlatformProfile",
        "metadata": { "name": name },
        "spec": {
            "description": "Keeps a greeting in a ConfigMap",
            "impact": "Low",
            "options": { "type": "object", "properties": {
                "name": { "type": "string", "maxLength": 63, "default": "world" },
            }},
            "kinds": [{ "name": "maps", "kind": "ConfigMap", "resource": "configmaps", "versions": ["v1"] }],
            "items": [{
                "name": "greet",
                "target": { "of": "maps", "name": "greeting", "namespace": "greetings" },
                "object": { "data": { "text": text } },
                "managed": ["data"],
                "message": "${options.name} is greeted",
            }],
        },
    })
}

fn profiles(stage: &Stage) -> Api<PlatformProfile> {
    Api::all(stage.cluster.client())
}

async fn create(stage: &Stage, object: Value) -> anyhow::Result<PlatformProfile> {
    let object = serde_json::from_value(object)?;
    Ok(profiles(stage)
        .create(&PostParams::default(), &object)
        .await?)
}

async fn stage() -> anyhow::Result<Arc<Stage>> {
    let stage = Stage::with(Installed::demo()).await?;
    let namespace = json!({ "metadata": { "name": "greetings" } });
    let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    stage.operator("v0.1.30").await?;
    Ok(stage)
}

/// Waits until the condition Ready of a profile has this reason; returns its message.
async fn is(stage: &Stage, name: &str, reason: &str) -> anyhow::Result<String> {
    wait_until(&format!("{name} is {reason}"), WAIT_TIMEOUT, async || {
        let status = profiles(stage).get(name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let ready = conditions.find(|it| it.type_ == READY && it.reason == reason);
        Ok(ready.map(|ready| ready.message))
    })
    .await
}

async fn greeting(stage: &Stage) -> anyhow::Result<Option<String>> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "greetings");
    let found = maps.get_opt("greeting").await?;
    Ok(found.and_then(|map| map.data?.get("text").cloned()))
}

async fn change_text(stage: &Stage, text: &str) -> anyhow::Result<()> {
    let spec = profile(NAME, text)["spec"].clone();
    let patch = Patch::Merge(json!({ "spec": spec }));
    profiles(stage)
        .patch(NAME, &by("kubectl-patch"), &patch)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn own_profile_is_advertised_planned_and_applied() -> anyhow::Result<()> {
    let stage = stage().await?;
    create(&stage, profile(NAME, "hello ${options.name}")).await?;
    is(&stage, NAME, "Ready").await?;
    let status = stage.reaches(NAME, Phase::Ignored).await?;
    assert_eq!(status.items, []);

    let options = json!({ "values": { "name": "moon" } });
    stage
        .edit(NAME, json!({ "action": "DryRun", "options": options }))
        .await?;
    let status = stage.reaches(NAME, Phase::ReviewRequired).await?;
    let diff = item(&status, "greet").diff.clone().unwrap_or_default();
    assert!(diff.contains("+  text: hello moon"), "{diff}");
    assert_eq!(
        greeting(&stage).await?,
        None,
        "nothing is applied before the approval"
    );

    stage.edit(NAME, json!({ "action": "Apply" })).await?;
    stage.reaches(NAME, Phase::Completed).await?;
    assert_eq!(greeting(&stage).await?.as_deref(), Some("hello moon"));

    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), "greetings");
    let patch = Patch::Merge(json!({ "data": { "text": "bye" } }));
    maps.patch("greeting", &by("kubectl-edit"), &patch).await?;
    let status = stage.reaches(NAME, Phase::Drifted).await?;
    assert_eq!(status.drift[0].path, "data.text");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_profile_is_reviewed_although_the_action_is_apply() -> anyhow::Result<()> {
    let stage = stage().await?;
    create(&stage, profile(NAME, "hello")).await?;
    stage.reaches(NAME, Phase::Ignored).await?;
    stage.edit(NAME, json!({ "action": "Apply" })).await?;
    let before = stage.reaches(NAME, Phase::Completed).await?;

    change_text(&stage, "good morning").await?;
    let status = stage.reaches(NAME, Phase::ReviewRequired).await?;
    let (on, reason, message) = condition(&status, "InputDependencyDrift");
    assert_eq!((on.as_str(), reason.as_str()), ("True", "ProfileChanged"));
    assert!(
        message.contains("\"hello\" to \"good morning\""),
        "{message}"
    );
    assert_ne!(status.plan_digest, before.plan_digest);
    assert_eq!(greeting(&stage).await?.as_deref(), Some("hello"));

    stage.edit(NAME, json!({ "action": "DryRun" })).await?;
    stage.reaches(NAME, Phase::ReviewRequired).await?;
    stage.edit(NAME, json!({ "action": "Apply" })).await?;
    stage.reaches(NAME, Phase::Completed).await?;
    assert_eq!(greeting(&stage).await?.as_deref(), Some("good morning"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_profile_says_why_and_stalls_no_other() -> anyhow::Result<()> {
    let stage = stage().await?;
    create(&stage, profile("a-broken.example.com", "${options.nam}")).await?;
    create(&stage, profile(NAME, "hello")).await?;
    let message = is(&stage, "a-broken.example.com", "Invalid").await?;
    assert!(
        message.starts_with("spec.items[0].object.data.text: ") && message.contains("nam"),
        "{message}"
    );
    is(&stage, NAME, "Ready").await?;
    stage.reaches(NAME, Phase::Ignored).await?;
    stage.edit(NAME, json!({ "action": "Apply" })).await?;
    stage.reaches(NAME, Phase::Completed).await?;
    let metrics = stage.metrics();
    for line in [
        "governance_profile_ready{profile=\"a-broken.example.com\"} 0",
        "governance_profile_ready{profile=\"greeting.example.com\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }

    // A configuration of a profile that breaks says so, and what is applied stays.
    change_text(&stage, "${options.nam}").await?;
    let status = stage.reaches(NAME, Phase::PrerequisiteFailed).await?;
    let message = condition(&status, "PrerequisitesMet").2;
    assert!(
        message.contains("PlatformProfile greeting.example.com is not ready: spec.items[0]"),
        "{message}"
    );
    assert_eq!(greeting(&stage).await?.as_deref(), Some("hello"));
    assert_eq!(status.drift, []);
    change_text(&stage, "hello").await?;
    stage.reaches(NAME, Phase::Completed).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_that_an_administrator_did_not_grant() -> anyhow::Result<()> {
    let stage = stage().await?;
    let mut object = profile(NAME, "hello");
    object["spec"]["kinds"][0] = json!({
        "name": "maps", "group": "scheduling.k8s.io", "kind": "PriorityClass", "resource": "priorityclasses",
        "versions": ["v1"],
    });
    object["spec"]["items"][0]["target"] = json!({ "of": "maps", "name": "greeting" });
    object["spec"]["items"][0]["object"] = json!({ "value": 7 });
    object["spec"]["items"][0]["managed"] = json!(["value"]);
    let created = create(&stage, object).await?;
    let message = is(&stage, NAME, "PermissionsMissing").await?;
    assert!(
        message
            .contains("get, list, watch, create, patch, delete priorityclasses.scheduling.k8s.io"),
        "{message}"
    );
    let status = profiles(&stage).get(NAME).await?.status.unwrap_or_default();
    assert_eq!(status.missing_rules, status.required_rules);
    assert!(
        stage.configs().get_opt(NAME).await?.is_none(),
        "it is not advertised"
    );

    let compiled = compile(NAME, &created.spec, &mut Names::default());
    let rules = compiled.profile.map(|profile| profile.rules());
    let role = json!({ "metadata": { "name": "profile" }, "rules": rules });
    let roles: Api<ClusterRole> = Api::all(stage.cluster.client());
    roles
        .create(&PostParams::default(), &serde_json::from_value(role)?)
        .await?;
    let binding = json!({
        "metadata": { "name": "profile" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "profile" },
        "subjects": [{ "kind": "ServiceAccount", "name": controllers::ACCOUNT, "namespace": NAMESPACE }],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.cluster.client());
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding)?)
        .await?;
    is(&stage, NAME, "Ready").await?;
    stage.reaches(NAME, Phase::Ignored).await?;
    stage.edit(NAME, json!({ "action": "Apply" })).await?;
    stage.reaches(NAME, Phase::Completed).await?;
    let status = profiles(&stage).get(NAME).await?.status.unwrap_or_default();
    assert_eq!(status.missing_rules, []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_a_dot_belong_to_built_in_profiles() -> anyhow::Result<()> {
    let stage = stage().await?;
    for name in ["greeting", "load-aware-rebalancing"] {
        let refused = create(&stage, profile(name, "hello")).await.unwrap_err();
        assert!(refused.to_string().contains("contains a dot"), "{refused}");
    }
    let config = VirtPlatformConfig::new(
        "load-aware-rebalancing",
        serde_json::from_value(json!({
            "profile": "load-aware-rebalancing", "options": { "values": {}, "loadAware": {} },
        }))?,
    );
    stage
        .configs()
        .delete(
            "load-aware-rebalancing",
            &kube::api::DeleteParams::default(),
        )
        .await
        .ok();
    let refused = stage
        .configs()
        .create(&PostParams::default(), &config)
        .await;
    let message = refused
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        message.contains("options.values can only be used with the profile of a PlatformProfile")
            || message.contains("already exists"),
        "{message}"
    );
    Ok(())
}
