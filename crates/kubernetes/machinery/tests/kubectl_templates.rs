//! Templates of `-o jsonpath` print what kubectl prints.

use std::path::Path;
use std::process::Command;

use machinery::jsonpath::{MissingFields, Template};
use serde_json::{Value, json};

fn sample() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "sample", "namespace": "default",
            "labels": { "q": "1", "a.b/c": "<&>", "empty": "" },
        },
        // kubectl visits the fields of an object in random order, so wildcards have only one to visit.
        "data": { "k": "l m" },
        "numbers": [1, 2.5, 1e21, -3, true, null, "x"],
        "rows": [
            { "name": "a", "n": 1, "tags": ["x", "y"], "on": true },
            { "name": "b", "n": 2, "tags": [], "on": false },
            { "name": "c", "n": 3, "nested": { "z": 1, "y": [1, "2"] } },
        ],
    })
}

/// Templates, from kubectl's documentation and its corners.
const TEMPLATES: &[&str] = &[
    "{.metadata.name}",
    ".metadata.name",
    "text only",
    "a{.kind}b{.apiVersion}c",
    "{$.kind}{@.kind}{ .kind }",
    "{.metadata.labels}",
    "{.metadata.labels.a\\.b/c}",
    "{.metadata.labels['a\\.b/c']}",
    "{.metadata['name','namespace']}",
    "{.missing}|{.missing.deeper}|",
    "{.rows[*].name}",
    "{.rows[0].name} {.rows[-1].name} {.rows[1:].name} {.rows[:2].name} {.rows[0:3:2].name}",
    "{.rows[0,2].name}",
    "{.rows[-2:].name}",
    "{range .rows[*]}{.name}{\"\\t\"}{.n}{\"\\n\"}{end}",
    "{range .rows[*]}[{.name}:{range .tags[*]}<{@}>{end}]{end}-{.kind}",
    "{range .missing[*]}{.name}{end}after",
    "{range .rows[*]}{.name}",
    "{.rows[?(@.name==\"b\")].n}",
    "{.rows[?(@.n>1)].name}",
    "{.rows[?(@.n!=2)].name}",
    "{.rows[?(@.on==true)].name}",
    "{.rows[?(@.nested)].name}",
    "{.rows[?(@.name=='c')].nested}",
    "{.rows..name}",
    "{.data.*}",
    "{.rows[*].tags[*]}",
    "{.rows[*]['name','n']}",
    "{.numbers}",
    "{.numbers[0]} {.numbers[1]} {.numbers[2]} {.numbers[3]} {.numbers[4]} {.numbers[6]}",
    "{\"quoted\"}{'single'}{1}{2.5}{true}",
    "{.kind \"x\"}",
    "{.rows[0]}",
    "{.rows[2].nested.y}",
    "{.rows}",
    // Errors.
    "{.kind",
    "{unknown}",
    "{end}",
    "{.rows[9]}",
    "{.metadata[0]}",
    "{.metadata[?(@.a)]}",
    "{.rows[x]}",
    "{.rows[\"x\"]}",
    "{.rows[?(@.name==1)]}",
    "{.rows[0}",
];

#[test]
fn templates_agree_with_kubectl() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("jsonpath-sample.json");
    std::fs::write(&file, sample().to_string())?;
    for (kind, template) in TEMPLATES
        .iter()
        .flat_map(|it| [("jsonpath", it), ("jsonpath-as-json", it)])
    {
        // Writes the label that is there already, to have the object printed without a server.
        let output = Command::new("kubectl")
            .args(["label", "--local", "--overwrite", "q=1", "-f"])
            .arg(&file)
            .args(["-o", &format!("{kind}={template}")])
            .env("HOME", folder)
            .env("KUBECONFIG", folder.join("none"))
            .output()?;
        let object = sample();
        let rendered = Template::parse(template).and_then(|it| match kind {
            "jsonpath" => it.render(&object, MissingFields::Ignore),
            _ => it.render_json(&object, MissingFields::Ignore),
        });
        let expected = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        match rendered {
            Ok(text) => {
                assert!(
                    output.status.success(),
                    "{kind} {template}: {text:?}, but {error}"
                );
                assert_eq!(text, expected, "{kind} {template}");
            }
            Err(why) => {
                assert!(
                    !output.status.success(),
                    "{kind} {template}: {why}, but {expected:?}"
                );
            }
        }
    }
    Ok(())
}
