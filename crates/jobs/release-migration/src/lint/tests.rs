use super::*;

fn digest(letter: char) -> String {
    format!("quay.io/r@sha256:{}", letter.to_string().repeat(64))
}

/// A valid release: one operator, and its Deployment before it.
fn good() -> Files {
    let image = digest('b');
    let metadata =
        r#"{"kind":"cincinnati-metadata-v0","version":"4.18.0","previous":[]}"#.to_owned();
    let references = format!(
        "{{kind: ImageStream, apiVersion: image.openshift.io/v1, metadata: {{name: 4.18.0}}, spec: {{tags: [{{name: mco, from: {{kind: DockerImage, name: '{image}'}}}}]}}}}"
    );
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: mco, namespace: ns}}\nspec: {{args: ['--operator-image={image}']}}\n"
    );
    let operator = format!(
        "apiVersion: config.openshift.io/v1\nkind: ClusterOperator\nmetadata: {{name: machine-config}}\nstatus:\n  versions:\n  - {{name: operator, version: 4.18.0}}\n  - {{name: operator-image, version: '{image}'}}\n"
    );
    let pairs = [
        (METADATA, metadata),
        (REFERENCES, references),
        ("0000_80_machine-config_1_deployment.yaml", deployment),
        ("0000_80_machine-config_2_operator.yaml", operator),
    ];
    Files::from(pairs.map(|(name, text)| (name.to_owned(), text)))
}

const OPERATOR: &str = "0000_80_machine-config_2_operator.yaml";
const DEPLOYMENT: &str = "0000_80_machine-config_1_deployment.yaml";

fn changed(file: &str, from: &str, to: &str) -> Vec<Finding> {
    let mut files = good();
    let text = files.get_mut(file).unwrap();
    assert!(text.contains(from), "{from}");
    *text = text.replace(from, to);
    lint(&files)
}

#[track_caller]
fn one(found: &[Finding], severity: Severity, rule: Rule, file: &str, part: &str) {
    let it = found.iter().find(|it| it.rule == rule && it.file == file);
    let it = it.unwrap_or_else(|| panic!("{rule} in {file}: {found:#?}"));
    assert_eq!(it.severity, severity);
    assert!(it.message.contains(part), "{}", it.message);
}

#[test]
fn valid_release_has_no_findings() {
    assert_eq!(lint(&good()), []);
}

#[test]
fn operators_without_image_are_reported() {
    let image = digest('b');
    let line = format!("  - {{name: operator-image, version: '{image}'}}\n");
    let found = changed(OPERATOR, &line, "");
    one(
        &found,
        Severity::Warning,
        Rule::Adoption,
        OPERATOR,
        "does not report operator-image",
    );
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].operator.as_deref(), Some("machine-config"));
}

#[test]
fn remaining_placeholders_are_reported_with_line() {
    let image = digest('b');
    let left = format!("{PLACEHOLDER}:mco");
    let found = changed(OPERATOR, &image, &left);
    let part = format!("line 7: the placeholder {left} was not replaced");
    one(&found, Severity::Error, Rule::Placeholder, OPERATOR, &part);
    let found = changed(OPERATOR, "version: 4.18.0}", "version: 0.0.1-snapshot}");
    let part = "line 6: the snapshot version 0.0.1-snapshot was not replaced";
    one(&found, Severity::Error, Rule::Placeholder, OPERATOR, part);
}

#[test]
fn images_by_tag_are_reported() {
    let image = digest('b');
    let found = changed(REFERENCES, &image, "quay.io/r:4.18");
    one(
        &found,
        Severity::Error,
        Rule::Digest,
        REFERENCES,
        "image mco is quay.io/r:4.18, by tag",
    );
    let found = changed(OPERATOR, &image, "quay.io/r:4.18");
    let part = "operator-image is quay.io/r:4.18, by tag";
    one(&found, Severity::Error, Rule::Digest, OPERATOR, part);
    let found = changed(REFERENCES, &image, "quay.io/R");
    one(
        &found,
        Severity::Error,
        Rule::Digest,
        REFERENCES,
        "which is no image",
    );
}

#[test]
fn unreportable_images_are_reported() {
    let found = changed(OPERATOR, &digest('b'), &digest('c'));
    let part = "which image-references does not have";
    one(&found, Severity::Error, Rule::Image, OPERATOR, part);
    let found = changed(DEPLOYMENT, &digest('b'), "other");
    one(
        &found,
        Severity::Warning,
        Rule::ImageVariable,
        OPERATOR,
        "no operator can report it",
    );
}

#[test]
fn misordered_names_are_reported() {
    let mut files = good();
    let text = files.remove(DEPLOYMENT).unwrap();
    files.insert("0000_80_machine-config_9_deployment.yaml".to_owned(), text);
    let found = lint(&files);
    let part =
        "before deployment \"ns/mco\" of 0000_80_machine-config_9_deployment.yaml is applied";
    one(&found, Severity::Error, Rule::Order, OPERATOR, part);
    let mut files = good();
    files.insert(
        "extra.yaml".to_owned(),
        "{apiVersion: v1, kind: Secret}".to_owned(),
    );
    let part = "0000_NN_component_rest";
    one(
        &lint(&files),
        Severity::Warning,
        Rule::FileName,
        "extra.yaml",
        part,
    );
}

#[test]
fn versions_are_checked() {
    let found = changed(OPERATOR, "status:", "other:");
    one(
        &found,
        Severity::Error,
        Rule::Versions,
        OPERATOR,
        "no status.versions",
    );
    assert_eq!(found.len(), 1, "what has none is not asked for more");
    let found = changed(OPERATOR, "name: operator,", "name: operand,");
    one(
        &found,
        Severity::Error,
        Rule::Versions,
        OPERATOR,
        "named operator",
    );
    let found = changed(OPERATOR, "name: operator,", "name: operator-image,");
    let wrong: Vec<_> = found
        .iter()
        .filter(|it| it.rule == Rule::Versions)
        .collect();
    assert_eq!(wrong.len(), 2);
    let found = changed(OPERATOR, "version: 4.18.0}", "version: ''}");
    one(
        &found,
        Severity::Error,
        Rule::Versions,
        OPERATOR,
        "operator is empty",
    );
}

#[test]
fn duplicate_objects_are_reported() {
    let mut files = good();
    let text = files[DEPLOYMENT].clone();
    files.insert("0000_90_other_1.yaml".to_owned(), text);
    let found = lint(&files);
    let part = "deployment \"ns/mco\" is in 0000_80_machine-config_1_deployment.yaml as well";
    one(
        &found,
        Severity::Warning,
        Rule::Twice,
        "0000_90_other_1.yaml",
        part,
    );
}

#[test]
fn all_problems_of_an_invalid_release_are_reported() {
    let mut files = good();
    files.insert(OPERATOR.to_owned(), "a: [".to_owned());
    files.remove(METADATA);
    let found = lint(&files);
    assert_eq!(found.len(), 2);
    one(
        &found,
        Severity::Error,
        Rule::Integrity,
        OPERATOR,
        "parsing",
    );
    one(
        &found,
        Severity::Error,
        Rule::Integrity,
        "",
        "there is no file release-metadata",
    );
    let odd = changed(
        METADATA,
        "\"previous\":[]",
        "\"metadata\":{\"release.openshift.io/architecture\":\"arm64\"}",
    );
    one(
        &odd,
        Severity::Warning,
        Rule::Integrity,
        METADATA,
        "unrecognized",
    );
}
