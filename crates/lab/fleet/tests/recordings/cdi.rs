//! CDI's controller.

#[path = "../../recordings/cdi/story.rs"]
mod story;

use fleet::operators::{self, Installed};
use fleet::storage;
use runtime::Manager;
use testkit::TestCluster;
use testkit::recording::{LeftOut, recording};

/// The stand-in plays CDI's operator, too, which is not recorded.
const LEFT_OUT: [LeftOut; 1] = [LeftOut {
    object: "CDI cdi",
    field: "",
}];

#[tokio::test(flavor = "multi_thread")]
async fn cdi_controller_writes_what_is_recorded() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let options = storage::Options {
        client: client.clone(),
        speed: 1.0,
        classes: false,
    };
    storage::start(&manager, options).await?;
    let installed = Installed {
        cdi: true,
        ..Installed::default()
    };
    operators::install(&client, &installed).await?;
    let story = story::Story::prepare(client.clone(), storage::DRIVER).await?;
    operators::start(&manager, client, 1.0).await;
    let trace = story.play().await?.finish();
    trace.assert_imitates(&recording(story::RECORDING), &LEFT_OUT)
}
