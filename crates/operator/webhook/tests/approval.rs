//! Who may have plans carried out, under exactly the roles that are shipped.

#[path = "approval/world.rs"]
mod world;

use api::advisor::{Action, WEBHOOK, names};
use governance::roles::{APPROVER, EDITOR, VIEWER};
use http::{Method, Request};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use serving::certificates::SelfMade;
use testkit::{TestCluster, wait_until};

use world::{NAME, SOON, World, annotate, forbidden, object, patch};

const PLAN: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

#[tokio::test]
async fn an_editor_prepares_and_does_not_approve() -> anyhow::Result<()> {
    let world = World::start().await?;
    let editor = world.configs_of("ed", EDITOR)?;
    let params = PostParams::default();

    let applied = object(NAME, Action::Apply);
    let said = forbidden(editor.create(&params, &applied).await)?;
    for part in [
        "\"ed\"",
        NAME,
        "verb \"approve\" on virtplatformconfigs.advisor.kubevirt.io",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let made = editor
        .create(&params, &object(NAME, Action::DryRun))
        .await?;
    assert_eq!(
        made.annotations().get(names::AUTHORS).map(String::as_str),
        Some(r#"["ed"]"#)
    );
    world.show_plan(PLAN).await?;

    let options =
        json!({ "spec": { "options": { "loadAware": { "deschedulingIntervalSeconds": 900 } } } });
    patch(&editor, options.clone()).await?;
    for refused in [
        json!({ "spec": { "action": "Apply" } }),
        json!({ "spec": { "approval": { "planDigest": PLAN } } }),
        json!({ "spec": { "bypassOptimisticLock": true } }),
        json!({ "spec": { "approvalPolicy": { "authorMayApprove": true } } }),
        json!({ "metadata": { "annotations": { names::APPROVE: PLAN } } }),
    ] {
        forbidden(patch(&editor, refused).await)?;
    }
    let forged = format!(r#"[{{"user":"ann","digest":"{PLAN}","at":"2026-01-01T00:00:00Z"}}]"#);
    let config = annotate(&editor, names::APPROVALS, &forged).await?;
    assert_eq!(config.annotations().get(names::APPROVALS), None);
    let config = annotate(&editor, names::AUTHORS, r#"["ann"]"#).await?;
    assert_eq!(
        config.annotations().get(names::AUTHORS).map(String::as_str),
        Some(r#"["ed"]"#)
    );
    assert_eq!(world.recorded().await?, []);

    // What an approver has applied, an editor may stop, but not change.
    let approver = world.configs_of("ann", APPROVER)?;
    patch(&approver, json!({ "spec": { "action": "Apply" } })).await?;
    let other =
        json!({ "spec": { "options": { "loadAware": { "deschedulingIntervalSeconds": 600 } } } });
    forbidden(patch(&editor, other).await)?;
    let config = patch(&editor, json!({ "spec": { "action": "DryRun" } })).await?;
    assert_eq!(config.spec.action, Action::DryRun);
    Ok(())
}

#[tokio::test]
async fn approvals_of_several_people_are_recorded_in_their_names() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (ann, bob) = (
        world.configs_of("ann", APPROVER)?,
        world.configs_of("bob", APPROVER)?,
    );
    let editor = world.configs_of("ed", EDITOR)?;
    let params = PostParams::default();
    let viewer = world.configs_of("vic", VIEWER)?;
    forbidden(viewer.create(&params, &object(NAME, Action::DryRun)).await)?;
    editor
        .create(&params, &object(NAME, Action::DryRun))
        .await?;
    world.show_plan(PLAN).await?;

    let config = annotate(&ann, names::APPROVE, PLAN).await?;
    assert_eq!(config.annotations().get(names::APPROVE), None);
    let by_ann = ("ann".to_owned(), PLAN.to_owned());
    assert_eq!(world.recorded().await?, std::slice::from_ref(&by_ann));

    // A whole object without the record does not remove it.
    let mut whole = ann.get(NAME).await?;
    whole.annotations_mut().remove(names::APPROVALS);
    ann.replace(NAME, &params, &whole).await?;
    assert_eq!(world.recorded().await?, std::slice::from_ref(&by_ann));

    let config = patch(&bob, json!({ "spec": { "action": "Apply" } })).await?;
    assert_eq!(config.spec.action, Action::Apply);
    let by_bob = ("bob".to_owned(), PLAN.to_owned());
    assert_eq!(world.recorded().await?, [by_ann.clone(), by_bob.clone()]);

    patch(
        &ann,
        json!({ "spec": { "approval": { "planDigest": OTHER } } }),
    )
    .await?;
    let other_by_ann = ("ann".to_owned(), OTHER.to_owned());
    let all = [by_ann, by_bob, other_by_ann];
    assert_eq!(world.recorded().await?, all);
    let config = viewer.get(NAME).await?;
    assert_eq!(
        config.annotations().get(names::AUTHORS).map(String::as_str),
        Some(r#"["ed"]"#)
    );
    Ok(())
}

#[tokio::test]
async fn who_writes_the_record_is_warned_even_an_administrator() -> anyhow::Result<()> {
    let world = World::start().await?;
    let params = PostParams::default();
    world
        .configs()
        .create(&params, &object(NAME, Action::DryRun))
        .await?;
    let forged = json!({ "metadata": { "annotations": { names::APPROVALS: "[]" } } });
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!(
            "/apis/advisor.kubevirt.io/v1alpha1/virtplatformconfigs/{NAME}"
        ))
        .header("content-type", "application/merge-patch+json")
        .body(forged.to_string().into_bytes())?;
    let response = world.cluster.request(request).await?;
    assert_eq!(response.status(), 200);
    let warning = response.headers().get("warning");
    let warning = warning.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    assert!(
        warning
            .as_ref()
            .is_some_and(|text| text.contains(names::APPROVALS)),
        "{warning:?}"
    );
    assert_eq!(world.recorded().await?, []);
    Ok(())
}

#[tokio::test]
async fn nothing_changes_while_the_check_is_down() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    let editor = world.configs_of("ed", EDITOR)?;
    editor
        .create(&PostParams::default(), &object(NAME, Action::DryRun))
        .await?;
    if let Some(check) = world.check.take() {
        check.stop().await;
    }
    let ignore = json!({ "spec": { "action": "Ignore" } });
    let error = match patch(&editor, ignore.clone()).await {
        Err(kube::Error::Api(status)) => status,
        other => anyhow::bail!("{other:?}"),
    };
    assert_eq!(error.code, 500, "{error:?}");
    assert!(
        error.message.contains("approval.advisor.kubevirt.io"),
        "{error:?}"
    );
    // The operator can still report.
    world.show_plan(PLAN).await?;
    assert_eq!(editor.get(NAME).await?.spec.action, Action::DryRun);

    // Another process has another port and other keys.
    world.begin().await?;
    wait_until("changes are possible again", SOON, || async {
        Ok(patch(&editor, ignore.clone()).await.ok())
    })
    .await?;
    assert_eq!(editor.get(NAME).await?.spec.action, Action::Ignore);
    Ok(())
}

#[tokio::test]
async fn a_registration_can_move() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let own = SelfMade::new("medley-webhook", &["localhost".to_owned()])?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for (reach, url, service) in [
        ("url=https://127.0.0.1:9443", true, false),
        ("service=medley-system/medley-webhook", false, true),
        ("url=https://127.0.0.1:9444", true, false),
    ] {
        webhook::register(&client, own.authority(), &reach.parse()?).await?;
        let registered = registrations.get(WEBHOOK).await?;
        let hooks = registered.webhooks.unwrap_or_default();
        assert_eq!(hooks.len(), 1);
        let asked = &hooks[0].client_config;
        assert_eq!(
            (asked.url.is_some(), asked.service.is_some()),
            (url, service)
        );
    }
    Ok(())
}
