//! CRDs of the third-party operators, with their validation rules.
//!
//! They match the real ones in the fields used here; fields without a reader are left out.

mod cdi;
mod descheduler;
mod hyperconverged;
mod kubevirt;
mod machine_config;
mod monitoring;
mod node_health;
mod release;
mod templates;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use runtime::Error;

use super::Installed;
use crate::names::SIMULATED;

pub use descheduler::DeschedulerRelease;
pub use hyperconverged::HyperConvergedVersion;

/// The CRDs of the installed operators.
pub fn definitions(installed: &Installed) -> Result<Vec<CustomResourceDefinition>, Error> {
    let mut all = Vec::new();
    all.extend(installed.descheduler.map(descheduler::definition));
    if installed.machine_config {
        all.extend(machine_config::definitions());
    }
    all.extend(installed.hyperconverged.map(hyperconverged::definition));
    if installed.node_health {
        all.extend(node_health::definitions());
    }
    if installed.cdi {
        all.extend(cdi::definitions());
    }
    all.extend(installed.monitoring.then(monitoring::route));
    all.extend(installed.ssp.then(templates::ssp));
    all.extend(installed.templates.then(templates::template));
    if installed.virtual_machines {
        all.extend(kubevirt::definitions());
    }
    if installed.release {
        all.extend(release::definitions());
    }
    all.into_iter()
        .map(|crd| crd.annotated(SIMULATED, "true").build())
        .collect()
}
