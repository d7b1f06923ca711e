//! Release migration beside the genuine cluster-version-operator and `oc`: a migration to multi-arch is judged by all
//! three.

#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/release/payload.rs"]
mod payload;
#[path = "beside/release/play.rs"]
mod play;
#[path = "beside/release/roles.rs"]
mod roles;
#[path = "beside/release/story.rs"]
mod story;

use anyhow::Context as _;
use api::openshift::{CLUSTER_VERSION, Condition};
use kube::{Resource, ResourceExt as _};
use release_migration::payload::Payload;
use testkit::recording::{Recorder, recording};
use testkit::{has, peer_version};

use payload::{CLUSTER_VERSION_OPERATOR, DNS, ETCD, MACHINE_CONFIG, OPERATORS, Release};
use play::REQUESTER;
use roles::{INSTALLER, claims, condition};
use story::Story;

/// Field managers of an object, with the part that they write.
fn writers(object: &impl Resource) -> Vec<String> {
    let entries = object.managed_fields().iter();
    let mut writers: Vec<String> = entries
        .map(|it| {
            let part = it.subresource.as_deref().unwrap_or("spec");
            format!("{} {part}", it.manager.as_deref().unwrap_or_default())
        })
        .collect();
    writers.sort();
    writers.dedup();
    writers
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_is_judged_by_both() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let played = Box::pin(migrate(&mut story)).await;
    played.with_context(|| story.log())
}

async fn migrate(story: &mut Story) -> anyhow::Result<()> {
    let (single, multi) = (Release::single()?, Release::multi()?);
    let recorder = Recorder::start(story.beside.cluster.client(), play::subject());
    story.roles.install(&[&single, &multi]).await?;
    story.run_operator(&single)?;
    story.run_medley().await?;
    let version = play::install(&story.roles, &recorder, &single).await?;
    let loaded = Payload::read(&single.image, &single.files)?;
    let status = version.status.clone().unwrap_or_default();
    assert_eq!(status.rest["versionHash"], loaded.version_hash());
    story.verdict("Complete", "True Arrived").await?;
    has(
        &story.oc(&["adm", "upgrade", "status"])?.ok()?,
        &["The cluster is not updating."],
    );

    let to = format!("--to-image={}", multi.image);
    // Nothing is signed.
    let request = ["adm", "upgrade", "--allow-explicit-upgrade", "--force", &to];
    story.oc(&request)?.ok()?;
    story.download(&multi).await?;
    let version = play::wait_for_last_operator(&story.roles, &multi).await?;
    assert_eq!(
        condition(&version, "Progressing"),
        "True : Working towards 4.18.0: 8 of 9 done (88% complete)"
    );
    let states: Vec<&str> = version
        .history()
        .iter()
        .map(|it| it.state.as_str())
        .collect();
    assert_eq!(states, ["Partial", "Completed"]);
    story
        .verdict("Complete", "False ClusterOperatorUpdating")
        .await?;
    story.verdict("Agrees", "True Agrees").await?;
    let ours = story.beside.medley(&["release", "status"])?.ok()?;
    let theirs = story.oc(&["adm", "upgrade", "status"])?.ok()?;
    has(
        &ours,
        &[
            "Assessment:      Progressing",
            "Target Version:  4.18.0 to Multi-Architecture",
            "Completion:      67% (2 operators updated",
        ],
    );
    // This `oc` compares versions alone, as all did before the end of 2024.
    has(
        &theirs,
        &[
            "Assessment:      Completed",
            "Target Version:  4.18.0 (from 4.18.0)",
            "Completion:      100% (3 operators updated, 0 updating, 0 waiting)",
        ],
    );

    // The operator believes a report, whatever runs.
    play::report_last_operator(&story.roles, &recorder, &multi).await?;
    let trace = play::comparable(recorder.finish());
    story.verdict("Complete", "True Arrived").await?;
    has(
        &story.oc(&["adm", "upgrade", "status"])?.ok()?,
        &["The cluster is not updating."],
    );
    let ours = story.beside.medley(&["release", "status"])?.ok()?;
    has(&ours, &["Assessment:      Completed early"]);
    let explained = story
        .beside
        .medley(&["release", "explain", MACHINE_CONFIG.name])?
        .ok()?;
    has(&explained, &[&single.component(MACHINE_CONFIG)]);

    for operator in [DNS, MACHINE_CONFIG] {
        story.roles.run_pods(operator).await?;
    }
    let ours = story.beside.medley(&["release", "status"])?.ok()?;
    has(&ours, &["The cluster is not updating."]);
    let version = story.roles.versions().get(CLUSTER_VERSION).await?;
    assert_eq!(
        writers(&version),
        [
            "cluster-version-operator status".to_owned(),
            format!("{INSTALLER} spec"),
            format!("{REQUESTER} spec"),
        ]
    );
    for operator in OPERATORS {
        let reported = story.roles.operators().get(operator.name).await?;
        // The operator writes ClusterOperators as Go-http-client, and the others are the operators of the release.
        let writers = writers(&reported);
        assert!(
            !writers.iter().any(|it| it.starts_with("medley")),
            "{writers:?}"
        );
    }
    let recorded_from = peer_version(CLUSTER_VERSION_OPERATOR)?;
    trace.assert_recorded(&recording(play::RECORDING), &recorded_from)
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_cleared_requests_change_nothing() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let played = refuse_and_clear(&mut story).await;
    played.with_context(|| story.log())
}

async fn refuse_and_clear(story: &mut Story) -> anyhow::Result<()> {
    let (single, multi) = (Release::single()?, Release::multi()?);
    story.roles.install(&[&single, &multi]).await?;
    story.run_operator(&single)?;
    story.run_medley().await?;
    // An installation does not wait for versions.
    for operator in OPERATORS {
        story.roles.deployed(operator, &single).await?;
        story.roles.run_pods(operator).await?;
    }
    for operator in [ETCD, DNS] {
        story.roles.report(operator).await?;
    }
    story.roles.come_up_silently(MACHINE_CONFIG).await?;
    story.roles.completed(&single).await?;
    story.verdict("Agrees", "False ClaimedEarly").await?;
    story.roles.report(MACHINE_CONFIG).await?;
    story.verdict("Agrees", "True Agrees").await?;
    story.verdict("Complete", "True Arrived").await?;

    // The update service is unknown, so it has no release for several architectures.
    let version = story.roles.versions().get(CLUSTER_VERSION).await?;
    assert_eq!(
        condition(&version, "RetrievedUpdates"),
        "False NoChannel: The update channel has not been configured."
    );
    let refused = story
        .beside
        .medley(&["release", "migrate", "--to-multi-arch"])?
        .refused()?;
    has(&refused, &["RetrievedUpdates is False (NoChannel"]);

    // The image has no signature.
    let to = format!("--to-image={}", multi.image);
    story
        .oc(&["adm", "upgrade", "--allow-explicit-upgrade", &to])?
        .ok()?;
    let version = story
        .roles
        .version("does not accept the release", |version| {
            condition(version, "ReleaseAccepted").starts_with("False RetrievePayload")
        })
        .await?;
    has(
        &condition(&version, "ReleaseAccepted"),
        &["The update cannot be verified", &multi.image],
    );
    assert!(claims(&version, &single), "{version:#?}");
    story.oc(&["adm", "upgrade", "--clear"])?.ok()?;
    // The condition stays until the next request: the operator does nothing for the release that it runs.
    // A manifest that cannot be parsed.
    let mut broken = Release::multi()?;
    broken
        .files
        .insert("0000_90_broken.yaml".to_owned(), "{".to_owned());
    story
        .oc(&["adm", "upgrade", "--allow-explicit-upgrade", "--force", &to])?
        .ok()?;
    story.download(&broken).await?;
    let version = story
        .roles
        .version("cannot load the release", |version| {
            condition(version, "ReleaseAccepted").starts_with("False LoadPayload")
        })
        .await?;
    has(
        &condition(&version, "ReleaseAccepted"),
        &[
            "Error loading manifests from /etc/cvo/updatepayloads",
            "0000_90_broken.yaml",
        ],
    );
    assert!(claims(&version, &single), "{version:#?}");
    assert_eq!(version.history().len(), 1);
    story.verdict("Agrees", "True Agrees").await?;

    // Medley leaves the ClusterVersion to the operator even if it is configured otherwise.
    let before = writers(&version);
    story.configure_ownership().await?;
    story
        .verdict("KeepsClusterVersion", "False ForeignOwner")
        .await?;
    let version = story.roles.versions().get(CLUSTER_VERSION).await?;
    assert_eq!(writers(&version), before);
    assert!(
        version
            .condition("Progressing")
            .is_some_and(Condition::is_false)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_operator_continues_although_the_request_is_cleared() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let played = replace_and_clear(&mut story).await;
    played.with_context(|| story.log())
}

async fn replace_and_clear(story: &mut Story) -> anyhow::Result<()> {
    let (single, multi) = (
        Release::single()?.with_operator(),
        Release::multi()?.with_operator(),
    );
    story.roles.install(&[&single, &multi]).await?;
    story.run_operator(&single)?;
    story.run_medley().await?;
    story.roles.operators_come_up(&single).await?;
    story.roles.completed(&single).await?;
    story.verdict("Complete", "True Arrived").await?;

    let to = format!("--to-image={}", multi.image);
    let request = ["adm", "upgrade", "--allow-explicit-upgrade", "--force", &to];
    story.oc(&request)?.ok()?;
    story.download(&multi).await?;
    story.roles.own_deployment(&multi).await?;
    story.replace_operator(&multi).await?;
    let started = story
        .roles
        .version("has begun", |version| {
            let newest = version.history().first();
            newest.is_some_and(|it| it.image == multi.image)
        })
        .await?;

    // The release of the operator that runs is the one to reach.
    story.oc(&["adm", "upgrade", "--clear"])?.ok()?;
    story.roles.deployed(MACHINE_CONFIG, &multi).await?;
    for operator in [DNS, MACHINE_CONFIG] {
        story.roles.run_pods(operator).await?;
        story.roles.report(operator).await?;
    }
    let version = story.roles.completed(&multi).await?;
    story.verdict("Complete", "True Arrived").await?;
    let states: Vec<&str> = version
        .history()
        .iter()
        .map(|it| it.state.as_str())
        .collect();
    assert_eq!(states, ["Completed", "Completed"]);
    assert_eq!(
        version.history()[0].started_time,
        started.history()[0].started_time
    );
    let ours = story.beside.medley(&["release", "status"])?.ok()?;
    has(&ours, &["The cluster is not updating."]);
    Ok(())
}

/// Without an operator Medley writes the status: the genuine CRD has required fields that nothing else would reveal.
#[tokio::test(flavor = "multi_thread")]
async fn status_that_medley_owns_is_valid() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let played = own(&mut story).await;
    played.with_context(|| story.log())
}

async fn own(story: &mut Story) -> anyhow::Result<()> {
    let single = Release::single()?;
    story.roles.install(&[&single]).await?;
    story.run_medley().await?;
    story
        .verdict("KeepsClusterVersion", "False Observing")
        .await?;
    story.configure_ownership().await?;
    story.verdict("KeepsClusterVersion", "True Own").await?;
    let version = story
        .roles
        .version("has a history", |version| !version.history().is_empty())
        .await?;
    let status = version.status.clone().unwrap_or_default();
    assert_eq!(status.desired.image, single.image);
    assert_eq!(version.history()[0].state, "Partial");
    let loaded = Payload::read(&single.image, &single.files)?;
    assert_eq!(status.rest["versionHash"], loaded.version_hash());
    assert_eq!(
        writers(&version),
        [
            format!("{INSTALLER} spec"),
            "medley-release status".to_owned()
        ]
    );
    Ok(())
}
