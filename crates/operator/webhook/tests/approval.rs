//! Permission to apply plans, with exactly the roles that are shipped.

#[path = "approval/fixture.rs"]
mod fixture;

use api::advisor::{Action, WEBHOOK, names};
use governance::roles::{APPROVER, EDITOR, VIEWER};
use http::{Method, Request};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use serving::certificates::SelfSigned;
use testkit::{TestCluster, wait_until};

use fixture::{Fixture, NAME, WAIT_TIMEOUT, annotate, forbidden, object, patch};

const PLAN: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

#[tokio::test]
async fn editor_cannot_approve() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let editor = fixture.configs_of("ed", EDITOR)?;
    let params = PostParams::default();

    let applied = object(NAME, Action::Apply);
    let message = forbidden(editor.create(&params, &applied).await)?;
    for part in [
        "\"ed\"",
        NAME,
        "verb \"approve\" on virtplatformconfigs.advisor.kubevirt.io",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let made = editor
        .create(&params, &object(NAME, Action::DryRun))
        .await?;
    assert_eq!(
        made.annotations().get(names::AUTHORS).map(String::as_str),
        Some(r#"["ed"]"#)
    );
    fixture.show_plan(PLAN).await?;

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
    assert_eq!(fixture.recorded().await?, []);

    // An editor may stop what an approver has applied, but not change it.
    let approver = fixture.configs_of("ann", APPROVER)?;
    patch(&approver, json!({ "spec": { "action": "Apply" } })).await?;
    let other =
        json!({ "spec": { "options": { "loadAware": { "deschedulingIntervalSeconds": 600 } } } });
    forbidden(patch(&editor, other).await)?;
    let config = patch(&editor, json!({ "spec": { "action": "DryRun" } })).await?;
    assert_eq!(config.spec.action, Action::DryRun);
    Ok(())
}

#[tokio::test]
async fn approvals_are_recorded_by_user() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let (ann, bob) = (
        fixture.configs_of("ann", APPROVER)?,
        fixture.configs_of("bob", APPROVER)?,
    );
    let editor = fixture.configs_of("ed", EDITOR)?;
    let params = PostParams::default();
    let viewer = fixture.configs_of("vic", VIEWER)?;
    forbidden(viewer.create(&params, &object(NAME, Action::DryRun)).await)?;
    editor
        .create(&params, &object(NAME, Action::DryRun))
        .await?;
    fixture.show_plan(PLAN).await?;

    let config = annotate(&ann, names::APPROVE, PLAN).await?;
    assert_eq!(config.annotations().get(names::APPROVE), None);
    let by_ann = ("ann".to_owned(), PLAN.to_owned());
    assert_eq!(fixture.recorded().await?, std::slice::from_ref(&by_ann));

    // Replacing the object without the record does not remove it.
    let mut whole = ann.get(NAME).await?;
    whole.annotations_mut().remove(names::APPROVALS);
    ann.replace(NAME, &params, &whole).await?;
    assert_eq!(fixture.recorded().await?, std::slice::from_ref(&by_ann));

    let config = patch(&bob, json!({ "spec": { "action": "Apply" } })).await?;
    assert_eq!(config.spec.action, Action::Apply);
    let by_bob = ("bob".to_owned(), PLAN.to_owned());
    assert_eq!(fixture.recorded().await?, [by_ann.clone(), by_bob.clone()]);

    patch(
        &ann,
        json!({ "spec": { "approval": { "planDigest": OTHER } } }),
    )
    .await?;
    let other_by_ann = ("ann".to_owned(), OTHER.to_owned());
    let all = [by_ann, by_bob, other_by_ann];
    assert_eq!(fixture.recorded().await?, all);
    let config = viewer.get(NAME).await?;
    assert_eq!(
        config.annotations().get(names::AUTHORS).map(String::as_str),
        Some(r#"["ed"]"#)
    );
    Ok(())
}

#[tokio::test]
async fn writing_the_record_causes_warning() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let params = PostParams::default();
    fixture
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
    let response = fixture.cluster.request(request).await?;
    assert_eq!(response.status(), 200);
    let warning = response.headers().get("warning");
    let warning = warning.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    assert!(
        warning
            .as_ref()
            .is_some_and(|text| text.contains(names::APPROVALS)),
        "{warning:?}"
    );
    assert_eq!(fixture.recorded().await?, []);
    Ok(())
}

#[tokio::test]
async fn changes_fail_while_webhook_is_down() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    let editor = fixture.configs_of("ed", EDITOR)?;
    editor
        .create(&PostParams::default(), &object(NAME, Action::DryRun))
        .await?;
    if let Some(check) = fixture.check.take() {
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
    // The operator can still write the status.
    fixture.show_plan(PLAN).await?;
    assert_eq!(editor.get(NAME).await?.spec.action, Action::DryRun);

    // A new process has another port and other keys.
    fixture.begin().await?;
    wait_until("changes are possible again", WAIT_TIMEOUT, || async {
        Ok(patch(&editor, ignore.clone()).await.ok())
    })
    .await?;
    assert_eq!(editor.get(NAME).await?.spec.action, Action::Ignore);
    Ok(())
}

#[tokio::test]
async fn registration_address_can_change() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let own = SelfSigned::new("medley-webhook", &["localhost".to_owned()])?;
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
