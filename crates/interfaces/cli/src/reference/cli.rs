//! The command line page.

use std::fmt::Write as _;

use clap::{Arg, Args as _, Command};

use crate::cluster::{CONNECTION, ClusterArguments};

/// Markdown for all commands, in the order of their help.
pub(super) fn page() -> String {
    let mut page = String::from(
        "# Command line\n\n<!-- Written by `cargo xtask generate`; edit the help texts in crates/interfaces/cli instead. -->\n<!-- not run, all of the page: examples of the help, which have to be accepted -->\n",
    );
    let mut command = crate::command("medley");
    command.build();
    describe(&command, "medley", &mut page);
    page.push_str("\n## Connection flags\n\nCommands that talk to a cluster accept these flags of kubectl, with the same meaning.\n\n");
    let connection = ClusterArguments::augment_args(Command::new("connection"));
    for argument in connection.get_arguments().filter(|it| is_connection(it)) {
        let _ = writeln!(page, "* `{}`: {}", name(argument), help(argument));
    }
    page
}

fn describe(command: &Command, path: &str, page: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about());
    let usage = command.clone().bin_name(path).render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = write!(page, "\n## `{path}`\n\n");
    if let Some(about) = about {
        let _ = write!(page, "{about}\n\n");
    }
    let _ = write!(page, "```text\n{usage}\n```\n");
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    if !arguments.is_empty() {
        page.push('\n');
    }
    for argument in arguments.iter().filter(|it| !is_connection(it)) {
        let _ = writeln!(page, "* `{}`: {}", name(argument), help(argument));
    }
    if arguments.iter().any(|it| is_connection(it)) {
        let _ = writeln!(page, "* and the [connection flags](#connection-flags)");
    }
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let lines = examples.lines().skip(1).map(str::trim);
        let lines: Vec<&str> = lines.collect();
        let _ = write!(page, "\n```sh\n{}\n```\n", lines.join("\n"));
    }
    for child in command.get_subcommands() {
        if !child.is_hide_set() && child.get_name() != "help" {
            describe(child, &format!("{path} {}", child.get_name()), page);
        }
    }
}

/// Whether it is one of the flags that are listed once, for all commands.
fn is_connection(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(CONNECTION)
}

/// `-v, --verbose`, `--data <DIR>` or `<DIR>`.
fn name(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .map(|names| {
            names
                .iter()
                .map(|name| format!("<{name}>"))
                .collect::<Vec<_>>()
                .join(" ")
        });
    let flags: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    match (flags.join(", "), value) {
        (flags, None) => flags,
        (flags, Some(value)) if flags.is_empty() => value,
        (flags, Some(value)) => format!("{flags} {value}"),
    }
}

fn help(argument: &Arg) -> String {
    let text = argument.get_long_help().or_else(|| argument.get_help());
    let mut help = text
        .map(|text| text.to_string().replace('\n', " "))
        .unwrap_or_default();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        let _ = write!(help, " One of {}.", values.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(help, " [default: {}]", defaults.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(help, " [env: {}]", variable.to_string_lossy());
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_page_matches_help_without_hidden_flags() {
        let page = page();
        for part in [
            "## `medley apiserver`",
            "* `--data <DIR>`:",
            "[default: 127.0.0.1:6443]",
            "`zsh`",
        ] {
            assert!(page.contains(part), "{part} in\n{page}");
        }
        assert!(!page.contains("__envtest"), "{page}");
    }
}
