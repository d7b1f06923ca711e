//! ValidatingAdmissionPolicies.

use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

use crate::webhooks_support::{WAIT_TIMEOUT, ask, map, warnings};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

struct Policies<'a> {
    cluster: &'a TestCluster,
    namespace: String,
}

impl Policies<'_> {
    fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    async fn create(&self, plural: &str, object: &Value) -> anyhow::Result<()> {
        let path = format!("{GROUP}/{plural}");
        let (code, body, _) = ask(self.cluster, "POST", &path, object).await?;
        anyhow::ensure!(code == 201, "{body}");
        Ok(())
    }

    /// A policy for the config maps of the namespace, and a binding of the same name. Waits until an object with the
    /// label `probe` is denied.
    async fn bind(&self, name: &str, spec: Value, binding: Value) -> anyhow::Result<()> {
        let mut policy = json!({
            "matchConstraints": {
                "resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""],
                    "apiVersions": ["v1"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            },
        });
        extend(&mut policy, spec);
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy});
        self.create("validatingadmissionpolicies", &policy).await?;
        let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
        extend(&mut bound, binding);
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": bound});
        self.create("validatingadmissionpolicybindings", &binding)
            .await
    }

    /// Waits until creating a config map returns a status code.
    async fn wait(&self, probe: &Value, expected: u16) -> anyhow::Result<()> {
        let path = format!("{}?dryRun=All", self.maps());
        wait_until("the policy is active", WAIT_TIMEOUT, || async {
            let (code, _, _) = ask(self.cluster, "POST", &path, probe).await?;
            Ok((code == expected).then_some(()))
        })
        .await
    }
}

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

#[tokio::test]
async fn policies_deny_with_their_own_messages() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("policies").await?;
    let policies = Policies {
        cluster: &cluster,
        namespace,
    };
    let validations = json!([
        {"expression": "object.data.key != 'plain'"},
        {"expression": "object.data.key != 'fixed'", "message": " fixed text ", "reason": "Forbidden"},
        {"expression": "object.data.key != 'made'", "message": "fixed",
            "messageExpression": "'made for ' + object.metadata.name + variables.tail"},
        {"expression": "object.data.key != 'lost' || object.data.missing == ''"},
        {"expression": "object.data.key != 'broken' || variables.broken"},
        {"expression": "object.data.key != 'spaced' || namespaceObject.metadata.name == 'other'",
            "message": "not here"},
    ]);
    let spec = json!({
        "validations": validations,
        "variables": [
            {"name": "tail", "expression": "'!'"},
            {"name": "broken", "expression": "object.data.nothing == variables.tail"},
        ],
        "matchConditions": [{"name": "keyed", "expression": "has(object.data) && 'key' in object.data"}],
    });
    policies.bind("words", spec, json!({})).await?;
    policies
        .wait(&map("probe", json!({"key": "plain"})), 422)
        .await?;
    let denied = "ValidatingAdmissionPolicy 'words' with binding 'words' denied request";
    for (key, code, reason, message) in [
        (
            "plain",
            422,
            "Invalid",
            "failed expression: object.data.key != 'plain'",
        ),
        ("fixed", 403, "Forbidden", "fixed text"),
        ("made", 422, "Invalid", "made for x!"),
        (
            "lost",
            422,
            "Invalid",
            "expression 'object.data.key != 'lost' || object.data.missing == ''' resulted in error: no \
             such key: missing",
        ),
        (
            "broken",
            422,
            "Invalid",
            "expression 'object.data.key != 'broken' || variables.broken' resulted in error: composited \
             variable \"broken\" fails to evaluate: no such key: nothing",
        ),
        ("spaced", 422, "Invalid", "not here"),
    ] {
        let object = map("x", json!({"key": key}));
        let (got, body, _) = ask(&cluster, "POST", &policies.maps(), &object).await?;
        assert_eq!(got, code, "{key}: {body}");
        assert_eq!(body["reason"], reason, "{key}");
        let why = format!("{denied}: {message}");
        assert_eq!(
            body["message"],
            format!("configmaps \"x\" is forbidden: {why}"),
            "{key}"
        );
        assert_eq!(
            body["details"],
            json!({"name": "x", "kind": "configmaps", "causes": [{"message": why}]}),
            "{key}"
        );
    }
    for (name, data) in [
        ("good", json!({"key": "good"})),
        ("keyless", json!({"other": "plain"})),
    ] {
        let (code, body, _) = ask(&cluster, "POST", &policies.maps(), &map(name, data)).await?;
        assert_eq!(code, 201, "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn bindings_choose_parameters_and_consequences() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("bindings").await?;
    let policies = Policies {
        cluster: &cluster,
        namespace: namespace.clone(),
    };
    let limits = format!("/api/v1/namespaces/{namespace}/configmaps");
    let (code, body, _) = ask(
        &cluster,
        "POST",
        &limits,
        &map("limits", json!({"most": "3"})),
    )
    .await?;
    assert_eq!(code, 201, "{body}");
    let mut limited = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    limited["validations"] = json!([{
        "expression": "int(object.data.count) <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most",
    }]);
    limited["matchConditions"] =
        json!([{"name": "counted", "expression": "has(object.data) && 'count' in object.data"}]);
    let by_name = |name: &str, action: &str| {
        json!({"validationActions": [action],
            "paramRef": {"name": name, "parameterNotFoundAction": "Deny"}})
    };
    policies
        .bind("limited", limited.clone(), by_name("limits", "Deny"))
        .await?;
    policies
        .wait(&map("probe", json!({"count": "9"})), 422)
        .await?;
    let (code, body, _) = ask(&cluster, "POST", &limits, &map("a", json!({"count": "9"}))).await?;
    assert_eq!(code, 422, "{body}");
    assert_eq!(
        body["message"],
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'limited' with binding 'limited' \
         denied request: at most 3"
    );
    let (code, body, _) = ask(&cluster, "POST", &limits, &map("b", json!({"count": "3"}))).await?;
    assert_eq!(code, 201, "{body}");
    // With missing parameters every request is denied.
    policies
        .bind("missing", limited.clone(), by_name("nowhere", "Deny"))
        .await?;
    policies
        .wait(&map("probe", json!({"count": "1"})), 422)
        .await?;
    let (_, body, _) = ask(&cluster, "POST", &limits, &map("c", json!({"count": "1"}))).await?;
    assert_eq!(
        body["message"],
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'missing' with binding 'missing' \
         denied request: failed to configure binding: no params found for policy binding with `Deny` \
         parameterNotFoundAction"
    );
    for kind in [
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicies",
    ] {
        for name in ["missing", "limited"] {
            let path = format!("{GROUP}/{kind}/{name}");
            let (code, body, _) = ask(&cluster, "DELETE", &path, &Value::Null).await?;
            assert_eq!(code, 200, "{body}");
        }
    }
    policies
        .wait(&map("probe", json!({"count": "9"})), 201)
        .await?;
    // A warning does not deny the request.
    policies
        .bind("warned", limited, by_name("limits", "Warn"))
        .await?;
    let path = format!("{limits}?dryRun=All");
    let object = map("d", json!({"count": "9"}));
    let warned = wait_until("a warning", WAIT_TIMEOUT, || async {
        let (code, body, headers) = ask(&cluster, "POST", &path, &object).await?;
        anyhow::ensure!(code == 201, "{body}");
        Ok(warnings(&headers)
            .first()
            .map(|&warning| warning.to_owned()))
    })
    .await?;
    assert_eq!(
        warned,
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'warned' with binding 'warned': at most 3\""
    );
    Ok(())
}
