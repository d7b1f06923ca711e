//! The simulated cluster-version operator writes what the genuine one was seen to write (`tests/beside_release.rs`).

#[path = "beside/release/payload.rs"]
#[allow(dead_code, reason = "the genuine suite uses all of it")]
mod payload;
#[path = "beside/release/play.rs"]
#[allow(dead_code, reason = "the genuine suite uses all of it")]
mod play;
#[path = "beside/release/roles.rs"]
#[allow(dead_code, reason = "the genuine suite uses all of it")]
mod roles;

use std::process::Command;

use api::openshift::CLUSTER_VERSION;
use fleet::operators::{self, Installed};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PostParams};
use kube::{Api, ResourceExt as _};
use runtime::{Manager, wait_until_served};
use serde_json::json;
use testkit::recording::{LeftOut, Recorder, recording};
use testkit::{Process, ServedCluster, TestCluster, by, free_port};

use payload::Release;
use play::REQUESTER;
use roles::{Roles, condition};

/// The program under test.
const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const NAMESPACE: &str = "medley-system";

/// A field of the status that Medley writes differently.
const fn left_out(field: &'static str) -> LeftOut {
    LeftOut {
        object: "ClusterVersion version",
        field,
    }
}

/// What differs, and why.
const LEFT_OUT: [LeftOut; 7] = [
    // Releases of the lab have no capabilities, and the known ones depend on the version of the operator.
    left_out("status.capabilities"),
    // Later versions of the operator know the architecture of a release.
    left_out("status.desired.architecture"),
    left_out("status.conditions[type=\"ReleaseAccepted\"].message"),
    // Available updates are the releases in the cluster, and there is no channel.
    left_out("status.conditions[type=\"RetrievedUpdates\"]"),
    // Later versions of the operator report at once which operators are not available yet, the recorded one after
    // minutes.
    left_out("status.conditions[type=\"Failing\"].message"),
    left_out("status.conditions[type=\"Failing\"].reason"),
    left_out("status.conditions[type=\"Progressing\"].reason"),
];

/// The status of the ClusterVersion is that of Medley, which owns it in the lab.
#[tokio::test(flavor = "multi_thread")]
async fn stand_in_writes_what_the_operator_writes() -> anyhow::Result<()> {
    let cluster = TestCluster::controlled().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    if !cluster.has_controllers() {
        let options = controlplane::Options {
            root_ca: String::new(),
        };
        controlplane::start(&manager, &options).await;
    }
    let installed = Installed {
        machine_config: true,
        release: true,
        ..Installed::default()
    };
    // The kinds alone: the releases are those of the story.
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in operators::definitions(&installed)? {
        definitions
            .create(&PostParams::default(), &definition)
            .await?;
        wait_until_served(&client, &definition.name_any()).await?;
    }
    let (single, multi) = (Release::single()?, Release::multi()?);
    let recorder = Recorder::start(client.clone(), play::subject());
    operators::start(&manager, client.clone(), 1.0).await;
    let served = cluster.serve().await?;
    let _medley = run_medley(&cluster, &served).await?;

    let roles = Roles::new(client);
    roles.install(&[&single, &multi]).await?;
    play::install(&roles, &recorder, &single).await?;
    let request = json!({ "spec": { "desiredUpdate": { "image": multi.image, "force": true } } });
    let versions = roles.versions();
    versions
        .patch(CLUSTER_VERSION, &by(REQUESTER), &Patch::Merge(request))
        .await?;
    let version = play::wait_for_last_operator(&roles, &multi).await?;
    // Later versions of the operator name what they wait for at once, the recorded one after minutes.
    assert_eq!(
        condition(&version, "Progressing"),
        "True ClusterOperatorUpdating: Working towards 4.18.0: 8 of 9 done (88% complete), waiting on machine-config"
    );
    play::report_last_operator(&roles, &recorder, &multi).await?;
    play::comparable(recorder.finish()).assert_imitates(&recording(play::RECORDING), &LEFT_OUT)
}

/// Starts Medley as the owner of the ClusterVersion, as `medley up` does.
async fn run_medley(cluster: &TestCluster, served: &ServedCluster) -> anyhow::Result<Process> {
    let client = cluster.client();
    controllers::install(&client, NAMESPACE).await?;
    controllers::install_release_owner(&client, NAMESPACE).await?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(MEDLEY);
    command
        .args([
            "run",
            "-v",
            "--leader-elect=false",
            "--controllers",
            "release",
        ])
        .args(["--health-address", &address])
        .env("KUBECONFIG", &served.kubeconfig);
    Process::spawn(&mut command, served.folder())
}
