//! Starting the controllers of each job.

use manifests::Job;
use runtime::{Error, Manager};

use crate::{Options, cpu, governance, images, placement, release, runtime_classes};

/// Starts the controllers of a job.
pub(crate) async fn start(job: Job, manager: &Manager, options: &Options) -> Result<(), Error> {
    match job {
        Job::Governance => governance::start(manager, governance::Options::new(options)?).await,
        Job::ImagesHco => images::hco::start(manager).await,
        Job::ImagesSsp => images::ssp::start(manager).await,
        Job::ImagesCdi => {
            images::cdi::start(manager, &options.imports, &options.addresses).await;
            Ok(())
        }
        Job::ImagesVm => images::vm::start(manager).await,
        Job::CpuModels => cpu::start(manager).await,
        Job::Release => {
            let client = options.registries.client().clone();
            release::start(manager, client, options.payload_folders.clone()).await
        }
        Job::Placement => placement::start(manager, &options.registries).await,
        Job::RuntimeClasses => runtime_classes::start(manager).await,
    }
}

/// Registers the metrics of a job.
pub(crate) fn declare(job: Job, manager: &Manager) {
    match job {
        Job::Governance => governance::declare(manager),
        Job::ImagesHco => images::hco::declare(manager),
        Job::ImagesSsp => images::ssp::declare(manager),
        Job::ImagesCdi => images::cdi::declare(manager),
        Job::CpuModels => cpu::declare(manager),
        Job::Release => release::declare(manager),
        Job::Placement => placement::declare(manager),
        Job::RuntimeClasses => runtime_classes::declare(manager),
        // No metrics of its own.
        Job::ImagesVm => {}
    }
}
