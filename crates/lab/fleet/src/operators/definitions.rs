//! CRDs of the third-party operators, with their validation rules.
//!
//! They match the real ones in the fields used here; fields without a reader are left out.

mod cdi;
mod descheduler;
mod hyperconverged;
mod kubevirt;
mod machine_config;
mod node_health;
mod release;
mod schema;
mod templates;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use runtime::Error;
use serde_json::Value;

use super::Installed;

pub use descheduler::DeschedulerRelease;
pub use hyperconverged::HyperConvergedVersion;

/// The CRDs of the installed operators.
pub fn definitions(installed: &Installed) -> Result<Vec<CustomResourceDefinition>, Error> {
    let mut all: Vec<Value> = Vec::new();
    if let Some(vintage) = installed.descheduler {
        all.push(descheduler::definition(vintage));
    }
    if installed.machine_config {
        all.extend(machine_config::definitions());
    }
    if let Some(version) = installed.hyperconverged {
        all.push(hyperconverged::definition(version));
    }
    if installed.node_health {
        all.extend(node_health::definitions());
    }
    if installed.cdi {
        all.extend(cdi::definitions());
    }
    if installed.ssp {
        all.push(templates::ssp());
    }
    if installed.templates {
        all.push(templates::template());
    }
    if installed.virtual_machines {
        all.extend(kubevirt::definitions());
    }
    if installed.release {
        all.extend(release::definitions());
    }
    all.into_iter().map(typed).collect()
}

fn typed(definition: Value) -> Result<CustomResourceDefinition, Error> {
    let name = definition["metadata"]["name"].to_string();
    serde_json::from_value(definition)
        .map_err(|error| Error::Invalid(format!("CRD {name}: {error}")))
}
