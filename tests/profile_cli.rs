//! `medley profile`: a profile is checked, tested, rendered and packed without a cluster.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::path::{Path, PathBuf};
use std::process::Output;

use binary::{medley, text};
use serde_json::Value;

const PROFILE: &str = r"
apiVersion: medley.dev/v1alpha1
kind: PlatformProfile
metadata:
  name: quota.example.com
spec:
  description: Limits the pods of a namespace
  impact: Medium
  options:
    type: object
    properties:
      pods: {type: integer, minimum: 1, default: 10}
  kinds:
  - {name: quotas, kind: ResourceQuota, resource: resourcequotas, versions: [v1]}
  - {name: namespaces, kind: Namespace, resource: namespaces, versions: [v1]}
  reads:
  - name: team
    of: namespaces
    object: {name: team}
  items:
  - name: limit-pods
    target: {of: quotas, name: pods, namespace: team}
    object:
      spec:
        hard: {pods: '${string(options.pods)}'}
    managed: [spec.hard]
    message: Namespace 'team' will be limited to ${options.pods} pods
  warnings:
  - when: '!has(team.metadata)'
    message: There is no namespace team
";

const CASES: &str = r"
- name: ten pods by default
  items:
    limit-pods: {impact: Medium, object: {spec: {hard: {pods: '10'}}}}
  warnings: [There is no namespace team]
- name: as many as asked for
  options: {pods: 3}
  objects:
  - {apiVersion: v1, kind: Namespace, metadata: {name: team}}
  items:
    limit-pods: {message: Namespace 'team' will be limited to 3 pods}
  warnings: []
- name: no pods at all
  options: {pods: 0}
  refused: options.values.pods
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn file(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.path(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn sound_profile_is_accepted_with_its_permissions() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let profile = folder.file("profile.yaml", PROFILE)?;
    let said = ok(&medley(&["profile", "lint", &profile]));
    assert_eq!(
        said,
        "The operator needs these permissions:\n  \
         namespaces: get, list, watch\n  \
         resourcequotas: get, list, watch, create, patch, delete\n"
    );
    Ok(())
}

#[test]
fn lint_names_the_place_and_the_reason() -> anyhow::Result<()> {
    for (from, to, said) in [
        (
            "options.pods)}'",
            "options.pots)}'",
            "error: spec.items[0].object.spec.hard.pods: compilation failed: ERROR: <input>:1:15: undefined field 'pots'",
        ),
        (
            "managed: [spec.hard]",
            "managed: [spec.soft]",
            "error: spec.items[0].managed[0]: the object of the item never sets spec.soft",
        ),
        (
            "kind: ResourceQuota, resource: resourcequotas",
            "kind: Secret, resource: secrets",
            "error: spec.kinds[0]: profiles cannot use Secrets",
        ),
        (
            "quota.example.com",
            "virt-higher-density",
            "names without a dot are those of built-in profiles",
        ),
        (
            "impact: Medium",
            "impacts: Medium",
            "spec.impacts: there is no such field",
        ),
        (
            "'!has(team.metadata)'",
            "team.spec.finalizers.exists(a, team.spec.finalizers.exists(b, a == b))",
            "error: spec.warnings[0].when: the expression may cost",
        ),
        (
            "'!has(team.metadata)'",
            "'true'",
            "warning: spec.warnings[0].when: the condition always holds\nwarning: spec.reads[0]: nothing uses team",
        ),
    ] {
        assert!(PROFILE.contains(from), "{from}");
        let folder = Folder::new()?;
        let profile = folder.file("profile.yaml", &PROFILE.replace(from, to))?;
        let output = medley(&["profile", "lint", &profile]);
        let findings = text(&output.stdout);
        assert!(findings.contains(said), "{findings}");
        assert_eq!(
            output.status.success(),
            !findings.contains("error: "),
            "{findings}"
        );
    }
    Ok(())
}

#[test]
fn cases_pass_and_differences_are_named() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let profile = folder.file("profile.yaml", PROFILE)?;
    let cases = folder.file("cases.yaml", CASES)?;
    let said = ok(&medley(&["profile", "test", &profile, "--cases", &cases]));
    assert_eq!(
        said,
        "ten pods by default: ok\nas many as asked for: ok\nno pods at all: ok\n"
    );
    let wrong = folder.file("wrong.yaml", &CASES.replace("pods: '10'", "pods: '11'"))?;
    let output = medley(&["profile", "test", &profile, "--cases", &wrong]);
    assert!(!output.status.success());
    let said = text(&output.stdout);
    assert!(
        said.contains("ten pods by default: FAILED\n  limit-pods.object.spec.hard.pods is \"10\", expected \"11\"\n"),
        "{said}"
    );
    assert!(text(&output.stderr).contains("1 of 3 cases failed"));
    Ok(())
}

#[test]
fn profile_is_rendered_from_a_file_of_objects() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let profile = folder.file("profile.yaml", PROFILE)?;
    let objects = folder.file(
        "objects.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n",
    )?;
    let line = [
        "profile",
        "render",
        &profile,
        "--from",
        &objects,
        "--options",
        "{pods: 3}",
    ];
    let rendered = ok(&medley(&line));
    assert!(
        rendered
            .contains("# limit-pods (impact Medium): Namespace 'team' will be limited to 3 pods\n"),
        "{rendered}"
    );
    assert!(!rendered.contains("Warning"), "{rendered}");
    let object: Value = serde_saphyr::from_str(&rendered)?;
    assert_eq!(object["spec"]["hard"]["pods"], "3");
    let rbac = ok(&medley(&["profile", "render", &profile, "--rbac"]));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rbac)?;
    assert_eq!(
        objects[0]["metadata"]["name"],
        "medley-profile:quota.example.com"
    );
    assert_eq!(objects[1]["subjects"][0]["namespace"], "medley-system");
    Ok(())
}

#[test]
fn packed_profile_is_read_like_the_file() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let profile = folder.file("profile.yaml", PROFILE)?;
    let to = folder.path("artifact");
    let image = format!("oci:{}", to.display());
    let digest = ok(&medley(&["profile", "pack", &profile, "--to", path(&to)]));
    assert!(digest.starts_with("sha256:"), "{digest}");
    assert_eq!(
        ok(&medley(&["profile", "lint", &image])),
        ok(&medley(&["profile", "lint", &profile]))
    );
    let again = medley(&["profile", "pack", &profile, "--to", path(&to)]);
    assert!(
        text(&again.stderr).contains("exists already"),
        "nothing is overwritten"
    );
    Ok(())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
