//! The parts of large objects that a report needs.

use std::collections::BTreeMap;

use api::openshift::annotations;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace and name of the machine-config-operator.
pub const MACHINE_CONFIG_OPERATOR: (&str, &str) = (
    "openshift-machine-config-operator",
    "machine-config-operator",
);

/// The release version that rendered MachineConfigs are for, by name.
pub fn rendered_for<'a>(
    configurations: impl IntoIterator<Item = &'a ObjectMeta>,
) -> BTreeMap<String, String> {
    let named = configurations.into_iter().filter_map(|it| {
        let annotations = it.annotations.as_ref()?;
        // The Machine Config Operator annotates what it renders; the objects themselves are large, so only metadata is
        // read.
        let version = annotations.get(annotations::RELEASE_VERSION)?.clone();
        Some((it.name.clone()?, version))
    });
    named.collect()
}

/// The image that the machine-config-operator is configured to run.
pub fn machine_config_image(deployment: &Deployment) -> Option<String> {
    let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let (_, name) = MACHINE_CONFIG_OPERATOR;
    let own = spec.containers.iter().find(|it| it.name == name);
    own?.image.clone()
}
