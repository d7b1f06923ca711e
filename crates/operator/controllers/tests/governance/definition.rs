//! Validation and defaulting of the VirtPlatformConfig CRD: the messages of the published CRD, word for word.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PostParams};
use serde_json::{Value, json};
use testkit::{TestCluster, by};

use crate::stage::{DENSITY, LOAD_AWARE, NAMESPACE};

const EXAMPLE: &str = "example-profile";
const SINGLETON: &str = "<nil>: Invalid value: To ensure a singleton pattern, the VirtPlatformConfig name must exactly match the spec.profile.";
const ONLY_LOAD_AWARE: &str = "spec: Invalid value: When profile is 'load-aware-rebalancing', only options.loadAware may be set";
const ONLY_DENSITY: &str = "spec: Invalid value: When profile is 'virt-higher-density', only options.virtHigherDensity may be set";
const NOT_LOAD_AWARE: &str =
    "spec: Invalid value: options.loadAware can only be used with profile 'load-aware-rebalancing'";
const NOT_DENSITY: &str = "spec: Invalid value: options.virtHigherDensity can only be used with profile 'virt-higher-density'";
const NEEDS_SWAP: &str = "spec.options.virtHigherDensity: Invalid value: memoryToRequestRatio > 120 requires enableSwap=true";

fn kind() -> ApiResource {
    ApiResource {
        group: "advisor.kubevirt.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "advisor.kubevirt.io/v1alpha1".to_owned(),
        kind: "VirtPlatformConfig".to_owned(),
        plural: "virtplatformconfigs".to_owned(),
    }
}

fn object(name: &str, spec: &Value) -> anyhow::Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": kind().api_version,
        "kind": kind().kind,
        "metadata": { "name": name },
        "spec": spec,
    }))?)
}

/// The stored object, or all validation errors: fields and messages.
type Outcome = Result<Value, Vec<String>>;

fn outcome(answer: Result<DynamicObject, kube::Error>) -> anyhow::Result<Outcome> {
    match answer {
        Ok(made) => Ok(Ok(made.data)),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let mut wrong: Vec<_> = causes
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                // The API server adds this when it stops early.
                .filter(|cause| !cause.contains("some validation rules were not checked"))
                .collect();
            wrong.sort();
            Ok(Err(wrong))
        }
        Err(other) => Err(other.into()),
    }
}

struct Server {
    _cluster: TestCluster,
    configs: Api<DynamicObject>,
}

impl Server {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        controllers::install(&cluster.client(), NAMESPACE).await?;
        Ok(Self {
            configs: Api::all_with(cluster.client(), &kind()),
            _cluster: cluster,
        })
    }

    /// The result of creating an object, as a dry run.
    async fn attempt(&self, name: &str, spec: &Value) -> anyhow::Result<Outcome> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        outcome(self.configs.create(&dry, &object(name, spec)?).await)
    }

    /// Patches an object.
    async fn merge(&self, name: &str, patch: &Value) -> anyhow::Result<Outcome> {
        let patch = Patch::Merge(patch);
        outcome(self.configs.patch(name, &by("somebody"), &patch).await)
    }

    /// Patches the status of an object.
    async fn merge_status(&self, name: &str, status: &Value) -> anyhow::Result<Outcome> {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = by("somebody");
        outcome(self.configs.patch_status(name, &params, &patch).await)
    }
}

/// Rejected specs and their messages: the profile, its options, and all errors.
fn refusals() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let both = json!({ "loadAware": {}, "virtHigherDensity": {} });
    let load_aware = |member: Value| json!({ "options": { "loadAware": member } });
    let density = |member: Value| json!({ "options": { "virtHigherDensity": member } });
    vec![
        // An empty union selects no option; only a profile without options accepts it.
        (LOAD_AWARE, json!({ "options": {} }), vec![ONLY_LOAD_AWARE]),
        (DENSITY, json!({ "options": {} }), vec![ONLY_DENSITY]),
        (
            LOAD_AWARE,
            density(json!({})),
            vec![ONLY_LOAD_AWARE, NOT_DENSITY],
        ),
        (
            DENSITY,
            load_aware(json!({})),
            vec![ONLY_DENSITY, NOT_LOAD_AWARE],
        ),
        (
            LOAD_AWARE,
            json!({ "options": both }),
            vec![ONLY_LOAD_AWARE, NOT_DENSITY],
        ),
        (
            DENSITY,
            json!({ "options": both }),
            vec![ONLY_DENSITY, NOT_LOAD_AWARE],
        ),
        (
            EXAMPLE,
            json!({ "options": both }),
            vec![NOT_LOAD_AWARE, NOT_DENSITY],
        ),
        // Defaulting sets the ratio before the rule is evaluated.
        (
            DENSITY,
            density(json!({ "enableSwap": false })),
            vec![NEEDS_SWAP],
        ),
        (
            DENSITY,
            density(json!({ "enableSwap": false, "memoryToRequestRatio": 121 })),
            vec![NEEDS_SWAP],
        ),
        (
            LOAD_AWARE,
            json!({ "action": "Later" }),
            vec![
                r#"spec.action: Unsupported value: "Later": supported values: "DryRun", "Apply", "Ignore""#,
            ],
        ),
        (
            LOAD_AWARE,
            json!({ "failurePolicy": "Ignore" }),
            vec![
                r#"spec.failurePolicy: Unsupported value: "Ignore": supported values: "Abort", "Continue""#,
            ],
        ),
        (
            LOAD_AWARE,
            load_aware(json!({ "mode": "Manual", "devDeviationThresholds": "Lowest" })),
            vec![
                r#"spec.options.loadAware.devDeviationThresholds: Unsupported value: "Lowest": supported values: "Low", "Medium", "High", "AsymmetricLow", "AsymmetricMedium", "AsymmetricHigh""#,
                r#"spec.options.loadAware.mode: Unsupported value: "Manual": supported values: "Automatic", "Predictive""#,
            ],
        ),
        (
            LOAD_AWARE,
            load_aware(
                json!({ "deschedulingIntervalSeconds": 59, "evictionLimitTotal": 0, "evictionLimitNode": 0 }),
            ),
            vec![
                "spec.options.loadAware.deschedulingIntervalSeconds: Invalid value: 59: spec.options.loadAware.deschedulingIntervalSeconds in body should be greater than or equal to 60",
                "spec.options.loadAware.evictionLimitNode: Invalid value: 0: spec.options.loadAware.evictionLimitNode in body should be greater than or equal to 1",
                "spec.options.loadAware.evictionLimitTotal: Invalid value: 0: spec.options.loadAware.evictionLimitTotal in body should be greater than or equal to 1",
            ],
        ),
        (
            LOAD_AWARE,
            load_aware(
                json!({ "deschedulingIntervalSeconds": 86401, "evictionLimitTotal": 1001, "evictionLimitNode": 101 }),
            ),
            vec![
                "spec.options.loadAware.deschedulingIntervalSeconds: Invalid value: 86401: spec.options.loadAware.deschedulingIntervalSeconds in body should be less than or equal to 86400",
                "spec.options.loadAware.evictionLimitNode: Invalid value: 101: spec.options.loadAware.evictionLimitNode in body should be less than or equal to 100",
                "spec.options.loadAware.evictionLimitTotal: Invalid value: 1001: spec.options.loadAware.evictionLimitTotal in body should be less than or equal to 1000",
            ],
        ),
        (
            DENSITY,
            density(json!({ "memoryToRequestRatio": 99 })),
            vec![
                "spec.options.virtHigherDensity.memoryToRequestRatio: Invalid value: 99: spec.options.virtHigherDensity.memoryToRequestRatio in body should be greater than or equal to 100",
            ],
        ),
        (
            DENSITY,
            density(json!({ "memoryToRequestRatio": 301 })),
            vec![
                "spec.options.virtHigherDensity.memoryToRequestRatio: Invalid value: 301: spec.options.virtHigherDensity.memoryToRequestRatio in body should be less than or equal to 300",
            ],
        ),
        (
            LOAD_AWARE,
            json!({ "approval": { "planDigest": "sha256:abc", "items": ["a", "a"] } }),
            vec![
                "spec.approval.items[1]: Duplicate value: \"a\"",
                "spec.approval.planDigest: Invalid value: \"sha256:abc\": spec.approval.planDigest in body should match '^sha256:[0-9a-f]{64}$'",
            ],
        ),
        (
            LOAD_AWARE,
            json!({ "rollbackTo": 0 }),
            vec![
                "spec.rollbackTo: Invalid value: 0: spec.rollbackTo in body should be greater than or equal to 1",
            ],
        ),
    ]
}

#[tokio::test]
async fn invalid_specs_are_rejected_with_published_messages() -> anyhow::Result<()> {
    let server = Server::start().await?;
    for (profile, mut spec, mut wrong) in refusals() {
        spec["profile"] = json!(profile);
        wrong.sort_unstable();
        let actual = server.attempt(profile, &spec).await?;
        let wrong = wrong.into_iter().map(str::to_owned).collect();
        assert_eq!(actual, Err(wrong), "{spec}");
    }
    let other = json!({ "profile": DENSITY });
    let actual = server.attempt(LOAD_AWARE, &other).await?;
    assert_eq!(actual, Err(vec![SINGLETON.to_owned()]));
    let unknown = server
        .attempt("mine", &json!({ "profile": "mine" }))
        .await?;
    assert_eq!(
        unknown,
        Err(vec![
            r#"spec.profile: Invalid value: "mine": supported values: 'load-aware-rebalancing', 'virt-higher-density', 'example-profile', 'node-health-remediation', and the names of PlatformProfiles, which contain a dot"#
                .to_owned()
        ])
    );
    let none = server.attempt(LOAD_AWARE, &json!({})).await?;
    assert_eq!(none, Err(vec!["spec.profile: Required value".to_owned()]));
    Ok(())
}

/// Options are copied into the status and into every entry of the history: 600 KB of them would leave no room for a plan.
#[tokio::test]
async fn options_are_limited_in_size() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let selector = |selector: Value| json!({ "profile": DENSITY, "options": { "virtHigherDensity": { "ksmConfiguration": { "nodeLabelSelector": selector } } } });
    let many: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| (format!("example.com/label-{number}"), json!("x".repeat(40))))
        .collect();
    let terms: Vec<Value> = (0..65)
        .map(|number| json!({ "key": format!("key-{number}"), "operator": "Exists" }))
        .collect();
    let values: Vec<String> = (0..65).map(|number| format!("value-{number}")).collect();
    let path = "spec.options.virtHigherDensity.ksmConfiguration.nodeLabelSelector";
    for (given, field) in [
        (json!({ "matchLabels": many }), "matchLabels"),
        (
            json!({ "matchLabels": { "a": "x".repeat(600_000) } }),
            "matchLabels.a",
        ),
        (
            json!({ "matchLabels": { "a".repeat(600_000): "x" } }),
            "matchLabels",
        ),
        (json!({ "matchExpressions": terms }), "matchExpressions"),
        (
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": values }] }),
            "matchExpressions[0].values",
        ),
        (
            json!({ "matchExpressions": [{ "key": "a".repeat(600_000), "operator": "Exists" }] }),
            "matchExpressions[0].key",
        ),
    ] {
        let outcome = server.attempt(DENSITY, &selector(given)).await?;
        let errors = outcome.expect_err(field);
        let expected = format!("{path}.{field}: ");
        assert!(
            errors.iter().any(|error| error.starts_with(&expected)),
            "{expected} in {errors:?}"
        );
    }
    // What Kubernetes accepts as a label stays valid.
    let longest = json!({ "matchLabels": { format!("{}/{}", "a".repeat(253), "b".repeat(63)): "c".repeat(63) } });
    let outcome = server.attempt(DENSITY, &selector(longest)).await?;
    assert!(outcome.is_ok(), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn omitted_fields_are_defaulted() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let plain =
        json!({ "action": "DryRun", "failurePolicy": "Abort", "bypassOptimisticLock": false });
    for (profile, given, filled) in [
        (LOAD_AWARE, json!({}), json!({})),
        (EXAMPLE, json!({ "options": {} }), json!({ "options": {} })),
        (
            LOAD_AWARE,
            json!({ "options": { "loadAware": {} } }),
            json!({ "options": { "loadAware": {
                "deschedulingIntervalSeconds": 60, "mode": "Automatic", "enablePSIMetrics": true,
                "devDeviationThresholds": "AsymmetricLow",
            } } }),
        ),
        (
            DENSITY,
            json!({ "options": { "virtHigherDensity": { "ksmConfiguration": {} } } }),
            json!({ "options": { "virtHigherDensity": {
                "enableSwap": true, "memoryToRequestRatio": 150, "ksmConfiguration": { "enabled": true },
            } } }),
        ),
        (
            DENSITY,
            json!({ "options": { "virtHigherDensity": { "enableSwap": false, "memoryToRequestRatio": 120 } } }),
            json!({ "options": { "virtHigherDensity": { "enableSwap": false, "memoryToRequestRatio": 120 } } }),
        ),
        (
            LOAD_AWARE,
            json!({ "approvalPolicy": { "requiredApprovals": { "high": 2 } } }),
            json!({ "approvalPolicy": {
                "requiredApprovals": { "low": 0, "medium": 0, "high": 2 }, "authorMayApprove": false,
            } }),
        ),
    ] {
        let with = |parts: [&Value; 2]| {
            let mut spec = json!({ "profile": profile });
            for (key, value) in parts
                .into_iter()
                .filter_map(|part| part.as_object())
                .flatten()
            {
                spec[key] = value.clone();
            }
            spec
        };
        let made = server.attempt(profile, &with([&given, &json!({})])).await?;
        let spec = made.map(|made| made["spec"].clone());
        assert_eq!(spec, Ok(with([&plain, &filled])), "{given}");
    }
    Ok(())
}

#[tokio::test]
async fn profile_is_immutable() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let made = object(EXAMPLE, &json!({ "profile": EXAMPLE }))?;
    server.configs.create(&PostParams::default(), &made).await?;
    let other = json!({ "spec": { "profile": DENSITY } });
    let immutable = r#"spec.profile: Invalid value: "virt-higher-density": Profile is immutable"#;
    assert_eq!(
        server.merge(EXAMPLE, &other).await?,
        Err(vec![SINGLETON.to_owned(), immutable.to_owned()])
    );
    let rest = json!({ "spec": { "action": "Ignore", "waitTimeout": "2h" } });
    assert!(server.merge(EXAMPLE, &rest).await?.is_ok());
    Ok(())
}

/// Free-form values are stored unchanged; conditions are validated.
#[tokio::test]
async fn status_is_stored_unchanged() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let made = object(EXAMPLE, &json!({ "profile": EXAMPLE }))?;
    server.configs.create(&PostParams::default(), &made).await?;
    let target = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "n", "namespace": "ns" });
    let condition = |reason: &str| {
        json!({
            "type": "Drifted", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut status = json!({
        "phase": "Drifted",
        "items": [{
            "name": "a", "targetRef": target,
            "desiredState": { "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "b" } },
            "base": { "data.a": { "deep": [1, "two", { "three": 3 }] } },
            "takeovers": [{ "path": "data.a", "manager": "x", "live": [1, 2], "wanted": "text" }],
        }],
        "inputs": [{ "name": "i", "object": target, "path": "data.a", "raw": true, "derived": { "x": 1.5 } }],
        "applied": [{ "name": "a", "targetRef": target, "values": { "data.a": [] }, "revision": 1 }],
        "drift": [{ "item": "a", "path": "data.a", "applied": "b", "live": 7, "class": "ExternalEdit" }],
        "conditions": [condition("DriftDetected")],
    });
    let kept = server.merge_status(EXAMPLE, &status).await?;
    // Items of a plan are pending by default.
    status["items"][0]["state"] = json!("Pending");
    assert_eq!(kept.map(|kept| kept["status"].clone()), Ok(status));
    for (wrong, expected) in [
        (
            json!({ "phase": "Done" }),
            "status.phase: Unsupported value: \"Done\": supported values: \"Pending\"",
        ),
        (
            json!({ "conditions": [condition("not a reason")] }),
            "status.conditions[0].reason: Invalid value: \"not a reason\"",
        ),
    ] {
        let actual = server.merge_status(EXAMPLE, &wrong).await?;
        let actual = actual.err().unwrap_or_default();
        assert!(
            actual.len() == 1 && actual[0].starts_with(expected),
            "{wrong}: {actual:?}"
        );
    }
    Ok(())
}
