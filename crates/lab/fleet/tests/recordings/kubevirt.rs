//! virt-controller, without nodes: the story plays kubelets, the scheduler and virt-handlers.

#[path = "../../recordings/kubevirt/story.rs"]
mod story;

use fleet::operators::{self, Installed};
use runtime::Manager;
use testkit::TestCluster;
use testkit::recording::{LeftOut, recording};

use crate::roles;

/// Fields that virt-api's webhooks set when virt-controller creates an instance, so that they have no field manager.
const LEFT_OUT: [LeftOut; 3] = [
    of_instances("metadata.finalizers[1]"),
    of_instances("spec.domain.cpu.model"),
    // The first one, `Pending`.
    of_instances("/status/phase"),
];

const fn of_instances(field: &'static str) -> LeftOut {
    LeftOut {
        object: "VirtualMachineInstance *",
        field,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn virt_controller_writes_what_is_recorded() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    let installed = Installed {
        virtual_machines: true,
        ..Installed::default()
    };
    operators::install(&client, &installed).await?;
    roles::create_namespace(&client, story::NAMESPACE).await?;
    let _kubelets = roles::Kubelets::start(&client, story::NAMESPACE);
    let story = story::Story::prepare(client.clone(), &client).await?;
    let manager = Manager::new(client.clone());
    operators::start_virt_controller(&manager, client, 1.0).await;
    let trace = story.play().await?.finish();
    trace.assert_imitates(&recording(story::RECORDING), &LEFT_OUT)
}
