//! The Deployments and Leases of genuine operators, read once with the permissions of a user.

use std::sync::Arc;

use api::operators::{GenuineOperator, RunningOperator, running};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::ListParams;
use runtime::Error;

use crate::list::list_in;

/// The Deployments and Leases of some operators.
#[derive(Debug, Clone, Default)]
pub struct OperatorObjects {
    /// Deployments with the names of operators, in any namespace.
    pub deployments: Vec<Arc<Deployment>>,
    /// Leases with the names of operators, in any namespace.
    pub leases: Vec<Arc<Lease>>,
}

impl OperatorObjects {
    /// Reads those of these operators, by name: lists of all would be large, and are more than a user may need to read.
    pub async fn read(
        client: &Client,
        operators: impl IntoIterator<Item = GenuineOperator>,
    ) -> Result<Self, Error> {
        let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
        let mut found = Self::default();
        for operator in operators {
            let deployments = list_in(client, None, &named(operator.deployment)).await?;
            let deployments = deployments.into_iter().flatten().map(Arc::new);
            found.deployments.extend(deployments);
            if let Some(lease) = operator.lease {
                let leases = list_in(client, None, &named(lease)).await?;
                found
                    .leases
                    .extend(leases.into_iter().flatten().map(Arc::new));
            }
        }
        Ok(found)
    }

    /// An operator, if it runs.
    pub fn running(&self, operator: &GenuineOperator, now: Timestamp) -> Option<RunningOperator> {
        running(operator, &self.deployments, &self.leases, now)
    }

    /// The Deployment of an operator, whether it wants replicas or not.
    pub fn deployment(&self, operator: &GenuineOperator) -> Option<&Deployment> {
        operator.deployment(&self.deployments)
    }
}
