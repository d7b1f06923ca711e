//! Descriptions of models and fields, from the schemas that `k8s-openapi` carries.

use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
    coordination, core, discovery, events, networking, node, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value};

/// Schemas by model name.
pub(super) struct Descriptions(Map<String, Value>);

impl Descriptions {
    /// Description of a model.
    pub(super) fn of_model(&self, model: &str) -> Option<String> {
        self.0
            .get(model)?
            .get("description")?
            .as_str()
            .map(str::to_owned)
    }

    /// Description of a field.
    pub(super) fn of_field(&self, model: &str, field: &str) -> Option<String> {
        let schema = match self.0.get(model) {
            Some(schema) => schema,
            // Lists are generic there; their common fields are those of the item's kind.
            None => self.0.get(model.strip_suffix("List")?)?,
        };
        let property = schema.get("properties")?.get(field)?;
        property.get("description")?.as_str().map(str::to_owned)
    }

    /// The schemas themselves.
    #[cfg(test)]
    pub(super) fn schemas(&self) -> &Map<String, Value> {
        &self.0
    }
}

macro_rules! kinds {
    ($($group:literal $version:literal: $($kind:ty),+;)+) => {
        fn add(generator: &mut SchemaGenerator, group: &str, version: &str) {
            match (group, version) {
                $(($group, $version) => {
                    $(let _ = generator.subschema_for::<$kind>();)+
                })+
                _ => {}
            }
        }

        /// Groups and versions with descriptions.
        #[cfg(test)]
        pub(super) const GROUPS: &[(&str, &str)] = &[$(($group, $version)),+];
    };
}

kinds! {
    "" "v1": core::v1::Binding, core::v1::ConfigMap, core::v1::Endpoints, core::v1::Event,
        core::v1::LimitRange, core::v1::Namespace, core::v1::Node, core::v1::PersistentVolume,
        core::v1::PersistentVolumeClaim, core::v1::Pod, core::v1::PodTemplate,
        core::v1::ReplicationController, core::v1::ResourceQuota, core::v1::Secret,
        core::v1::Service, core::v1::ServiceAccount, authentication::v1::TokenRequest,
        autoscaling::v1::Scale, policy::v1::Eviction;
    "admissionregistration.k8s.io" "v1": admissionregistration::v1::MutatingAdmissionPolicy,
        admissionregistration::v1::MutatingAdmissionPolicyBinding,
        admissionregistration::v1::MutatingWebhookConfiguration,
        admissionregistration::v1::ValidatingAdmissionPolicy,
        admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        admissionregistration::v1::ValidatingWebhookConfiguration;
    "apiextensions.k8s.io" "v1": apiextensions::v1::CustomResourceDefinition;
    "apiregistration.k8s.io" "v1": apiregistration::v1::APIService;
    "apps" "v1": apps::v1::ControllerRevision, apps::v1::DaemonSet, apps::v1::Deployment,
        apps::v1::ReplicaSet, apps::v1::StatefulSet, autoscaling::v1::Scale;
    "authentication.k8s.io" "v1": authentication::v1::SelfSubjectReview,
        authentication::v1::TokenReview;
    "authorization.k8s.io" "v1": authorization::v1::LocalSubjectAccessReview,
        authorization::v1::SelfSubjectAccessReview, authorization::v1::SelfSubjectRulesReview,
        authorization::v1::SubjectAccessReview;
    "autoscaling" "v1": autoscaling::v1::HorizontalPodAutoscaler;
    "autoscaling" "v2": autoscaling::v2::HorizontalPodAutoscaler;
    "batch" "v1": batch::v1::CronJob, batch::v1::Job;
    "certificates.k8s.io" "v1": certificates::v1::CertificateSigningRequest;
    "coordination.k8s.io" "v1": coordination::v1::Lease;
    "discovery.k8s.io" "v1": discovery::v1::EndpointSlice;
    "events.k8s.io" "v1": events::v1::Event;
    "networking.k8s.io" "v1": networking::v1::IPAddress, networking::v1::Ingress,
        networking::v1::IngressClass, networking::v1::NetworkPolicy, networking::v1::ServiceCIDR;
    "node.k8s.io" "v1": node::v1::RuntimeClass;
    "policy" "v1": policy::v1::PodDisruptionBudget;
    "rbac.authorization.k8s.io" "v1": rbac::v1::ClusterRole, rbac::v1::ClusterRoleBinding,
        rbac::v1::Role, rbac::v1::RoleBinding;
    "scheduling.k8s.io" "v1": scheduling::v1::PriorityClass;
    "storage.k8s.io" "v1": storage::v1::CSIDriver, storage::v1::CSINode,
        storage::v1::CSIStorageCapacity, storage::v1::StorageClass,
        storage::v1::VolumeAttachment, storage::v1::VolumeAttributesClass;
}

/// The descriptions of a group's kinds and the types they contain.
pub(super) fn describe(group: &str, version: &str) -> Descriptions {
    let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
    add(&mut generator, group, version);
    let _ = generator.subschema_for::<meta::v1::DeleteOptions>();
    let _ = generator.subschema_for::<meta::v1::Status>();
    Descriptions(generator.take_definitions(false))
}
