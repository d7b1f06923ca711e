//! Admission of an SSP.
//!
//! Unlike upstream, an unsupported architecture is not an error: one such node would otherwise
//! block all updates of the SSP. It causes a warning, and is ignored.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::ssp::SSP;
use machinery::names::is_dns1123_label;

use crate::cdi;
use crate::list;

/// The outcome of an admission review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SspAdmission {
    /// It is admitted, with these warnings.
    Accepted(Vec<String>),
    /// It is denied.
    Denied(Denial),
}

/// Why it is denied. The messages are upstream's, except for the namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Another SSP exists.
    #[error("creation failed, an SSP CR already exists in namespace {0}; only one is accepted")]
    Another(String),
    /// A template has no name.
    #[error("missing name in DataImportCronTemplate")]
    NoName,
    /// `spec.cluster` is missing.
    #[error(".spec.cluster needs to be non-nil, if multi-architecture is enabled")]
    NoCluster,
    /// `spec.cluster` has no architecture.
    #[error("at least one architecture needs to be defined, if multi-architecture is enabled")]
    NoArchitecture,
    /// The namespace is not a DNS label.
    #[error(".spec.commonTemplates.namespace: invalid value {value:?}: {complaint}")]
    Namespace {
        /// Its value.
        value: String,
        /// The validation error.
        complaint: String,
    },
}

/// Reviews an SSP that is created or updated. `others` are the namespaces of other SSPs.
pub fn review(ssp: &SSP, others: &BTreeSet<String>, creates: bool) -> SspAdmission {
    match check(ssp, others, creates) {
        Ok(warnings) => SspAdmission::Accepted(warnings),
        Err(denial) => SspAdmission::Denied(denial),
    }
}

fn check(ssp: &SSP, others: &BTreeSet<String>, creates: bool) -> Result<Vec<String>, Denial> {
    if creates && let Some(other) = others.first() {
        return Err(Denial::Another(other.clone()));
    }
    let common = &ssp.spec.common_templates;
    if let Some(value) = &common.namespace
        && let Some(complaint) = is_dns1123_label(value).into_iter().next()
    {
        return Err(Denial::Namespace {
            value: value.clone(),
            complaint,
        });
    }
    let mut warnings = Vec::new();
    for template in &common.data_import_cron_templates {
        if template.name().is_empty() {
            return Err(Denial::NoName);
        }
        if let Some(spec) = &template.spec {
            // Warnings only: CDI rejects the DataImportCron later, and one bad template must not
            // block all others.
            let wrong = cdi::admission::spec_errors(spec).into_iter();
            warnings.extend(
                wrong.map(|error| format!("DataImportCronTemplate {}: {error}", template.name())),
            );
        }
    }
    let cluster = ssp.spec.cluster.as_ref();
    if ssp.spec.enable_multiple_architectures == Some(true) {
        let Some(cluster) = cluster else {
            return Err(Denial::NoCluster);
        };
        if cluster.workload_architectures.is_empty()
            && cluster.control_plane_architectures.is_empty()
        {
            return Err(Denial::NoArchitecture);
        }
    }
    for (what, names) in cluster.iter().flat_map(|cluster| {
        [
            ("workload", &cluster.workload_architectures),
            ("control plane", &cluster.control_plane_architectures),
        ]
    }) {
        for name in names.iter().filter(|name| !list::is_known(name)) {
            warnings.push(format!(
                "unknown {what} architecture: {name:?}; it is ignored; amd64, arm64 and s390x are supported"
            ));
        }
    }
    Ok(warnings)
}
