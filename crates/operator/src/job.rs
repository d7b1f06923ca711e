//! How each thing that Medley does is started.

use chassis::{Error, Manager};
use manifests::Job;

use crate::{Options, cpu, governance, images, placement, release, runtime_classes};

/// Starts the controllers of a job.
pub(crate) async fn start(job: Job, manager: &Manager, options: &Options) -> Result<(), Error> {
    match job {
        Job::Governance => governance::start(manager, governance::Options::new(options)?).await,
        Job::ImagesHco => images::hco::start(manager).await,
        Job::ImagesSsp => images::ssp::start(manager).await,
        Job::ImagesCdi => {
            images::cdi::start(manager, &options.imports).await;
            Ok(())
        }
        Job::ImagesVm => images::vm::start(manager).await,
        Job::CpuModels => cpu::start(manager).await,
        Job::Release => release::start(manager).await,
        Job::Placement => placement::start(manager, &options.registries).await,
        Job::RuntimeClasses => runtime_classes::start(manager).await,
    }
}
