//! Starting the controllers of each job.

use ::placement::LeaseTiming;
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
            let registries = options.registries.client();
            images::cdi::start(manager, &options.imports, &options.addresses, registries).await;
            Ok(())
        }
        Job::ImagesVm => images::vm::start(manager).await,
        Job::CpuModels => cpu::start(manager).await,
        Job::Release => {
            let client = options.registries.client().clone();
            release::start(manager, client, options.payload_folders.clone()).await
        }
        Job::Placement => {
            let (registries, namespace) = (&options.registries, &options.namespace);
            placement::start(manager, registries, namespace, LeaseTiming::default()).await
        }
        Job::RuntimeClasses => runtime_classes::start(manager).await,
    }
}

/// Registers the metrics of a job without starting it, to list them.
pub(crate) fn declare(job: Job, manager: &Manager) {
    match job {
        Job::Governance => drop((
            governance::Report::new(manager),
            governance::DeliveryMetrics::new(manager),
            governance::ProfileReport::new(manager),
        )),
        Job::ImagesHco => drop(images::hco::Report::new(manager)),
        Job::ImagesSsp => drop(images::ssp::Report::new(manager)),
        Job::ImagesCdi => drop(images::cdi::Report::new(manager)),
        Job::CpuModels => drop(cpu::Report::new(manager)),
        Job::Release => drop(release::Report::new(manager)),
        Job::Placement => drop(placement::Report::new(manager)),
        Job::RuntimeClasses => drop(runtime_classes::Report::new(manager)),
        // No metrics of its own.
        Job::ImagesVm => {}
    }
}
