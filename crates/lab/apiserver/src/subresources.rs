//! Subresources, and the reviews that are never stored.

use crate::resource::Resource;

/// A subresource in discovery.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    /// Path segment.
    pub name: &'static str,
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Verbs.
    pub verbs: Vec<&'static str>,
}

/// A virtual kind that is never stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Review {
    /// API group.
    pub group: &'static str,
    /// Plural.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Whether it is namespaced.
    pub namespaced: bool,
}

/// All reviews; their version is `v1`.
pub(crate) const REVIEWS: [Review; 7] = [
    Review {
        group: "authentication.k8s.io",
        plural: "tokenreviews",
        kind: "TokenReview",
        namespaced: false,
    },
    Review {
        group: "authentication.k8s.io",
        plural: "selfsubjectreviews",
        kind: "SelfSubjectReview",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        plural: "subjectaccessreviews",
        kind: "SubjectAccessReview",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        plural: "selfsubjectaccessreviews",
        kind: "SelfSubjectAccessReview",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        plural: "selfsubjectrulesreviews",
        kind: "SelfSubjectRulesReview",
        namespaced: false,
    },
    Review {
        group: "authorization.k8s.io",
        plural: "localsubjectaccessreviews",
        kind: "LocalSubjectAccessReview",
        namespaced: true,
    },
    Review {
        group: "",
        plural: "bindings",
        kind: "Binding",
        namespaced: true,
    },
];

/// The reviews of a group version.
pub(crate) fn reviews(group: &str, version: &str) -> Vec<Review> {
    if version != "v1" {
        return Vec::new();
    }
    REVIEWS
        .iter()
        .copied()
        .filter(|review| review.group == group)
        .collect()
}

/// A review by its plural.
pub(crate) fn review(group: &str, version: &str, plural: &str) -> Option<Review> {
    reviews(group, version)
        .into_iter()
        .find(|review| review.plural == plural)
}

/// The subresources of a resource, by name.
pub(crate) fn of(resource: &Resource) -> Vec<Subresource> {
    let gvk = &resource.info.gvk;
    let own = |name, verbs: &[&'static str]| Subresource {
        name,
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        verbs: verbs.to_vec(),
    };
    let other =
        |name, group: &str, version: &str, kind: &str, verbs: &[&'static str]| Subresource {
            name,
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: verbs.to_vec(),
        };
    let mut all = Vec::new();
    if resource.custom.is_none() {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Pod") => {
                all.push(other("binding", "", "v1", "Binding", &["create"]));
                all.push(own("ephemeralcontainers", &["get", "patch", "update"]));
                all.push(other("eviction", "policy", "v1", "Eviction", &["create"]));
                all.push(own("resize", &["get", "patch", "update"]));
            }
            ("", "Namespace") => all.push(own("finalize", &["update"])),
            ("", "ServiceAccount") => {
                all.push(other(
                    "token",
                    "authentication.k8s.io",
                    "v1",
                    "TokenRequest",
                    &["create"],
                ));
            }
            ("certificates.k8s.io", "CertificateSigningRequest") => {
                all.push(own("approval", &["get", "patch", "update"]));
            }
            _ => {}
        }
    }
    if resource.info.scale.is_some() {
        all.push(other(
            "scale",
            "autoscaling",
            "v1",
            "Scale",
            &["get", "patch", "update"],
        ));
    }
    if resource.info.has_status {
        all.push(own("status", &["get", "patch", "update"]));
    }
    if resource.custom.is_some() {
        // The classic document lists status before scale for custom resources.
        all.reverse();
    }
    all
}
