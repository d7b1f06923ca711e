//! Golden images beside the genuine containerized-data-importer: either takes over from the other, and no disk is
//! imported twice.

#[path = "beside/cdi/controller.rs"]
mod controller;
#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/cdi/recording.rs"]
mod recording;
#[path = "../crates/lab/fleet/recordings/cdi/story.rs"]
mod storage;
#[path = "beside/cdi/story.rs"]
mod story;

use serde_json::json;
use testkit::recording::recording as recorded;
use testkit::{peer_version, until};

use fixture::WAIT_TIMEOUT;
use recording::Recording;
use story::{CDI_DONE, MEDLEY_DONE, NAMESPACE, Story};

/// What CDI writes on a finished PVC and its DataVolume.
const RECORDING: &str = include_str!("beside/cdi/finished_import.json");

/// A provisioner that CDI knows, and that is like the simulated driver of the lab.
const KNOWN: &str = "openshift-storage.rbd.csi.ceph.com";

#[tokio::test(flavor = "multi_thread")]
async fn profiles_and_configuration_are_as_recorded() -> anyhow::Result<()> {
    let mut stage = Story::start().await?;
    for (kind, namespaced) in [
        ("VolumeSnapshot", true),
        ("VolumeSnapshotClass", false),
        ("VolumeSnapshotContent", false),
    ] {
        let version = "snapshot.storage.k8s.io/v1";
        stage.beside.define(version, kind, namespaced).await?;
    }
    let story = storage::Story::prepare(stage.beside.cluster.client(), KNOWN).await?;
    stage.cdi_runs().await?;
    let trace = story.play().await?.finish();
    let path = recorded(storage::RECORDING);
    trace.assert_recorded(&path, &peer_version("cdi-controller")?)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_both_imports_while_both_run() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.cdi_runs().await?;
    story.medley_joins().await?;
    let first = story.imported("first", CDI_DONE).await?;
    assert_eq!(story.importers(&first).await?, 1);
    for object in [
        story.volumes().get("first").await?,
        story.claims().get("first").await?,
    ] {
        let managers = object.metadata.managed_fields.unwrap_or_default();
        let mut managers = managers.iter().filter_map(|it| it.manager.as_deref());
        assert_eq!(managers.find(|it| it.starts_with("medley")), None);
    }

    // CDI does not release its Lease: Medley waits until it has expired.
    story.crash_cdi();
    let second = story.imported("second", MEDLEY_DONE).await?;
    assert_eq!(story.importers(&second).await?, 1);

    story.cdi_joins().await?;
    let third = story.imported("third", CDI_DONE).await?;
    assert_eq!(story.importers(&third).await?, 1);
    let claim = story.claims().get("third").await?;
    let managers = claim.metadata.managed_fields.unwrap_or_default();
    let mut managers = managers.iter().filter_map(|it| it.manager.as_deref());
    assert_eq!(managers.find(|it| it.starts_with("medley")), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_import_is_taken_over() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.cdi_runs().await?;
    let created = story.imported("disk", CDI_DONE).await?;
    let recording = Recording::of(&story, &created).await?;
    assert_eq!(
        recording,
        serde_json::from_str(RECORDING)?,
        "CDI writes something else; record this if it is a new version: {}",
        serde_json::to_string_pretty(&recording)?
    );
    story.stop_cdi().await?;
    let volume = story.volumes().get("disk").await?;
    let claim = story.claims().get("disk").await?;

    story.medley_runs().await?;
    // Medley has seen the first DataVolume when it has imported another one.
    let other = story.imported("other", MEDLEY_DONE).await?;
    assert_eq!(story.importers(&created).await?, 1);
    assert_eq!(story.volumes().get("disk").await?, volume);
    assert_eq!(story.claims().get("disk").await?, claim);

    let ours = Recording::of(&story, &other).await?;
    assert_eq!(recording.missing_from(&ours), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_import_is_handed_back() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.medley_runs().await?;
    let created = story.imported("disk", MEDLEY_DONE).await?;
    story.stop_medley();
    let claim = story.claims().get("disk").await?;

    story.cdi_runs().await?;
    story.imported("other", CDI_DONE).await?;
    assert_eq!(story.importers(&created).await?, 1);
    let volume = story.phase("disk", "Succeeded").await?;
    assert_eq!(volume.data["status"]["progress"], "100.0%");
    let phases = story.phases(&created).await?;
    assert_eq!(phases.last().unwrap(), "Succeeded");
    let finished = phases.iter().filter(|it| *it == "Succeeded").count();
    assert_eq!(finished, 1, "the phase changes no more: {phases:?}");
    assert_eq!(story.claims().get("disk").await?, claim);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_importer_of_cdi_is_taken_over() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.cdi_runs().await?;
    let created = story.import("disk").await?;
    story.bind("disk").await?;
    story.importer_runs("disk").await?;

    story.medley_runs().await?;
    story.imported("other", MEDLEY_DONE).await?;
    story.phase("disk", "ImportInProgress").await?;
    story.importer_succeeds("disk", CDI_DONE).await?;
    assert_eq!(story.importers(&created).await?, 1);

    // CDI comes back to a disk that it began and Medley finished.
    story.cdi_runs().await?;
    story.imported("third", CDI_DONE).await?;
    assert_eq!(story.importers(&created).await?, 1);
    story.phase("disk", "Succeeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_importer_of_medley_is_handed_back() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.medley_runs().await?;
    let created = story.import("disk").await?;
    story.bind("disk").await?;
    story.importer_runs("disk").await?;
    story.stop_medley();

    story.cdi_runs().await?;
    story.importer_succeeds("disk", MEDLEY_DONE).await?;
    assert_eq!(story.importers(&created).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_claim_without_reported_phase_is_not_imported_again() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.cdi_runs().await?;
    let created = story.imported("disk", CDI_DONE).await?;
    story.stop_cdi().await?;
    // CDI marks the PVC before it reports the phase; it may end in between.
    let phase = json!({ "status": { "phase": "ImportInProgress" } });
    let patch = kube::api::Patch::Merge(phase);
    story
        .volumes()
        .patch_status("disk", &testkit::by("cdi-controller"), &patch)
        .await?;

    story.medley_runs().await?;
    story.phase("disk", "Succeeded").await?;
    assert_eq!(story.importers(&created).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_that_cdi_copies_is_not_called_done() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.cdi_runs().await?;
    story.imported("disk", CDI_DONE).await?;
    let source = json!({ "pvc": { "namespace": NAMESPACE, "name": "disk" } });
    story.volume("clone", source).await?;
    story.bind("clone").await?;
    until(
        &story.volumes(),
        "clone",
        "is scheduled",
        WAIT_TIMEOUT,
        |volume| volume.data["status"]["phase"] == "CloneScheduled",
    )
    .await?;
    let claim = story.claims().get("clone").await?;
    assert_eq!(claim.data["status"]["phase"], "Bound");

    story.medley_runs().await?;
    story.imported("other", MEDLEY_DONE).await?;
    let volume = story.volumes().get("clone").await?;
    assert_eq!(volume.data["status"]["phase"], "CloneScheduled");
    Ok(())
}
