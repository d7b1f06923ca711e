//! Prints the manifests that an installation with golden images needs besides the others;
//! `cargo xtask generate` keeps them in `deploy`.
//!
//! Every file begins with a line `# file: PATH`. Every layer is switched on by itself, and has rights
//! of its own.

use std::io::Write as _;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;

const NAMESPACE: &str = "medley-system";
const OPERATOR: &str = "medley-operator";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let text = layer("images-cdi", &golden::cdi::roles::rules())?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The rights of a layer, for the operator.
fn layer(name: &str, rules: &[PolicyRule]) -> Result<String, Failure> {
    let role = format!("{OPERATOR}-{name}");
    let labels = json!({
        "app.kubernetes.io/name": OPERATOR,
        "app.kubernetes.io/part-of": "medley",
    });
    let objects = [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": role, "labels": labels },
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": role, "labels": labels },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE }],
        }),
    ];
    let mut text = format!(
        "# file: deploy/optional/{name}.yaml\n# Written by `cargo xtask generate`; edit crates/golden/examples/deploy.rs instead.\n"
    );
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}
