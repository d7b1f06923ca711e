//! Precedence of file, environment and command line.

use std::ffi::OsString;

use super::complete;
use crate::args;

/// The command line after adding the settings in `text`.
fn completed(text: &str, given: &[&str]) -> anyhow::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("medley.yaml");
    std::fs::write(&path, text)?;
    let config = format!("--config={}", path.display());
    let line = ["medley", "run", &config]
        .into_iter()
        .chain(given.iter().copied());
    let line: Vec<OsString> = line.map(OsString::from).collect();
    let completed = complete(&line, &args::command("medley"))?.unwrap_or_default();
    // Invalid values are rejected with the messages of flags.
    args::command("medley").try_get_matches_from(&completed)?;
    let words = completed.into_iter().skip(line.len());
    Ok(words.map(|word| word.into_string().unwrap()).collect())
}

#[test]
fn settings_are_flags_in_another_form() {
    let text = "controllers: [governance, release]\nleader-elect: false\nconsole: 127.0.0.1:1\n\
                console-behind-tls: true\nnamespace: here\n";
    assert_eq!(
        completed(text, &[]).unwrap(),
        [
            "--console=127.0.0.1:1",
            "--console-behind-tls",
            "--controllers=governance",
            "--controllers=release",
            "--leader-elect=false",
            "--namespace=here",
        ]
    );
    for empty in ["", "\n", "# nothing yet\n", "{}"] {
        assert_eq!(completed(empty, &[]).unwrap(), [""; 0], "{empty:?}");
    }
}

#[test]
fn flags_override_the_file() {
    let text = "namespace: there\nleader-elect: false\n";
    let given = ["--namespace", "here"];
    assert_eq!(completed(text, &given).unwrap(), ["--leader-elect=false"]);
}

#[test]
fn file_provides_missing_flags() {
    let text = "console: 127.0.0.1:1\n";
    let given = ["--console-host=a.example"];
    assert_eq!(completed(text, &given).unwrap(), ["--console=127.0.0.1:1"]);
}

#[test]
fn invalid_input_is_rejected() {
    for (text, expected) in [
        (
            "namespaces: here",
            "unknown setting \"namespaces\"; expected one of: allow-address, audit-entries, authfile,",
        ),
        ("config: other.yaml", "unknown setting \"config\""),
        ("verbose: 2", "unknown setting \"verbose\""),
        ("namespace: [a, b]", "expected one value, not a list"),
        ("namespace: {a: b}", "expected text, a number or a boolean"),
        ("namespace:", "expected text, a number or a boolean"),
        ("console-behind-tls: maybe", "expected true or false"),
        ("controllers: [{}]", "in its list"),
        ("controllers: knitting", "unknown controller"),
        ("- a", "expected a map of flag names"),
        ("a: b: c", "expected a map of flag names"),
    ] {
        let refused = format!("{:#}", completed(text, &[]).unwrap_err());
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    let line = ["medley", "run", "--config", "/nowhere/medley.yaml"].map(OsString::from);
    let refused = complete(&line, &args::command("medley")).unwrap_err();
    assert!(
        format!("{refused:#}").contains("/nowhere/medley.yaml"),
        "{refused:#}"
    );
}

#[test]
fn only_long_running_commands_take_a_file() {
    let line = ["medley", "version", "--config", "x"].map(OsString::from);
    assert_eq!(complete(&line, &args::command("medley")).unwrap(), None);
}

/// Every setting of the file is available as an environment variable, too.
#[test]
fn every_file_setting_has_an_environment_variable() {
    let command = args::command("medley");
    for name in ["run", "webhook"] {
        let command = command.find_subcommand(name).unwrap();
        for argument in super::accepted(command) {
            let variable = argument.get_env().and_then(|it| it.to_str());
            assert!(
                variable.is_some(),
                "{name} --{}",
                argument.get_long().unwrap()
            );
        }
    }
}
